package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// searchState is where an optimizer that chooses its step sizes stands: released
// values only, which the checkpoint holds as JSON.
type searchState struct {
	Eta      float64           `json:"eta"` // of the last move
	Start    linesearch.Start  `json:"start"`
	Group    linesearch.Group  `json:"group"`
	Adaptive *linesearch.State `json:"adaptive,omitempty"`
	Draws    uint64            `json:"draws,omitempty"` // batches and noise positions taken, where budgets adapt
	Spent    float64           `json:"spent,omitempty"` // share of the budget, where budgets adapt
	// Gradients, and losses at a point, that were asked of a batch.
	// A search asks for its candidates one after the other, and for the loss at its
	// base; what a device evaluates beyond, at once, does not count.
	Gradients int `json:"gradients,omitempty"`
	Losses    int `json:"losses,omitempty"`
}

// A budget admits releases that were chosen by looking at earlier ones.
type budget interface {
	Ask(accountant.Event) error
	Left() float64
	SpentBefore(share float64)
	SoFar() float64
}

var (
	_ budget = (*accountant.Filter)(nil)
	_ budget = (*accountant.PaperFilter)(nil)
)

// searcher is a run's part of an optimizer that chooses its step sizes.
type searcher struct {
	state  searchState
	noise  *stream.Stream
	search *mechanism.NoisyBTLS // of a fixed budget
	curve  mechanism.Mechanism
	budget budget // nil under a fixed budget, and without noise
}

// openSearch records what the optimizer asks of the losses.
func (r *run) openSearch(noise *stream.Stream) error {
	p := r.plan
	c := p.Config.Search
	s := &searcher{noise: noise, state: searchState{Eta: *p.Config.LR, Start: linesearch.Start{Eta: *p.Config.LR}}}
	r.searcher = s
	asked := accountant.Mechanism(nil)
	var err error
	switch {
	case p.Sigma == 0: // no noise
	case p.Config.filtered():
		if asked, err = p.searchAt(p.first.Search); err != nil {
			return err
		}
		if s.budget, err = p.newBudget(); err != nil {
			return err
		}
	default:
		if asked, err = c.planned(p.Sigma); err != nil {
			return err
		}
	}
	if p.Config.filtered() {
		state := linesearch.NewState(p.first.Gradient, p.first.Search, *p.Config.LR)
		s.state.Adaptive = &state
	}
	if c.Form == searchCurve {
		if s.curve, err = p.curveMechanism(asked, noise, r.engine.net); err != nil {
			return err
		}
		return r.engine.RecordCurve(r.data, *c.Points, s.curve)
	}
	if s.search, err = p.searchMechanism(asked, *c.Clip, noise, r.engine.net); err != nil {
		return err
	}
	return r.engine.RecordSearch(r.data, c.lossForm(), s.search)
}

// searchMechanism is a search with its noise; without any where nothing was priced.
func (p *Plan) searchMechanism(asked accountant.Mechanism, bound float64, s *stream.Stream, n device.Net) (*mechanism.NoisyBTLS, error) {
	if asked == nil {
		return mechanism.NewUnprotectedSearch(bound, p.Config.Search.queries(), s, searchNoise), nil
	}
	priced, ok := asked.(accountant.NoisyBTLS)
	if !ok {
		return nil, fmt.Errorf("a search was priced as %v; please report this", asked)
	}
	m, err := mechanism.NewNoisyBTLS(priced, bound, n.Rounding(mostRows(p.ExpectedBatch)), s, searchNoise)
	return m, asUsage(err)
}

// curveMechanism releases a curve of decreases.
func (p *Plan) curveMechanism(asked accountant.Mechanism, s *stream.Stream, n device.Net) (mechanism.Mechanism, error) {
	bound := *p.Config.Search.Clip
	if asked == nil {
		return mechanism.NewUnprotected(bound, s), nil
	}
	g, ok := asked.(accountant.Gaussian)
	if !ok {
		return nil, fmt.Errorf("a curve was priced as %v; please report this", asked)
	}
	return p.gaussian(g.NoiseMultiplier, bound, s, searchNoise, n)
}

