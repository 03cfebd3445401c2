// Package price works out what a run costs. Of what its method declares, how it draws batches and what its budget
// is, it makes the noise and ε, and answers what the run later asks about them.
package price

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// A Run is what decides a price. All of it is public.
type Run struct {
	Traits           dpoptim.Traits
	Declaration      dpoptim.Declaration // what the method asks of the records
	Settings         dpoptim.Settings
	batches.Batching          // whose expected batch is the normaliser of every sum
	Steps            int      // committed
	EvalEvery        int      // slots from one evaluation to the next
	Counts           bool     // usable records are to be counted before the first step
	NormNoise        *float64 // noise multiplier of released norms; nil: none is
}

// A Price is what a run costs, with the noise that makes it cost that.
type Price struct {
	Run
	Noisy     bool     // releases have noise, and are charged
	Sigma     float64  // noise multiplier σ/C; 0 without noise
	Least     float64  // that with which one step would spend all of a scheduled budget
	Epsilon   *float64 // of the whole schedule, or of the filter; nil: infinite, or without noise
	MostSteps int      // steps at most, where neither they nor the noise are committed to
	Count     *accountant.Gaussian
	Warnings  []string

	order float64 // at which a filter of scheduled releases spends
}

// LossBound clips an example's loss where the training loss is released.
const LossBound = 3

// Of prices what the method declares.
func Of(r Run) (Price, error) {
	p := Price{Run: r, MostSteps: r.Steps}
	if err := r.check(); err != nil || !r.Traits.Private {
		return p, err
	}
	p.count()
	if r.Traits.Pure {
		return p, p.pure()
	}
	if n := 1 / float64(r.Units); *r.Settings.Delta >= n {
		p.Warnings = append(p.Warnings, fmt.Sprintf("delta %v is not below 1/N = %.3g: such a δ allows that some record is published as it is; choose a smaller --delta, such as %s", *r.Settings.Delta, n, SuggestedDelta(r.Units)))
	}
	switch {
	case r.Declaration.Budget == dpoptim.Committed:
		return p, p.committed()
	case r.Declaration.Budget == dpoptim.Planned:
		return p, p.planned()
	case r.Settings.Epsilon == nil:
		return p, nil // no noise
	case r.Declaration.Budget == dpoptim.Adaptive:
		return p, p.adaptive()
	}
	return p, p.scheduled()
}

// SuggestedDelta is one over ten times the public number of records, rounded down to a power of ten.
func SuggestedDelta(records int) string {
	power := 1
	for p := 1.; p < float64(records); p *= 10 {
		power++
	}
	return fmt.Sprintf("1e-%02d", power)
}

// check refuses what does not go together with the settings.
func (r *Run) check() error {
	c, t, d := &r.Settings, r.Traits, r.Declaration
	if err := d.Check(t, c.Accountant); err != nil {
		return err
	}
	switch {
	case t.Local && r.relation() != accountant.ReplaceOne:
		return usage.Errorf("neighbouring %s: local privacy is about which record reports, not whether; use --neighbouring %s", c.Neighbouring, accountant.ReplaceOne)
	case (d.Budget != dpoptim.Committed || t.Once) && (r.adapts() || c.TrainLossNoise != nil):
		return usage.Errorf("clipping %s, train-loss-noise: optimizer %s is charged for what it asks, and for nothing beside; use --clipping flat, and leave out --train-loss-noise", c.Clipping, t.Name)
	case d.Budget.Filtered() && c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0:
		return usage.Errorf("noise multiplier %v: optimizer %s chooses its noise as it goes; give --epsilon", *c.NoiseMultiplier, t.Name)
	case len(d.Asks) > 1 && r.adapts():
		return usage.Errorf("clipping %s: optimizer %s asks for more than sums of gradients; use --clipping flat", c.Clipping, t.Name)
	}
	return nil
}

func (r *Run) relation() accountant.Neighbouring {
	return accountant.Neighbouring(r.Settings.Neighbouring)
}

// adapts reports whether the clip norm moves.
func (r *Run) adapts() bool { return r.Settings.Clipping == string(perexample.AdaptiveFlat) }

// Filtered reports whether an online filter admits every release.
func (r *Run) Filtered() bool { return r.Traits.Private && r.Declaration.Budget.Filtered() }

// byPapers reports whether the papers' arithmetic prices the run, which composes otherwise than events do.
func (r *Run) byPapers() bool {
	asks := r.Declaration.Asks
	return len(asks) > 1 && asks[1].Batch == dpoptim.ByPapers
}

