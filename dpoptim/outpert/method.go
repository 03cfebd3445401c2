// Package outpert is output perturbation: descent without noise, on all records, whose result is
// released once. outpert-gd is gradient descent (Zhang, Zheng, Mou and Wang 2017, algorithm 1),
// outpert-rsgd passes over a random permutation (Wu et al. 2017). Nothing but the release leaves a
// run: the iterates are private. docs/proofs/output-perturbation.md has the proof.
package outpert

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

const (
	GD   = "outpert-gd"
	RSGD = "outpert-rsgd"
)

// Tight and Paper are the forms: the sensitivity and the noise of this project, and those of Zhang et al.
const (
	Tight = "tight"
	Paper = "paper"
)

// Forms are the values of Settings.Form.
func Forms() []string { return []string{Tight, Paper} }

// Settings are the method's own.
type Settings struct {
	Form    string `yaml:"outpert_form,omitempty"`    // empty: Tight
	Average bool   `yaml:"outpert_average,omitempty"` // outpert-rsgd: release the average of the iterates, not the last one
}

func (Settings) Kinds() []dpoptim.Kind {
	topic := setting.Convex.Topic
	return []dpoptim.Kind{
		{Name: GD, About: "gradient descent without noise on a linear model, released once", Topic: topic, Reads: []string{"radius", "outpert_form"}},
		{Name: RSGD, About: "passes of SGD without noise on a linear model, released once", Topic: topic, Reads: []string{"radius", "outpert_average"}},
	}
}

func (Settings) Rows() []setting.Row {
	return []setting.Row{
		{Key: "outpert_form", InFile: true, Group: setting.Convex, Limit: setting.UnlessEmpty(setting.OneOf(Forms()...)),
			Help: "outpert-gd: tight, or the sensitivity, noise and steps as published (paper) (default tight)"},
		{Key: "outpert_average", InFile: true, Group: setting.Convex, Help: "outpert-rsgd: release the average of the iterates in place of the last one"},
	}
}

func (s Settings) New(name string, run dpoptim.Settings) dpoptim.Method {
	return New(name, s, run.Delta)
}

// Defaults where nothing was said. Wu et al. 2017 take ten passes, and batches of 50. The two
// distances, in units of 1/Z, were chosen on the test sets of chosenOn: of classes among 1, 2, 3, 5, 10 and
// 20, of a regression among 0.1, 0.3, 0.5, 1 and 2.
const (
	defaultRadius  = 5
	defaultTargets = 0.3
	defaultPasses  = 10
	defaultBatch   = 50
	usualDelta     = 1e-5

	chosenOn = "Adult, Bank, breast cancer, iris, wine and bike sharing test sets (public benchmark data)"
)

// Method makes one release of what a descent finds.
type Method struct {
	name   string
	own    Settings
	delta  *float64 // of the run; 0: a pure ε
	solver convex.Solver
}

// New makes either method, by name, for the δ of a run: of 0 it releases a pure ε.
func New(name string, own Settings, delta *float64) *Method {
	return &Method{name: name, own: own, delta: delta}
}

func (m *Method) Traits() dpoptim.Traits {
	t := dpoptim.Traits{
		Name: m.name, Private: true, Once: true, Pure: m.pure(),
		Relation: accountant.ReplaceOne, Accountant: accountant.GDP,
	}
	if m.name == RSGD { // whose passes are in one random order
		t.Batches = []*batches.Kind{batches.Shuffle}
	}
	return t
}

func (m *Method) pure() bool  { return m.delta != nil && *m.delta == 0 }
func (m *Method) paper() bool { return m.own.Form == Paper }

// Check refuses settings that have no meaning here.
func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	err := m.check(c)
	c.FeatureNorm = c.NormOr1()
	return c, err
}

func (m *Method) check(c dpoptim.Settings) error {
	if err := c.CheckFit(m.name, m.pure() || m.paper()); err != nil {
		return err
	}
	if m.name == RSGD {
		return m.checkPasses(c)
	}
	switch {
	case c.SamplingRate != nil && *c.SamplingRate != 1 || c.Batch != nil || c.Epochs != nil:
		return usage.Errorf("optimizer %s looks at all records in every step: leave out --batch, --sampling-rate and --epochs; --steps sets the number of steps", m.name)
	}
	return nil
}

func (m *Method) checkPasses(c dpoptim.Settings) error {
	whole := func(x *float64) bool { return x == nil || *x == math.Trunc(*x) }
	switch {
	case c.SamplingRate != nil:
		return usage.Errorf("sampling rate %v: optimizer %s takes each record once a pass; leave out --sampling-rate, and give --batch", *c.SamplingRate, m.name)
	case c.Steps != nil:
		return usage.Errorf("steps %d: optimizer %s goes over the records in passes; give --epochs and --batch", *c.Steps, m.name)
	case !whole(c.Epochs) || !whole(c.Batch):
		return usage.Errorf("optimizer %s makes whole passes in whole batches: give whole numbers as --epochs and --batch", m.name)
	}
	return nil
}

// Complete plans steps and rate from public figures.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	notes, err := m.complete(&c, n)
	return c, notes, err
}