// searchSlot is one slot of a fixed budget: a gradient, in some slots a search,
// and a step of the size that was found last (Chen and Lee 2020, section 5.7).
func (r *run) searchSlot() error {
	c, s := r.plan.Config.Search, &r.searcher.state
	batch, draw := r.position(positionUpdate)
	r.rows = r.sampler.Batch(batch, r.rows[:0])
	if err := r.releases(); err != nil {
		return err
	}
	d, err := r.engine.Direction(r.rows, draw, r.engine.mechanism)
	if err != nil {
		return err
	}
	s.Gradients++
	if r.slot%*c.Every == 0 {
		batch, draw := r.position(positionSearch)
		if c.Batches == string(accountant.Fresh) {
			r.rows = r.sampler.Batch(batch, r.rows[:0])
		}
		if c.Form == searchCurve {
			err = r.readCurve(d, draw)
		} else {
			err = r.backtrack(d, draw)
		}
		if err != nil {
			return fmt.Errorf("line search: %w", err)
		}
	}
	if !(s.Eta > 0) || math.IsInf(s.Eta, 0) {
		return fmt.Errorf("the line search gave a step size of %v; please report this", s.Eta)
	}
	_, err = r.engine.Move(r.rateAt(r.slot+1), r.step+1)
	return err
}

// rateAt is the step size of a step, counted from 1: the schedule's, or what the
// last search found in the schedule's shape.
func (r *run) rateAt(step int) float64 {
	rate := r.plan.RateAt(max(step, 1))
	if r.searcher != nil {
		rate *= r.searcher.state.Eta / *r.plan.Config.LR
	}
	return rate
}

// asked counts the losses of a search that ended at candidate i of some, or at
// none (−1).
func (s *searchState) asked(i, trials int) {
	if i < 0 {
		i = trials - 1
	}
	s.Losses += i + 2
}

func (r *run) readCurve(d linesearch.Direction, draw uint64) error {
	s := &r.searcher.state
	p, c := r.plan, r.plan.Config.Search
	curve := c.curve(p.ExpectedBatch)
	shape := p.RateAt(r.slot+1) / *p.Config.LR
	sums, err := r.engine.Decreases(r.rows, draw, r.searcher.curve, curve.Candidates(s.Eta*shape))
	if err != nil {
		return err
	}
	found := curve.Choose(s.Eta*shape, sums, d) / shape
	s.Losses += len(sums) + 1
	if r.slot == 0 {
		s.Eta = found // the start is a guess
	}
	s.Eta = min(max(linesearch.Smooth(s.Eta, found, *c.Weight), leastRate), mostRate)
	return nil
}

// backtrack searches under a fixed budget. Where no candidate is found the
// smallest is taken, so that every step moves.
func (r *run) backtrack(d linesearch.Direction, draw uint64) error {
	p, c, s := r.plan, r.plan.Config.Search, &r.searcher.state
	rule := p.backtrack(p.Sigma*p.Config.Clip, r.searcher.search)
	// What is tried is what would be taken: a candidate in the schedule's shape.
	start := s.Start.Eta * p.RateAt(r.slot+1) / *p.Config.LR
	i, err := r.engine.Search(r.rows, draw, r.searcher.search, rule.candidates(start), rule.biases(start, d))
	if err != nil {
		return err
	}
	s.asked(i, *c.Trials)
	found := rule.Smallest(s.Start.Eta)
	if i >= 0 {
		found = rule.Candidate(s.Start.Eta, i)
	}
	if r.slot == 0 {
		s.Eta = found // the start is a guess
	}
	s.Eta = linesearch.Smooth(s.Eta, found, *c.Weight)
	c.startRule().Chose(&s.Start, s.Eta)
	return nil
}

// armijo is a backtracking search with all that follows from the noise.
type armijo struct{ linesearch.Backtrack }

