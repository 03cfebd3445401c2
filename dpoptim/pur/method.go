// Package pur has gradient descent on all records with noise that is fixed in advance: the
// schedules of Fay, Magnússon, Sjölund and Johansson 2023, "Adaptive Hyperparameter Selection for
// Differentially Private Gradient Descent", which spend by the privacy-utility ratio, and what
// they are compared with. docs/proofs/pur.md has the proofs.
//
//	pur-a         σ_t = 4M√F0/(√d·t), or with pur_k 4k√(MF0)/(√d·t), for smooth losses
//	pur-b         σ_t = 4kMR/(√d·t), for convex losses, on the ball of --radius
//	pur-c         σ_t² = k²·2μF0·r^t/d, for strongly convex losses: with --l2
//	pur-constant  σ_t is --pur-sigma
//	pur-oracle    σ_t = k‖∇F‖/√d, which reads the gradient without noise: NOT PRIVATE
//	noisy-gd      one σ, from the number of steps
//
// A step is w ← Π(w − η(∇F(w) + N(0, σ_t²·I))) from zero weights, where Π scales w to the norm of
// --radius at most, if that is given. F is the mean over the public number of records N of the
// losses, with the penalty λ/2·‖w‖². L, M and F0 follow from the bound on the features' norm.
//
// Defaults: η is 1/(M(1+k²)) with k = 1, and 1/M of noisy-gd. The steps of pur-a, -b, -c
// and -constant are the most that the budget pays for, by exact GDP; those of
// noisy-gd minimise a public bound on the excess; pur-oracle makes 100.
package pur

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// The methods' names.
const (
	NonConvex      = "pur-a"
	Convex         = "pur-b"
	StronglyConvex = "pur-c"
	Constant       = "pur-constant"
	Oracle         = "pur-oracle"
	NoisyGD        = "noisy-gd"
)

// kinds are the schedules that are planned from a budget.
var kinds = map[string]papers.PURKind{
	NonConvex: papers.PURNonConvex, Convex: papers.PURConvex, StronglyConvex: papers.PURStronglyConvex, Constant: papers.PURConstant,
}

const (
	defaultSteps = 100     // where no budget tells how many
	mostPlanned  = 1000000 // steps that a budget may pay for
)

// Settings are those of a user; nil stands for the default.
type Settings struct {
	Rho   *float64 `yaml:"rho,omitempty"`       // budget in zCDP, in the place of ε
	K     *float64 `yaml:"pur_k,omitempty"`     // noise over the gradient; nil: as published
	Sigma *float64 `yaml:"pur_sigma,omitempty"` // of pur-constant, on a coordinate of the mean gradient
}

func (Settings) Kinds() (all []dpoptim.Kind) {
	for _, k := range []dpoptim.Kind{
		{Name: NonConvex, ByBudget: true, Reads: []string{"rho", "pur_k"}, About: "full-batch steps with falling noise, for smooth losses (Fay et al.)"},
		{Name: Convex, ByBudget: true, Reads: []string{"rho", "pur_k"}, About: "the same for convex losses, with weights in a ball"},
		{Name: StronglyConvex, ByBudget: true, Reads: []string{"rho", "pur_k"}, About: "the same for strongly convex losses"},
		{Name: Constant, ByBudget: true, Reads: []string{"rho", "pur_sigma"}, About: "the same with constant noise, to compare with"},
		{Name: Oracle, ByBudget: true, Reads: []string{"pur_k"}, About: "noise by the exact gradient's norm, to compare with (NOT PRIVATE)"},
		{Name: NoisyGD, About: "full-batch steps with constant noise, priced exactly"},
	} {
		k.Topic, k.Reads = setting.Convex.Topic, append(k.Reads, "radius")
		all = append(all, k)
	}
	return all
}

func (Settings) Rows() []setting.Row {
	return []setting.Row{
		{Key: "rho", Group: setting.Convex, Limit: setting.Positive, Instead: "epsilon", Help: "pur-*: privacy budget ρ in zCDP, in place of --epsilon"},
		{Key: "pur_k", InFile: true, Group: setting.Convex, Arg: "K", Limit: setting.Positive, Help: "pur-*: size of the noise over that of the gradient (default: as published, 1)"},
		{Key: "pur_sigma", Group: setting.Convex, Arg: "SIGMA", Limit: setting.Positive, Help: "pur-constant: standard deviation of the noise on each coordinate of the mean gradient"},
	}
}

