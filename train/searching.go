package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// searchState is where an optimizer that chooses its step sizes stands: released
// values only, which the checkpoint holds as JSON.
type searchState struct {
	Eta      float64           `json:"eta"`                // of the last move
	Searched bool              `json:"searched,omitempty"` // under a fixed budget: Eta is no guess any more
	Start    linesearch.Start  `json:"start"`
	Group    linesearch.Group  `json:"group"`
	Adaptive *linesearch.State `json:"adaptive,omitempty"`
	filterState
	// Gradients, and losses at a point, that were asked of a batch: a search asks for
	// its candidates one after the other, and for the loss at its base; what a device
	// evaluates beyond, at once, does not count.
	Gradients int `json:"gradients,omitempty"`
	Losses    int `json:"losses,omitempty"`
}

// searcher is a run's part of an optimizer that chooses its step sizes.
type searcher struct {
	state  searchState
	noise  *stream.Stream
	search *mechanism.NoisyBTLS // of a fixed budget
	curve  mechanism.Mechanism
	least  *mechanism.NoisyMin
	rows   []int32 // a batch of the search's own
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
	case p.filtered():
		if asked, err = p.searchAt(p.first.Search); err != nil {
			return err
		}
		if r.budget, err = p.newBudget(); err != nil {
			return err
		}
	default:
		if asked, err = c.planned(p.Sigma); err != nil {
			return err
		}
	}
	if p.filtered() {
		state := linesearch.NewState(p.first.Gradient, p.first.Search, *p.Config.LR)
		s.state.Adaptive = &state
	}
	if c.Form == searchCurve {
		if s.curve, err = p.curveMechanism(asked, noise); err != nil {
			return err
		}
		return r.engine.RecordCurve(r.data, *c.Points, s.curve)
	}
	if c.Form == searchMinimum {
		if s.least, err = p.leastMechanism(asked, *c.Clip, noise); err != nil {
			return err
		}
		return r.engine.RecordLeast(r.data, *c.Trials, s.least)
	}
	if s.search, err = p.searchMechanism(asked, *c.Clip, noise); err != nil {
		return err
	}
	return r.engine.RecordSearch(r.data, s.search)
}

// searchMechanism is a search with its noise; without any where nothing was priced.
func (p *Plan) searchMechanism(asked accountant.Mechanism, bound float64, s *stream.Stream) (*mechanism.NoisyBTLS, error) {
	if asked == nil {
		return mechanism.NewUnprotectedSearch(bound, p.Config.Search.queries(), s, searchNoise), nil
	}
	priced, ok := asked.(accountant.NoisyBTLS)
	if !ok {
		return nil, fmt.Errorf("a search was priced as %v; please report this", asked)
	}
	m, err := mechanism.NewNoisyBTLS(priced, bound, s, searchNoise)
	return m, usage.Wrap(err)
}

// leastMechanism tells the least of some losses.
func (p *Plan) leastMechanism(asked accountant.Mechanism, bound float64, s *stream.Stream) (*mechanism.NoisyMin, error) {
	if asked == nil {
		return mechanism.NewUnprotectedMin(bound, s, searchNoise), nil
	}
	pure, ok := asked.(accountant.Pure)
	if !ok {
		return nil, fmt.Errorf("a minimum was priced as %v; please report this", asked)
	}
	m, err := mechanism.NewNoisyMin(pure.Epsilon, bound, s, searchNoise)
	return m, usage.Wrap(err)
}