// backtrack is the search after a gradient whose sum had noise of a standard
// deviation, with the noise of m.
func (p *Plan) backtrack(deviation float64, m *mechanism.NoisyBTLS) armijo {
	c := p.Config.Search
	b := c.backtrack(p.ExpectedBatch)
	if *c.Correct {
		b.NoiseEnergy = float64(p.Network.Program.NumParams()) * math.Pow(deviation/p.ExpectedBatch, 2)
	}
	b.Margin = *c.Margin * m.Deviation()
	return armijo{b}
}

func (a armijo) candidates(start float64) []float64 {
	etas := make([]float64, a.Trials)
	for i := range etas {
		etas[i] = a.Candidate(start, i)
	}
	return etas
}

func (a armijo) biases(start float64, d linesearch.Direction) []float64 {
	biases := make([]float64, a.Trials)
	for i := range biases {
		biases[i] = a.Bias(a.Candidate(start, i), d)
	}
	return biases
}

// Budgets that adapt.

// firstBudgets are those of the first iteration: the run's ε over twice the
// iterations expected, for a search and, as ε²/2, for a gradient (Chen and Lee
// 2020, section 5.4).
func (p *Plan) firstBudgets() linesearch.Budgets {
	c := &p.Config
	epsilon := 1.0 // without noise nothing is spent
	if c.Epsilon != nil {
		epsilon = *c.Epsilon / (2 * float64(*c.Search.Iterations))
	}
	b := linesearch.Budgets{Gradient: epsilon * epsilon / 2, Search: epsilon, Clip: 1}
	if c.Search.Noise == string(accountant.BTLSGaussian) {
		b.Search = epsilon * epsilon / 2
	}
	return b
}

// multiplier is the noise multiplier of a gradient that is ρ-zCDP on its batch.
func multiplier(rho float64) float64 { return 1 / math.Sqrt(2*rho) }

// searchAt is the search that costs its batch a budget: ε with Laplace noise, ρ
// with Gaussian.
func (p *Plan) searchAt(b float64) (accountant.NoisyBTLS, error) {
	c := p.Config.Search
	if c.Noise == string(accountant.BTLSLaplace) {
		return c.laplace(b), nil
	}
	return c.gaussian(math.Sqrt(2 * b))
}

// asks is the event of a gradient's batch, and of a search's where that is one
// of its own.
func (p *Plan) asks(rho float64, search accountant.NoisyBTLS) (gradient, line accountant.Event) {
	g := accountant.Gaussian{NoiseMultiplier: multiplier(rho)}
	if p.Config.Search.Batches == string(accountant.Shared) {
		return accountant.PoissonBatch(p.SamplingRate, 1, g, search), accountant.Event{}
	}
	return accountant.PoissonBatch(p.SamplingRate, 1, g), accountant.PoissonBatch(p.SamplingRate, 1, search)
}

// newBudget is the filter that admits the releases, at an order that suits so
// many iterations at the first budgets as the whole budget pays for.
func (p *Plan) newBudget() (budget, error) {
	c := &p.Config
	if c.Search.Batches == string(accountant.PaperBatches) {
		f, err := accountant.NewPaperFilter(*c.Epsilon, *c.Delta)
		return f, asBudget(err)
	}
	search, err := p.searchAt(p.first.Search)
	if err != nil {
		return nil, asUsage(err)
	}
	gradient, line := p.asks(p.first.Gradient, search)
	n := accountant.Neighbouring(c.Neighbouring)
	order := 0.0
	for count := 1; count < 1<<30; count *= 2 {
		gradient.Count = count
		expected := []accountant.Event{gradient}
		if line.Count > 0 {
			line.Count = count
			expected = append(expected, line)
		}
		r, err := accountant.Account(expected, accountant.Options{Accountant: accountant.RDP, Neighbouring: n, Delta: *c.Delta})
		if err != nil {
			return nil, asUsage(err)
		}
		if r.Epsilon > *c.Epsilon && order != 0 {
			break
		}
		order = r.Order
		if r.Epsilon > *c.Epsilon {
			break
		}
	}
	f, err := accountant.NewFilter(*c.Epsilon, *c.Delta, n, order)
	return f, asBudget(err)
}

// asBudget leaves a refusal what it is, and calls any other error bad usage.
func asBudget(err error) error {
	if errors.Is(err, accountant.ErrBudget) {
		return err
	}
	return asUsage(err)
}