func (s Settings) New(name string, run dpoptim.Settings) dpoptim.Method {
	return New(name, s, run.Seed)
}

// Method is one of them, by name.
type Method struct {
	name     string
	settings Settings
	seed     uint64         // of the noise of pur-oracle
	kind     papers.PURKind // empty where no schedule is planned
	problem  papers.Problem
	sigmas   []float64 // noise multipliers of the planned steps
}

// New makes one of the methods, by name. The noise of pur-oracle is drawn from the seed.
func New(name string, s Settings, seed uint64) *Method {
	return &Method{name: name, settings: s, seed: seed, kind: kinds[name]}
}

func (m *Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{
		Name: m.name, Private: m.name != Oracle, Batches: []*batches.Kind{batches.Full},
		Relation: accountant.ReplaceOne, Accountant: accountant.GDP,
	}
}

// Check refuses settings that the method does not read, and misses those without which it cannot do.
func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) { return c, m.check(c) }

func (m *Method) check(c dpoptim.Settings) error {
	if err := m.checkBudget(c); err != nil {
		return err
	}
	switch {
	case m.settings.Sigma == nil && m.name == Constant:
		return usage.Errorf("optimizer %s has the same noise in every step: give its standard deviation, on a coordinate of the mean gradient, by --pur-sigma, such as 0.01", m.name)
	case m.name == StronglyConvex && !(c.L2 > 0):
		return usage.Errorf("l2 %v: optimizer %s is for strongly convex losses: give --l2, or use --optimizer %s", c.L2, m.name, Convex)
	}
	return c.CheckPlain(m.name)
}

// checkBudget finds faults of the budget and of what it is priced by.
func (m *Method) checkBudget(c dpoptim.Settings) error {
	rho, planned := m.settings.Rho, m.kind != ""
	switch {
	case m.name == Oracle && (c.Epsilon != nil || c.NoiseMultiplier != nil):
		return usage.Errorf("optimizer %s is not private: its noise follows from the exact gradient, and has no ε; leave out --epsilon and --noise-multiplier, or use --optimizer %s or %s", m.name, StronglyConvex, NoisyGD)
	case rho != nil && c.Epsilon != nil:
		return usage.Errorf("rho %v and epsilon %v: both are the budget; give one of them", *rho, *c.Epsilon)
	case rho != nil && c.NoiseMultiplier != nil:
		return usage.Errorf("rho %v and noise multiplier %v: the noise follows from the budget; give one of them", *rho, *c.NoiseMultiplier)
	case planned && c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0:
		return usage.Errorf("noise multiplier %v: the noise of optimizer %s follows from its schedule; give --epsilon or --rho", *c.NoiseMultiplier, m.name)
	case planned && rho == nil && c.Epsilon != nil && c.Accountant != accountant.GDP:
		return usage.Errorf("accountant %s: optimizer %s plans its steps by %s, which is exact; leave --accountant out, or give the budget by --rho", c.Accountant, m.name, accountant.GDP)
	}
	return nil
}

// Complete fills in the bound on features, the step size and the number of steps.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	notes, err := m.complete(&c, n)
	return c, notes, err
}

func (m *Method) complete(c *dpoptim.Settings, n dpoptim.Network) (dpoptim.Notes, error) {
	notes := dpoptim.Notes{DefaultsFrom: dpoptim.FromBounds}
	if err := n.NeedLinear(m.name); err != nil {
		return notes, err
	}
	switch m.name {
	case Convex:
		if c.Radius == nil {
			return notes, usage.Errorf("optimizer %s stays on a ball: give its radius, a public bound on the norm of good weights, by --radius, such as 10", m.name)
		}
	case Oracle:
		notes.Warnings = append(notes.Warnings, "NOT PRIVATE: optimizer pur-oracle reads the gradient without noise to choose the noise")
	}
	c.FeatureNorm = c.NormOr1()
	z := *c.FeatureNorm
	m.problem = papers.Problem{
		Records: n.Records, Dim: n.Params, Lipschitz: n.Linear.Lipschitz(z), Smoothness: n.Linear.Smoothness(z) + c.L2,
		StrongConvexity: c.L2, InitialGap: n.Linear.LossAtZero(),
		K: given(m.settings.K), Sigma: given(m.settings.Sigma), Radius: given(c.Radius),
	}
	if err := c.BoundClip(m.name, m.problem.Lipschitz); err != nil {
		return notes, err
	}
	k := m.balance()
	rate := 1 / (m.problem.Smoothness * (1 + k*k))
	if m.name == NoisyGD {
		rate = 1 / m.problem.Smoothness
	}
	if c.LR == nil {
		c.LR = &rate
	}
	if most := 2 / m.problem.Smoothness; *c.LR > most {
		notes.Warnings = append(notes.Warnings, fmt.Sprintf("learning rate %v: above 2/smoothness = %.4g steps may lead away from the minimum; lower --lr, or leave it out", *c.LR, most))
	}
	budget, err := m.budget(*c)
	if err != nil {
		return notes, err
	}
	switch {
	case m.kind != "" && budget > 0:
		return notes, m.plan(c, budget)
	case c.Steps == nil && budget > 0:
		c.Steps = new(m.bestSteps(z, budget, c.Neighbouring))
	case c.Steps == nil:
		c.Steps = new(defaultSteps)
	}
	return notes, nil
}