// curveMechanism releases a curve of decreases.
func (p *Plan) curveMechanism(asked accountant.Mechanism, s *stream.Stream) (mechanism.Mechanism, error) {
	bound := *p.Config.Search.Clip
	if asked == nil {
		return mechanism.NewUnprotected(bound, s), nil
	}
	g, ok := asked.(accountant.Gaussian)
	if !ok {
		return nil, fmt.Errorf("a curve was priced as %v; please report this", asked)
	}
	return p.losses(g.NoiseMultiplier, bound, *p.Config.Search.Points, s, searchNoise)
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
	d.Noise = r.plan.noiseEnergy(r.plan.Sigma * r.plan.Config.Clip)
	s.Gradients++
	if r.slot%*c.Every == 0 {
		if err := r.releases(); err != nil {
			return err
		}
		batch, draw := r.position(positionSearch)
		rows := r.rows
		if c.Batches == string(accountant.Fresh) {
			r.searcher.rows = r.sampler.Batch(batch, r.searcher.rows[:0])
			rows = r.searcher.rows
		}
		if c.Form == searchCurve {
			err = r.readCurve(d, rows, draw)
		} else {
			err = r.backtrack(d, rows, draw)
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

func (r *run) readCurve(d linesearch.Direction, rows []int32, draw uint64) error {
	s := &r.searcher.state
	p, c := r.plan, r.plan.Config.Search
	curve := c.curve(p.ExpectedBatch)
	shape := p.RateAt(r.slot+1) / *p.Config.LR
	sums, err := r.engine.Decreases(rows, draw, r.searcher.curve, curve.Candidates(s.Eta*shape))
	if err != nil {
		return err
	}
	s.Losses += len(sums) + 1
	s.follow(curve.Choose(s.Eta*shape, sums, d)/shape, *c.Weight)
	return nil
}

// follow moves the step size to what a search found; all the way by the first,
// as the start is a guess.
func (s *searchState) follow(found, weight float64) {
	if !s.Searched {
		weight = 1
	}
	s.Eta, s.Searched = min(max(linesearch.Smooth(s.Eta, found, weight), leastRate), mostRate), true
}

// backtrack searches under a fixed budget. Where no candidate is found the
// smallest is taken, so that every step moves.
func (r *run) backtrack(d linesearch.Direction, rows []int32, draw uint64) error {
	p, c, s := r.plan, r.plan.Config.Search, &r.searcher.state
	rule := p.backtrack(r.searcher.search)
	// What is tried is what would be taken: a candidate in the schedule's shape.
	start := s.Start.Eta * p.RateAt(r.slot+1) / *p.Config.LR
	i, err := r.engine.Search(rows, draw, r.searcher.search, rule.candidates(start), rule.biases(start, d))
	if err != nil {
		return err
	}
	s.asked(i, *c.Trials)
	found := rule.Smallest(s.Start.Eta)
	if i >= 0 {
		found = rule.Candidate(s.Start.Eta, i)
	}
	s.follow(found, *c.Weight)
	c.startRule().Chose(&s.Start, s.Eta)
	return nil
}

// armijo is a backtracking search with all that follows from the noise.
type armijo struct{ linesearch.Backtrack }

// noiseEnergy is E‖·‖² of the noise in a direction whose sum had noise of a
// standard deviation.
func (p *Plan) noiseEnergy(deviation float64) float64 {
	return float64(p.Network.Program.NumParams()) * math.Pow(deviation/p.ExpectedBatch, 2)
}

// backtrack is the search with the noise of m.
func (p *Plan) backtrack(m *mechanism.NoisyBTLS) armijo {
	c := p.Config.Search
	b := c.backtrack(p.ExpectedBatch)
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
func (p *Plan) searchAt(b float64) (accountant.Mechanism, error) {
	c := p.Config.Search
	if c.Form == searchMinimum {
		return accountant.Pure{Epsilon: b}, nil
	}
	if c.Noise == string(accountant.BTLSLaplace) {
		return c.laplace(b), nil
	}
	return c.gaussian(math.Sqrt(2 * b))
}

// asks are the events of a gradient and a search: of both on a shared batch, else
// of one and then of the other.
func (p *Plan) asks(rho float64, search accountant.Mechanism) []accountant.Event {
	return accountant.LineSearch{
		Batches: accountant.Batches(p.Config.Search.Batches), SamplingRate: p.SamplingRate, Steps: 1, Searches: 1,
		Gradient: accountant.Gaussian{NoiseMultiplier: multiplier(rho)}, Search: search,
	}.Events()
}

// oracle answers an optimizer's questions of the private data.
type oracle struct {
	run    *run
	search accountant.Mechanism // of the batch, where it is shared
	noise  float64              // in the direction: linesearch.Direction.Noise
	turned float64
}

var _ linesearch.Oracle = (*oracle)(nil)

// gradient charges a gradient on a batch of its own, and draws the batch.
func (o *oracle) gradient(rho float64, b linesearch.Budgets) (mechanism.Mechanism, uint64, error) {
	p, s := o.run.plan, o.run.searcher
	var err error
	if o.search, err = p.searchAt(b.Search); err != nil {
		return nil, 0, err
	}
	if err := o.run.ask(p.asks(rho, o.search)[0]); err != nil {
		return nil, 0, err
	}
	s.state.Gradients++
	batch, draw := s.state.draw()
	o.run.rows = o.run.sampler.Batch(batch, o.run.rows[:0])
	if o.run.budget == nil {
		o.run.engine.mechanism.SetBound(p.Config.Clip * b.Clip)
		return o.run.engine.mechanism, draw, nil
	}
	m, err := p.gradient(multiplier(rho), p.Config.Clip*b.Clip, s.noise, o.run.engine.net)
	return m, draw, err
}

func (o *oracle) Gradient(b linesearch.Budgets) (linesearch.Direction, error) {
	m, draw, err := o.gradient(b.Gradient, b)
	if err != nil {
		return linesearch.Direction{}, err
	}
	d, err := o.run.engine.Direction(o.run.rows, draw, m)
	o.noise = o.energy(b.Gradient, b)
	d.Noise = o.noise
	return d, err
}

// energy is that of the noise in one gradient.
func (o *oracle) energy(rho float64, b linesearch.Budgets) float64 {
	p := o.run.plan
	if o.run.budget == nil {
		return 0
	}
	return p.noiseEnergy(multiplier(rho) * p.Config.Clip * b.Clip)
}

func (o *oracle) Again(rho, weight float64, b linesearch.Budgets) (linesearch.Direction, float64, error) {
	m, draw, err := o.gradient(rho, b)
	if err != nil {
		return linesearch.Direction{}, 0, err
	}
	d, angle, err := o.run.engine.Again(o.run.rows, draw, m, weight)
	o.noise = (1-weight)*(1-weight)*o.noise + weight*weight*o.energy(rho, b)
	d.Noise = o.noise
	return d, angle, err
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
		if err := o.run.ask(p.asks(b.Gradient, asked)[1]); err != nil {
			return 0, err
		}
	}
	batch, draw := s.state.draw()
	rows := o.run.rows
	if c.Batches == string(accountant.Fresh) {
		s.rows = o.run.sampler.Batch(batch, s.rows[:0])
		rows = s.rows
	}
	bound := *c.Clip * b.Clip
	if c.Form == searchMinimum {
		return o.least(rows, draw, asked, bound, start, d)
	}
	m := s.search
	if o.run.budget == nil {
		m.SetBound(bound)
	} else {
		var err error
		if m, err = p.searchMechanism(asked, bound, s.noise); err != nil {
			return 0, err
		}
	}
	rule := p.backtrack(m)
	i, err := o.run.engine.Search(rows, draw, m, rule.candidates(start), rule.biases(start, d))
	if err != nil {
		return 0, err
	}
	s.state.asked(i, *c.Trials)
	switch {
	case i >= 0:
		return rule.Candidate(start, i), nil
	case o.run.budget == nil: // nothing would end the tries
		return rule.Smallest(start), nil
	}
	return 0, nil
}

// least takes the candidate of least objective among equally spaced ones from 0 to most.
func (o *oracle) least(rows []int32, draw uint64, asked accountant.Mechanism, bound, most float64, d linesearch.Direction) (float64, error) {
	p, s := o.run.plan, o.run.searcher
	m := s.least
	if o.run.budget == nil {
		m.SetBound(bound)
	} else {
		var err error
		if m, err = p.leastMechanism(asked, bound, s.noise); err != nil {
			return 0, err
		}
	}
	etas, biases := make([]float64, *p.Config.Search.Trials), make([]float64, *p.Config.Search.Trials)
	penalty := linesearch.Backtrack{Batch: p.ExpectedBatch} // of the slope it asks nothing
	for i := range etas {
		etas[i] = most * float64(i) / float64(len(etas)-1)
		biases[i] = penalty.Bias(etas[i], d)
	}
	i, err := o.run.engine.Least(rows, draw, m, etas, biases)
	if err != nil {
		return 0, err
	}
	s.state.Losses += len(etas)
	if i == 0 && o.run.budget == nil {
		i = 1 // nothing would end the tries
	}
	return etas[i], nil
}

func (o *oracle) Move(eta float64) (err error) {
	o.turned, err = o.run.engine.Move(eta, o.run.step+1)
	return err
}

func (o *oracle) Turned() float64 { return o.turned }

// encode and decode are the state as a checkpoint holds it.
func (s *searchState) encode() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

func (s *searchState) decode(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(s)
}

// validate checks a state that was read back.
func (s *searchState) validate(filtered bool) error {
	if !(s.Eta > 0) || math.IsInf(s.Eta, 0) || (s.Adaptive != nil) != filtered {
		return fmt.Errorf("a step size of %v: not what a line search leaves", s.Eta)
	}
	if filtered {
		return s.Adaptive.Validate()
	}
	return s.Start.Validate()
}

// saveSearch and restoreSearch keep the state with a checkpoint.
func (r *run) saveSearch(c *checkpoint) (err error) {
	s := r.searcher
	if s == nil {
		return nil
	}
	s.state.Group = r.engine.descent.group
	s.state.save(r.budget)
	c.more, err = s.state.encode()
	return err
}

func (r *run) restoreSearch(c *checkpoint) error {
	s := r.searcher
	if s == nil {
		return nil
	}
	var state searchState
	if err := errors.Join(state.decode(c.more), state.validate(r.plan.filtered())); err != nil {
		return usage.Errorf("%s: the checkpoint's line search cannot be read: %w; restore the file, or start a new run in another directory", r.options.Out, err)
	}
	if err := r.restoreBudget(state.filterState); err != nil {
		return err
	}
	s.state = state
	r.engine.descent.group = s.state.Group
	return nil
}