// budgetUnits is what the ledger of such a run counts: its slots are equal
// shares of the budget.
const budgetUnits = 1 << 40

// ask has a release admitted, and its price on the disk, before it is made.
func (r *run) ask(e accountant.Event) error {
	s := r.searcher
	if s.budget != nil {
		if err := s.budget.Ask(e); err != nil {
			return err
		}
		units := min(int(math.Ceil((1-s.budget.Left())*budgetUnits)), budgetUnits)
		if more := units - r.ledger.Charged(); more > 0 {
			if err := r.settle(); err != nil {
				return err
			}
			if _, err := r.ledger.Reserve(more); err != nil {
				return err
			}
			r.reserved = more
		}
	}
	return r.releases()
}

// settle keeps what the last release was charged.
func (r *run) settle() error {
	if r.reserved == 0 {
		return nil
	}
	n := r.reserved
	r.reserved = 0
	return r.ledger.Settle(n)
}

// oracle answers an optimizer's questions of the private data.
type oracle struct {
	run    *run
	rows   []int32
	search accountant.NoisyBTLS // of the batch, where it is shared
	turned float64
}

var _ linesearch.Oracle = (*oracle)(nil)

// draw gives the next batch and noise position.
func (o *oracle) draw(fresh bool) (draw uint64) {
	s := &o.run.searcher.state
	if fresh {
		o.rows = o.run.sampler.Batch(s.Draws, o.rows[:0])
	}
	s.Draws++
	return s.Draws
}

// gradient charges a gradient on a batch of its own, and draws the batch.
func (o *oracle) gradient(rho float64, b linesearch.Budgets) (mechanism.Mechanism, uint64, error) {
	p, s := o.run.plan, o.run.searcher
	var err error
	if o.search, err = p.searchAt(b.Search); err != nil {
		return nil, 0, err
	}
	event, _ := p.asks(rho, o.search)
	if err := o.run.ask(event); err != nil {
		return nil, 0, err
	}
	draw := o.draw(true)
	s.state.Gradients++
	if s.budget == nil {
		o.run.engine.mechanism.SetBound(p.Config.Clip * b.Clip)
		return o.run.engine.mechanism, draw, nil
	}
	m, err := p.gaussian(multiplier(rho), p.Config.Clip*b.Clip, s.noise, gradientNoise, o.run.engine.net)
	return m, draw, err
}

func (o *oracle) Gradient(b linesearch.Budgets) (linesearch.Direction, error) {
	m, draw, err := o.gradient(b.Gradient, b)
	if err != nil {
		return linesearch.Direction{}, err
	}
	return o.run.engine.Direction(o.rows, draw, m)
}

func (o *oracle) Again(rho, weight float64, b linesearch.Budgets) (linesearch.Direction, float64, error) {
	m, draw, err := o.gradient(rho, b)
	if err != nil {
		return linesearch.Direction{}, 0, err
	}
	return o.run.engine.Again(o.rows, draw, m, weight)
}

func (o *oracle) Search(b linesearch.Budgets, start float64, d linesearch.Direction) (float64, error) {
	p, s := o.run.plan, o.run.searcher
	c := p.Config.Search
	asked := o.search // fixed when its batch was drawn
	if c.Batches != string(accountant.Shared) {
		var err error
		if asked, err = p.searchAt(b.Search); err != nil {
			return 0, err
		}
		_, event := p.asks(b.Gradient, asked)
		if err := o.run.ask(event); err != nil {
			return 0, err
		}
	}
	draw := o.draw(c.Batches == string(accountant.Fresh))
	bound := *c.Clip * b.Clip
	m, deviation := s.search, 0.0
	if s.budget == nil {
		m.SetBound(bound)
	} else {
		var err error
		if m, err = p.searchMechanism(asked, bound, s.noise, o.run.engine.net); err != nil {
			return 0, err
		}
		deviation = multiplier(b.Gradient) * p.Config.Clip * b.Clip
	}
	rule := p.backtrack(deviation, m)
	i, err := o.run.engine.Search(o.rows, draw, m, rule.candidates(start), rule.biases(start, d))
	if err != nil {
		return 0, err
	}
	s.state.asked(i, *c.Trials)
	if i < 0 {
		return 0, nil
	}
	return rule.Candidate(start, i), nil
}

