// Package price works out what a run costs. Of what its method declares, how it draws batches and what its budget
// is, it makes the noise and ε, and answers what the run later asks about them.
package price

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/engine"
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
	// Whole says that Epsilon is spent before the first step: it is the price of a tuning, of which the run is one trial.
	Whole bool

	order float64 // at which a filter of scheduled releases spends
}

// LossBound clips an example's loss where the training loss is released.
const LossBound = 3

// Of prices what the method declares.
func Of(r Run) (*Price, error) {
	p := &Price{Run: r, MostSteps: r.Steps}
	if err := r.check(); err != nil || !r.Traits.Private {
		return p, err
	}
	p.count()
	if r.Traits.Pure {
		return p, p.pure()
	}
	if n := 1 / float64(r.Units); *r.Settings.Delta >= n {
		p.Warnings = append(p.Warnings, fmt.Sprintf("delta %v is not below 1/N = %.3g: such a δ allows that some %s is published whole; choose a smaller --delta, such as %s", *r.Settings.Delta, n, r.Unit, SuggestedDelta(r.Units)))
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

// Evaluates says whether an evaluation follows slot number n, counted from 1. A slot's noisy loss is never drawn twice.
func (r *Run) Evaluates(n int) bool { return n%r.EvalEvery == 0 || n == r.Steps }

// Evaluations counts those after the first n slots.
func (r *Run) Evaluations(n int) int {
	count := n / r.EvalEvery
	if n == r.Steps && n%r.EvalEvery != 0 {
		count++
	}
	return count
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
	switch {
	case steps < 1:
		return 0, nil
	case p.byPapers():
		return p.costByPapers(sigma, steps)
	}
	events, err := p.composed(sigma, steps)
	if err != nil {
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
	r, err := accountant.LineSearch{SamplingRate: p.SamplingRate, Steps: steps, Gradient: gradient, Search: search}.PaperEpsilon(*p.Settings.Delta)
	return r.Epsilon, err
}

// EpsilonAt is the ε of the first n slots of a committed schedule; nil without noise.
func (p *Price) EpsilonAt(n int) *float64 {
	switch {
	case !p.Noisy || p.Filtered():
		return nil
	case n == p.Steps, p.Whole:
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

// Events are the releases of the committed schedule, whose composition the run's ε is. They are nil where a filter admits
// each, by the papers' arithmetic, which composes otherwise, and where nothing is charged.
func (p *Price) Events() ([]accountant.Event, error) {
	if !p.Noisy || p.Filtered() || p.byPapers() {
		return nil, nil
	}
	asked, besides, err := p.released(p.Sigma, p.Steps)
	return append(asked, besides...), err
}

// composed are those of the first steps at a noise multiplier of gradients, as they are priced: their order decides
// the last digits, and what goes beside sums alone has always been the last.
func (p *Price) composed(sigma float64, steps int) ([]accountant.Event, error) {
	asked, besides, err := p.released(sigma, steps)
	if err != nil {
		return nil, err
	}
	asks, gaussian := p.Declaration.Asks, accountant.Mechanism(accountant.Gaussian{NoiseMultiplier: sigma})
	switch {
	case len(asks) == 1 && asks[0].Every <= 1 && asked[0].Mechanisms[0] == gaussian:
		return append(asked, besides...), nil
	case p.adapts():
		return nil, usage.Errorf("clipping %s: it is for sums of gradients with the planned noise, and optimizer %s asks for others; use --clipping flat", p.Settings.Clipping, p.Traits.Name)
	}
	return append(besides, asked...), nil
}

// released is what the first steps ask of the records at a noise multiplier of gradients, and what is released besides.
func (p *Price) released(sigma float64, steps int) (asked, besides []accountant.Event, err error) {
	if p.Declaration.Budget == dpoptim.Planned {
		asked, err = p.fixed(steps)
		return asked, nil, err
	}
	prices, err := p.prices(sigma)
	switch {
	case err != nil:
		return nil, nil, err
	case p.Traits.Pure: // of all records, not of a batch
		return []accountant.Event{{Mechanisms: prices, Count: p.Uses(steps)}}, nil, nil
	}
	return p.asked(prices, steps), p.besides(steps), nil
}

// prices are the noise of the declared releases at a noise multiplier of gradients.
func (p *Price) prices(sigma float64) (all []accountant.Mechanism, err error) {
	for _, a := range p.Declaration.Asks {
		r, err := a.Release(sigma)
		if err != nil {
			return nil, err
		}
		if (sigma > 0 || p.Traits.Pure) && engine.Silent(r.Noise) {
			return nil, fmt.Errorf("optimizer %s declares a %s without noise", p.Traits.Name, a.Question)
		}
		all = append(all, r.Noise)
	}
	return all, nil
}

// asked are the events of so many steps. What is asked of one batch is one event; the batch of the first question is drawn
// in every step, and clipped records are counted with it.
func (p *Price) asked(prices []accountant.Mechanism, steps int) (events []accountant.Event) {
	add := func(count int, asked ...accountant.Mechanism) {
		if count > 0 {
			e := p.BatchEvent(asked...)
			e.Count = count
			events = append(events, e)
		}
	}
	sum, asks := prices[:1:1], p.Declaration.Asks
	if p.adapts() {
		sum = append(sum, engine.CountNoise(p.ExpectedBatch))
	}
	alone := times(asks[0], steps)
	for i, a := range asks[1:] {
		if count := times(a, steps); a.Batch == dpoptim.OfSum {
			add(count, prices[0], prices[i+1])
			alone -= count
		}
	}
	add(alone, sum...)
	for i, a := range asks[1:] {
		if a.Batch != dpoptim.OfSum {
			add(times(a, steps), prices[i+1])
		}
	}
	return events
}

// times is how often a question is asked in so many steps, of which the first has it.
func times(a dpoptim.Ask, steps int) int {
	every := max(a.Every, 1)
	return (steps + every - 1) / every
}

// besides is what the first n slots of a committed schedule release apart from what the method asks.
func (p *Price) besides(n int) (events []accountant.Event) {
	if z := p.Settings.TrainLossNoise; z != nil && p.Evaluations(n) > 0 {
		e := p.BatchEvent(accountant.Gaussian{NoiseMultiplier: *z})
		e.Count = p.Evaluations(n)
		events = append(events, e)
	}
	if p.Count != nil {
		events = append(events, p.countEvent())
	}
	return events
}

// fixed are the events of so many steps whose noise the method has fixed; steps of one noise are one.
func (p *Price) fixed(steps int) (events []accountant.Event, err error) {
	ask, n := p.Declaration.Asks[0], steps
	if ask.Alike {
		n = 1
	}
	for step := range n {
		r, err := ask.At(step)
		if err != nil {
			return nil, err
		}
		if last := len(events) - 1; last >= 0 && events[last].Mechanisms[0] == r.Noise {
			events[last].Count++
			continue
		}
		events = append(events, p.BatchEvent(r.Noise))
	}
	events[len(events)-1].Count += steps - n
	return events, nil
}

// A run on files of a user's own begins with a noisy count of its usable records.
const (
	LeastCounted = 500 // public records; of fewer a count would cost more than it is worth
	countShare   = 20  // the noise's deviation is the public number over this
)

// CountDoubt is twice the deviation of the count's noise: so far it is off in one run of twenty.
func CountDoubt(publicN int) int { return 2 * publicN / countShare }

// count settles the noise of a count that was asked for, where it can be a part of what the run is charged for: of one
// that asks for sums of gradients with noise that is not fixed by its method, by an accountant that takes a release of
// all records. One unit that is added, removed or replaced moves it by one at most.
func (p *Price) count() {
	c, t, d := &p.Settings, p.Traits, p.Declaration
	noisy := c.Epsilon != nil || c.NoiseMultiplier != nil && *c.NoiseMultiplier > 0
	byBatch := c.Accountant == accountant.CTCDP || c.Accountant == accountant.Paper
	if p.Counts && noisy && !t.Pure && !t.Once && !byBatch &&
		d.Budget != dpoptim.Planned && d.Asks[0].Question == dpoptim.Gradients && p.Units >= LeastCounted {
		p.Count = &accountant.Gaussian{NoiseMultiplier: float64(p.Units) / countShare}
	}
}

func (p *Price) countEvent() accountant.Event {
	return accountant.Event{Mechanisms: []accountant.Mechanism{*p.Count}, Count: 1}
}

// CountCost is the ε of the count alone.
func (p *Price) CountCost() (float64, error) {
	r, err := accountant.Account([]accountant.Event{p.countEvent()}, p.options(p.Settings.Accountant))
	return r.Epsilon, err
}

// Finite is x for JSON, nil where it is no number.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