// Evaluates says whether an evaluation follows slot number n, counted from 1.
// It goes by slots, so that a slot's noisy loss is never drawn twice.
func (r *Run) Evaluates(n int) bool { return n%r.EvalEvery == 0 || n == r.Steps }

// evaluations counts those after the first n slots.
func (r *Run) evaluations(n int) int {
	count := n / r.EvalEvery
	if n == r.Steps && n%r.EvalEvery != 0 {
		count++
	}
	return count
}

// Evaluations counts those of a run of so many slots.
func (p *Price) Evaluations() int { return p.evaluations(p.MostSteps) }

// pure prices the releases of a pure method, which share ε, with δ = 0.
func (p *Price) pure() error {
	c := &p.Settings
	prices, err := p.prices(0)
	if err != nil {
		return usage.Wrap(err)
	}
	pure, ok := prices[0].(accountant.Pure)
	if !ok {
		return fmt.Errorf("optimizer %s declares %v as its noise, and promises a pure ε", p.Traits.Name, prices[0])
	}
	cost := pure.Epsilon * float64(p.Uses(p.Steps))
	if p.relation() == accountant.ReplaceOne {
		cost *= 2
	}
	if cost > *c.Epsilon {
		return fmt.Errorf("optimizer %s declares %d releases of ε = %v together, and was allowed %v", p.Traits.Name, p.Uses(p.Steps), cost, *c.Epsilon)
	}
	p.Noisy, p.Epsilon = true, c.Epsilon
	return nil
}

// checkExact refuses noise multipliers for which no exact noise is drawn.
func (p *Price) checkExact(multiplier float64, which string) error {
	if p.Settings.Noise != dpoptim.Exact || multiplier <= mechanism.MostExact {
		return nil
	}
	return usage.Errorf("exact noise is drawn for noise multipliers up to %g, %s %v: allow more epsilon, or use --noise secure", mechanism.MostExact, which, multiplier)
}

// committed calibrates the noise of a schedule of which every release is planned.
func (p *Price) committed() (err error) {
	c := &p.Settings
	if c.Epsilon == nil {
		p.Sigma = *c.NoiseMultiplier
	} else if p.Sigma, _, err = p.schedule(c.Accountant).Calibrate(*c.Epsilon); err != nil {
		return p.outOfReach(err)
	}
	if err := p.checkExact(p.Sigma, "not"); err != nil {
		return err
	}
	if p.Least = p.Sigma; p.Sigma == 0 { // it stays the same
		return nil
	}
	epsilon, err := p.cost(p.Sigma, p.Steps, c.Accountant)
	if err != nil {
		return usage.Wrap(err)
	}
	p.Noisy, p.Epsilon = true, Finite(epsilon)
	return nil
}

// schedule is what is calibrated.
func (p *Price) schedule(by string) accountant.Schedule {
	return accountant.Schedule{
		SamplingRate: p.SamplingRate, Steps: p.Steps, Batch: p.Event,
		Neighbouring: p.relation(), Accountant: by, Delta: *p.Settings.Delta,
		Price: func(s accountant.Schedule, sigma float64) (float64, error) {
			return p.cost(sigma, s.Steps, s.Accountant)
		},
	}
}

// outOfReach says which settings keep a committed schedule from its ε.
func (p *Price) outOfReach(err error) error {
	c := &p.Settings
	var out *accountant.OutOfReach
	if !errors.As(err, &out) {
		return refused(err)
	}
	switch {
	case p.adapts():
		out.Words = fmt.Sprintf("epsilon %v is out of reach with --clipping %s at an expected batch of %.6g: even with unlimited noise on the gradients epsilon would be %.4g, because clipped records are counted with noise; raise --batch, or use --clipping %s",
			*c.Epsilon, c.Clipping, p.ExpectedBatch, out.Least, perexample.Flat)
	case c.TrainLossNoise != nil:
		out.Words = fmt.Sprintf("epsilon %v is out of reach with --train-loss-noise %v: even with unlimited noise on the gradients epsilon would be %.4g, because every training loss that is shown is paid for; raise --train-loss-noise or --eval-every, or leave the losses out",
			*c.Epsilon, *c.TrainLossNoise, out.Least)
	default:
		return refused(err)
	}
	return out
}

// refused is a budget's refusal as it is, and any other error as bad usage.
func refused(err error) error {
	if errors.Is(err, accountant.ErrBudget) {
		return err
	}
	return usage.Wrap(err)
}