func (o *oracle) Move(eta float64) (err error) {
	o.turned, err = o.run.engine.Move(eta, o.run.step+1)
	return err
}

func (o *oracle) Turned() (float64, error) { return o.turned, nil }

// encode and decode are the state as a checkpoint holds it.
func (s *searchState) encode() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

func (s *searchState) decode(text string) error { return json.Unmarshal([]byte(text), s) }

// saveSearch and restoreSearch keep the state with a checkpoint.
func (r *run) saveSearch(c *checkpoint) (err error) {
	s := r.searcher
	if s == nil {
		return nil
	}
	s.state.Group = r.engine.descent.group
	if s.budget != nil {
		s.state.Spent = 1 - s.budget.Left()
	}
	c.search, err = s.state.encode()
	return err
}

func (r *run) restoreSearch(c *checkpoint) error {
	s := r.searcher
	if s == nil {
		return nil
	}
	if err := s.state.decode(c.search); err != nil {
		return usage("%s: the checkpoint's line search cannot be read: %w; restore the file, or start a new run in another directory", r.options.Out, err)
	}
	if r.plan.Config.filtered() && s.state.Adaptive == nil || !(s.state.Start.Eta > 0) {
		return usage("%s: the checkpoint is not one of this run's line search; restore the file, or start a new run in another directory", r.options.Out)
	}
	r.engine.descent.group = s.state.Group
	return nil
}

// trainFiltered runs an optimizer whose budgets adapt, until the filter refuses
// a release or the steps that bound the run are made.
func (r *run) trainFiltered(ctx context.Context) error {
	p, s := r.plan, r.searcher
	const progress = 1000 // shares of the budget, or of the steps without noise
	if r.options.Progress != nil {
		r.options.Progress.Start(progress)
		defer r.options.Progress.Finish()
	}
	o, rule := &oracle{run: r}, p.Config.Search.rule()
	// A seeded run replays what its ledger already charges; any other finds it spent.
	spent := s.state.Spent
	if p.Config.Noise != noiseSeeded {
		spent = max(spent, float64(r.ledger.Charged())/budgetUnits)
	}
	if s.budget != nil {
		s.budget.SpentBefore(spent)
	}
	for r.step < p.Steps && ctx.Err() == nil {
		eta, err := rule.Iterate(s.state.Adaptive, o)
		if errors.Is(err, accountant.ErrBudget) {
			if r.step == 0 {
				return err
			}
			return r.save()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", r.step+1, err)
		}
		s.state.Eta = eta
		r.step++
		r.ran++
		if p.evaluates(r.step) {
			if err := r.evaluate(nil); err != nil {
				return err
			}
		}
		if r.ran%checkpointEvery == 0 {
			if err := r.save(); err != nil {
				return err
			}
		}
		if r.options.Progress != nil {
			done := progress * r.step / p.Steps
			if s.budget != nil {
				done = int(progress * (1 - s.budget.Left()))
			}
			var accuracy *float64
			if r.last != nil {
				accuracy = r.last.TestAccuracy
			}
			r.options.Progress.Step(done, r.epsilonSoFar(0), accuracy)
		}
	}
	if err := r.save(); err != nil {
		return err
	}
	if r.step < p.Steps {
		return fmt.Errorf("%w after %d steps and saved; continue with the same flags and --resume --out %s", ErrInterrupted, r.step, r.options.Out)
	}
	return nil
}

// checkpointEvery is how many steps a crash may lose; what they spent stays spent.
const checkpointEvery = 10

// epsilonSoFar is the ε of what was released: of the first n slots of a
// committed schedule, or of what a filter admitted.
func (r *run) epsilonSoFar(n int) *float64 {
	if r.searcher != nil && r.searcher.budget != nil {
		return finite(r.searcher.budget.SoFar())
	}
	return r.plan.epsilonAt(n)
}