// balance is k, 1 in the schedules as published.
func (m *Method) balance() float64 {
	if k := given(m.settings.K); k > 0 {
		return k
	}
	return 1
}

func given(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// budget is what a run may spend in zCDP, 0 where its noise is given or none is added.
func (m *Method) budget(c dpoptim.Settings) (float64, error) {
	switch {
	case m.settings.Rho != nil:
		return *m.settings.Rho, nil
	case m.name == Oracle || c.Epsilon == nil:
		return 0, nil
	}
	rho, err := papers.GaussianBudget(*c.Epsilon, *c.Delta)
	return rho, usage.Wrap(err)
}

// plan fixes the noise of every step. Package papers has two records' difference
// for the sensitivity: half of it under add-remove.
func (m *Method) plan(c *dpoptim.Settings, budget float64) error {
	p := m.problem
	if c.Neighbouring == string(accountant.AddRemove) {
		p.Lipschitz /= 2
	}
	p.Most = mostPlanned + 1
	if c.Steps != nil {
		p.Most = *c.Steps
	}
	at := fmt.Sprintf("optimizer %s at feature-norm %v", m.name, *c.FeatureNorm)
	if m.kind == papers.PURConvex {
		at += fmt.Sprintf(" and radius %v", p.Radius)
	}
	s, err := papers.NewPUR(m.kind, p, budget)
	switch {
	case c.Steps != nil && *c.Steps > mostPlanned:
		return usage.Errorf("steps %d: optimizer %s plans the noise of %d steps at most; give fewer", *c.Steps, m.name, mostPlanned)
	case err != nil:
		if err = fmt.Errorf("%s: %w", at, err); errors.Is(err, papers.ErrBudget) {
			return err
		}
		return usage.Wrap(err)
	case c.Steps == nil && s.Steps > mostPlanned:
		return usage.Errorf("%s: the budget pays for more than %d steps; give fewer by --steps", at, mostPlanned)
	case c.Steps == nil:
		c.Steps = &s.Steps
	case *c.Steps > s.Steps:
		return papers.Refuse("%s: the budget pays for %d steps of its schedule, not for %d: lower --steps or leave it out, raise epsilon or rho", at, s.Steps, *c.Steps)
	}
	m.sigmas = make([]float64, *c.Steps)
	for i := range m.sigmas {
		// In units of the bound on a record's gradient, and rounded up.
		m.sigmas[i] = math.Nextafter(s.Sigma(i)*float64(p.Records)/m.problem.Lipschitz, math.Inf(1))
	}
	return nil
}

// bestSteps are those of noisy-gd, for a minimum in the ball of --radius, or this far from zero, over Z.
func (m *Method) bestSteps(z, budget float64, relation string) int {
	const far = 10
	p := m.problem
	if relation == string(accountant.AddRemove) {
		p.Lipschitz /= 2
	}
	p.Radius = cmp.Or(p.Radius, far/z)
	return p.BestSteps(budget)
}

func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	if m.kind == "" || m.sigmas == nil {
		return dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(m.problem.Lipschitz)}}, nil
	}
	return dpoptim.Declaration{Budget: dpoptim.Planned, Asks: []dpoptim.Ask{{Question: dpoptim.Gradients, At: m.at, Alike: m.kind == papers.PURConstant}}}, nil
}

// at is the noise of a step, from 0 on.
func (m *Method) at(step int) (dpoptim.Release, error) {
	return dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: m.sigmas[step]}, Bound: m.problem.Lipschitz}, nil
}