// planned prices the noise that the method has fixed for every step.
func (p *Price) planned() error {
	c, ask := &p.Settings, p.Declaration.Asks[0]
	for step := range different(ask, p.Steps) {
		r, err := ask.At(step)
		if err != nil {
			return usage.Wrap(err)
		}
		multiplier, ok := multiplierOf(r.Noise)
		if !ok {
			return fmt.Errorf("optimizer %s plans %v as the noise of a step, which must be Gaussian", p.Traits.Name, r.Noise)
		}
		if err := p.checkExact(multiplier, fmt.Sprintf("and step %d needs", step+1)); err != nil {
			return err
		}
		if step == 0 {
			p.Sigma, p.Least = multiplier, multiplier
		}
	}
	epsilon, err := p.cost(p.Sigma, p.Steps, c.Accountant)
	if err != nil {
		return usage.Wrap(err)
	}
	if c.Epsilon != nil && epsilon > *c.Epsilon*(1+1e-9) {
		return fmt.Errorf("%w: the noise that optimizer %s plans costs epsilon %.6g in %d steps, and %v was given; lower --steps, or leave it out", accountant.ErrBudget, p.Traits.Name, epsilon, p.Steps, *c.Epsilon)
	}
	p.Noisy, p.Epsilon = true, Finite(epsilon)
	return nil
}

// multiplierOf is a noise multiplier of gradients.
func multiplierOf(m accountant.Mechanism) (multiplier float64, ok bool) {
	switch m := m.(type) {
	case accountant.Gaussian:
		return m.NoiseMultiplier, true
	case accountant.ObjectivePerturbation:
		return m.NoiseMultiplier, true
	}
	return 0, false
}

// NoiseMultiplier is that of every step's gradients; nil where they differ, or are not planned.
func (p *Price) NoiseMultiplier() *float64 {
	switch b := p.Declaration.Budget; {
	case !p.Traits.Private || p.Traits.Pure, (b == dpoptim.Scheduled || b == dpoptim.Adaptive) && p.Sigma > 0,
		b == dpoptim.Planned && !p.Declaration.Asks[0].Alike:
		return nil
	}
	return &p.Sigma
}

// cost is the ε of the first steps at a noise multiplier of gradients, by an accountant.
func (p *Price) cost(sigma float64, steps int, by string) (float64, error) {
	if p.byPapers() {
		return p.costByPapers(sigma, steps)
	}
	events, err := p.composed(sigma, steps)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	r, err := accountant.Account(events, p.options(by))
	return r.Epsilon, err
}

func (r *Run) options(by string) accountant.Options {
	return accountant.Options{Accountant: by, Neighbouring: r.relation(), Delta: *r.Settings.Delta}
}

// costByPapers is for a gradient and a line search in every step.
func (p *Price) costByPapers(sigma float64, steps int) (float64, error) {
	prices, err := p.prices(sigma)
	if err != nil {
		return 0, err
	}
	gradient, isGaussian := prices[0].(accountant.Gaussian)
	search, isSearch := prices[1].(accountant.NoisyBTLS)
	if !isGaussian || !isSearch || len(prices) != 2 {
		return 0, fmt.Errorf("the papers' arithmetic is for a gradient and a line search; optimizer %s asks for %v", p.Traits.Name, prices)
	}
	if steps < 1 {
		return 0, nil
	}
	r, err := accountant.LineSearch{SamplingRate: p.SamplingRate, Steps: steps, Gradient: gradient, Search: search}.PaperEpsilon(*p.Settings.Delta)
	return r.Epsilon, err
}

// EpsilonAt is the ε of the first n slots of a committed schedule; nil without noise.
func (p *Price) EpsilonAt(n int) *float64 {
	switch {
	case !p.Noisy || p.Filtered():
		return nil
	case n == p.Steps:
		return p.Epsilon
	case p.Traits.Pure:
		return new(*p.Epsilon * float64(p.Uses(n)) / float64(p.Uses(p.Steps)))
	}
	e, err := p.cost(p.Sigma, n, p.Settings.Accountant)
	if err != nil || p.Epsilon != nil && e > *p.Epsilon { // a part costs no more than the whole; bounds on both may cross
		return p.Epsilon
	}
	return Finite(e)
}

// Risk is what a guarantee at δ means for attacks. What a filter admits is known by its (ε, δ) alone, as is what a
// pure method releases.
func (p *Price) Risk(delta float64) (*accountant.Risk, error) {
	if p.Filtered() || p.Traits.Pure {
		return accountant.RiskAt(*p.Epsilon, delta), nil
	}
	events, err := p.composed(p.Sigma, p.Steps)
	if err != nil {
		return nil, err
	}
	risk, err := accountant.RiskOf(events, p.options(p.Settings.Accountant))
	return risk, usage.Wrap(err)
}

// Finite is x for JSON, nil where it is no number.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