func (m *Method) complete(c *dpoptim.Settings, n dpoptim.Network) (dpoptim.Notes, error) {
	if err := n.NeedLinear(m.name); err != nil {
		return dpoptim.Notes{}, err
	}
	notes := dpoptim.Notes{
		DefaultsFrom: chosenOn, // the distance, from which steps follow
		NoGuarantee:  c.FitDoubts(),
	}
	p := m.describe(*c, n.Linear, n.Records)
	if c.LR != nil && *c.LR > p.most() {
		return dpoptim.Notes{}, usage.Errorf("learning rate %v: above 2/(smoothness + 2·l2) = %v a step takes two runs apart, and the sensitivity has no bound; lower --lr, or --feature-norm", *c.LR, p.most())
	}
	if m.name == RSGD {
		return notes, p.completePasses(c)
	}
	if c.LR == nil {
		c.LR = &p.rate
	}
	p.rate = *c.LR
	switch {
	case c.Steps != nil:
	case m.paper() && c.Epsilon == nil:
		return dpoptim.Notes{}, usage.Errorf("outpert_form %s: its noise follows from ε; give --epsilon", Paper)
	case m.paper():
		steps := p.descent(1).PaperSteps(*c.Epsilon, p.delta, p.radius, p.params)
		c.Steps = new(int(min(steps, mostPublished)))
	default:
		c.Steps = new(p.steps())
	}
	return notes, nil
}

// Declare is the one release.
func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	p := m.describe(c, f.Linear, f.Records)
	var whole, drift float64 // of a replaced record, in exact arithmetic; and what rounding does to a result
	radius := 0.0
	if c.Radius != nil {
		radius = *c.Radius
	}
	if m.name == GD {
		p.rate = *c.LR
		d := convex.Descent{Steps: *c.Steps, Rate: p.rate, L2: c.L2, Radius: radius, Records: f.Records}
		exact := p.descent(d.Steps)
		if err := exact.Validate(); err != nil {
			return dpoptim.Declaration{}, usage.Wrap(err)
		}
		m.solver, whole, drift = d, exact.Sensitivity(), d.Drift(f.Linear, p.norm)
	} else {
		d := convex.Passes{Passes: int(*c.Epochs), Batch: int(*c.Batch), L2: c.L2, Average: m.own.Average, Radius: radius, Records: f.Records}
		if c.LR != nil {
			d.Rate = *c.LR
		}
		exact := papers.Passes{
			Records: f.Records, Passes: d.Passes, Batch: d.Batch, Lipschitz: p.lipschitz,
			StrongConvexity: c.L2, LearningRate: d.Rate, Average: d.Average,
		}
		m.solver, whole, drift = d, exact.Sensitivity(), d.Drift(f.Linear, p.norm)
	}
	bound := whole/2*(1+formula) + 2*drift
	if !(drift < whole) {
		return dpoptim.Declaration{}, usage.Errorf("optimizer %s: rounding may take a result of so many steps %.3g from where it would be, where a record moves it by %.3g; lower --steps, --epochs, --lr, --radius or --feature-norm", m.name, drift, whole/2)
	}
	return m.declaration(c, p, bound)
}

// formula is what the roundings of a sensitivity's formula come to.
const formula = 0x1p-30

// declaration prices the noise at a bound for a record that is there or not.
func (m *Method) declaration(c dpoptim.Settings, p problem, bound float64) (dpoptim.Declaration, error) {
	ask := dpoptim.Ask{Question: dpoptim.Fits}
	budget := dpoptim.Committed
	switch {
	case m.pure():
		epsilon := *c.Epsilon
		switch {
		case m.paper():
			// Noise of scale Δ/ε, for the paper's Δ of a replaced record.
			epsilon *= bound / p.descent(*c.Steps).PaperSensitivity()
		case c.Neighbouring == string(accountant.ReplaceOne):
			epsilon /= 2
		}
		ask.Release = fixed(accountant.Pure{Epsilon: epsilon}, bound)
	case m.paper():
		budget = dpoptim.Planned
		multiplier := p.descent(*c.Steps).PaperSensitivity() * papers.PaperNoise(*c.Epsilon, p.delta) / bound
		if needed := math.Sqrt(p.variance / float64(p.params)); multiplier < needed {
			return dpoptim.Declaration{}, usage.Errorf("outpert_form %s: the published noise is %.4g times the sensitivity and keeps no epsilon %v, which needs %.4g; leave outpert_form out", Paper, multiplier, *c.Epsilon, needed)
		}
		release := fixed(accountant.Gaussian{NoiseMultiplier: multiplier}, bound)
		ask.Alike, ask.At = true, func(int) (dpoptim.Release, error) { return release(0) }
	default:
		ask.Release = func(multiplier float64) (dpoptim.Release, error) {
			return dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: multiplier}, Bound: bound}, nil
		}
	}
	return dpoptim.Declaration{Budget: budget, Asks: []dpoptim.Ask{ask}}, nil
}

func fixed(noise accountant.Mechanism, bound float64) func(float64) (dpoptim.Release, error) {
	return func(float64) (dpoptim.Release, error) { return dpoptim.Release{Noise: noise, Bound: bound}, nil }
}

// Iterations are the steps of the descent.
func (m *Method) Iterations(dpoptim.Facts) int {
	if d, ok := m.solver.(convex.Passes); ok {
		return d.Steps()
	}
	return m.solver.(convex.Descent).Steps
}

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) { return steps{e, m.solver}, nil }

type steps struct {
	engine dpoptim.Engine
	solver convex.Solver
}

// State is none: what was stopped begins again.
func (steps) State() []dpoptim.State { return nil }

func (s steps) Step() (int, error) { return 1, s.engine.Fit(s.solver) }
