package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// learned is the optimizer of learned privacy protection.
const learned = "l2p"

// normNoise is where a norm's noise is drawn.
const normNoise = 4

// protects reports whether a protector schedules the noise and makes the steps.
func (c *Config) protects() bool { return c.Optimizer == learned }

// fixedSize reports whether batches are subsets of a fixed size, which the
// accountant of the paper needs.
func (c *Config) fixedSize() bool { return c.protects() && c.Accountant == accountant.CTCDP }

// checkProtector finds faults that show without the protector.
func (c *Config) checkProtector() error {
	if !c.protects() {
		switch {
		case c.private() && c.Accountant == accountant.CTCDP:
			return usage.Errorf("accountant %s: it prices batches of a fixed size, which only optimizer %s draws here; use %s or %s", c.Accountant, learned, accountant.PLD, accountant.RDP)
		case c.Weights != "":
			return usage.Errorf("protector_sha256 %s: optimizer %s has no protector; leave it out", c.Weights, c.Optimizer)
		case c.Protector != "":
			return usage.Errorf("protector %s: optimizer %s has none; leave it out, or use --optimizer %s", c.Protector, c.Optimizer, learned)
		case c.NormNoise != nil:
			return usage.Errorf("norm-noise %v: optimizer %s asks for no norm; leave it out, or use --optimizer %s", *c.NormNoise, c.Optimizer, learned)
		}
		return nil
	}
	switch {
	case c.adapts():
		return usage.Errorf("clipping %s: a protector was trained for a clip norm that stays; use --clipping flat", c.Clipping)
	case c.NormNoise != nil && (!(*c.NormNoise >= leastNoise) || *c.NormNoise > mostNoise):
		return usage.Errorf("norm-noise %v: must be a noise multiplier in [%g, %g]", *c.NormNoise, leastNoise, mostNoise)
	case c.NormNoise != nil && c.exact():
		return usage.Errorf("norm-noise %v: norms have no integer form; leave it out, or use --noise secure", *c.NormNoise)
	case c.fixedSize() && c.Neighbouring != string(accountant.ReplaceOne):
		return usage.Errorf("accountant %s: it holds for batches of a fixed size and under replace-one; add --neighbouring replace-one", c.Accountant)
	case c.fixedSize() && c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: accountant %s prices the batches of training alone; leave it out, or use another --accountant", *c.TrainLossNoise, c.Accountant)
	}
	return nil
}

// filtered reports whether an online filter admits every release.
func (p *Plan) filtered() bool { return p.Config.filtered() || p.schedules() }

// schedules reports whether the noise is a scheduler's, or a filter's to admit.
func (p *Plan) schedules() bool {
	return p.protector != nil && (p.protector.Adapts() || p.Config.fixedSize())
}

// resolveProtector reads the protector and completes the settings that follow from it.
func (p *Plan) resolveProtector() error {
	c := &p.Config
	if !c.protects() {
		return nil
	}
	if c.Protector == "" {
		return usage.Errorf("optimizer %s needs a protector: give --protector, a name that privgrad l2p list shows or a file that privgrad l2p train wrote", learned)
	}
	var err error
	if p.protector, err = l2p.Find(c.Protector); err != nil {
		return usage.Wrap(err)
	}
	card := &p.protector.Card
	if c.Weights != "" && c.Weights != card.Weights {
		return usage.Errorf("protector %s has weights of SHA-256 %s, the settings name %s: restore the file, or start a new run in another directory", c.Protector, card.Weights, c.Weights)
	}
	c.Weights = card.Weights
	if of, ok := p.overlap(); ok {
		p.warnings = append(p.warnings, "no guarantee: "+fmt.Sprintf(overlaps, of...))
	}
	if card.Projector.Kind == l2p.Learned && c.Momentum != 0 {
		return usage.Errorf("momentum %v: the projector of protector %s has a memory of its own; leave momentum at 0", c.Momentum, card.Name)
	}
	if c.NormNoise != nil && !p.protector.Adapts() {
		return usage.Errorf("norm-noise %v: protector %s schedules no noise and would not look at the norm; leave it out", *c.NormNoise, card.Name)
	}
	if c.LR == nil && card.Projector.Kind == l2p.Learned {
		lr := card.Scale
		c.LR = &lr
	}
	if c.Steps == nil && c.Epochs == nil {
		steps := card.Steps
		c.Steps = &steps
	}
	if slices.Equal(card.Tasks, []string{"quadratic"}) {
		p.warnings = append(p.warnings, fmt.Sprintf("protector %s knows %s alone, and what it does to a network is likely no training: use one that was trained on networks, such as mnist", card.Name, card.Summary))
	}
	if card.Neighbouring != c.Neighbouring {
		p.warnings = append(p.warnings, fmt.Sprintf("protector %s was trained for noise under %s, this run is under %s: it may be far from what it knows", card.Name, card.Neighbouring, c.Neighbouring))
	}
	if e := c.Epsilon; e != nil && (*e < card.EpsilonRange[0] || *e > card.EpsilonRange[1]) {
		p.warnings = append(p.warnings, fmt.Sprintf("protector %s was trained for epsilon from %v to %v, this run has %v: it may be far from what it knows", card.Name, card.EpsilonRange[0], card.EpsilonRange[1], *e))
	}
	if !p.schedules() {
		return nil
	}
	switch {
	case c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0:
		return usage.Errorf("noise multiplier %v: the noise is scheduled; give --epsilon", *c.NoiseMultiplier)
	case c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: a schedule that follows what is released leaves no budget aside for it; leave it out", *c.TrainLossNoise)
	case c.LRSchedule != dpoptim.Constant || c.Warmup != 0:
		return usage.Errorf("lr-schedule %s and warmup %d: a run whose noise is scheduled does not know how many steps it will make; leave them out", c.LRSchedule, c.Warmup)
	}
	settled := accountant.RDP
	if c.fixedSize() {
		settled = accountant.CTCDP
	}
	if c.Accountant != settled && c.Accountant != Default().Accountant {
		return usage.Errorf("accountant %s: a schedule that follows what is released is priced by %s, or by %s on batches of a fixed size; leave it out", c.Accountant, accountant.RDP, accountant.CTCDP)
	}
	c.Accountant = settled
	return nil
}

// overlaps is why a run guarantees nothing whose records trained its protector.
const overlaps = "protector %s was trained on records of %s, un-noised"

// overlap names such a run's protector and data.
func (p *Plan) overlap() (of []any, ok bool) {
	if p.protector == nil {
		return nil, false
	}
	card := &p.protector.Card
	data := card.Overlap(p.Config.Data, p.Config.Classes)
	return []any{card.Name, data}, data != ""
}

// resolveSubsets settles the size of batches that are subsets, out of the public number
// of records.
func (p *Plan) resolveSubsets() error {
	if !p.Config.fixedSize() {
		return nil
	}
	size := math.Round(p.ExpectedBatch)
	if size < 1 {
		return usage.Errorf("an expected batch of %v records: subsets have a record at least; raise --batch", p.ExpectedBatch)
	}
	p.ExpectedBatch, p.SamplingRate = size, size/float64(p.PublicN)
	return nil
}

// sampling is how batches are drawn, for the result.
func (p *Plan) sampling() string {
	if p.Config.fixedSize() {
		return "fixed-size"
	}
	return "poisson"
}

// asked is what a step asks of its batch.
func (p *Plan) asked(multiplier float64) accountant.Event {
	all := []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: multiplier}}
	if z := p.Config.NormNoise; z != nil {
		all = append(all, accountant.Gaussian{NoiseMultiplier: *z})
	}
	if p.Config.fixedSize() {
		return accountant.SubsetBatch(p.SamplingRate, 1, all...)
	}
	return accountant.PoissonBatch(p.SamplingRate, 1, all...)
}

// newBudget is the filter that admits the releases.
func (p *Plan) newBudget() (accountant.Budget, error) {
	c := &p.Config
	b, err := accountant.NewBudget(accountant.BudgetTerms{
		Epsilon: *c.Epsilon, Delta: *c.Delta, Neighbouring: accountant.Neighbouring(c.Neighbouring),
		Accountant: c.Accountant, Order: p.order, SamplingRate: p.SamplingRate,
	})
	return b, asBudget(err)
}

// least is the smallest noise multiplier at which so many steps are admitted.
func (p *Plan) least(steps int) (float64, error) {
	event := func(multiplier float64) accountant.Event {
		e := p.asked(multiplier)
		e.Count = steps
		return e
	}
	sigma, err := accountant.LeastAdmitted(event, p.newBudget, leastNoise, mostNoise)
	if err != nil {
		return 0, asBudget(p.blameNorm(fmt.Errorf("no noise makes %d steps at sampling rate %v affordable: %w; lower --batch, or allow more epsilon", steps, p.SamplingRate, err)))
	}
	return sigma, nil
}

// resolveSchedule plans the noise: σ_g with which the planned steps spend the budget,
// and σ_min with which one does (Hong et al. 2021, algorithm 3). The run's ε is that of
// the filter, whatever is spent.
func (p *Plan) resolveSchedule() error {
	c := &p.Config
	if c.Epsilon != nil {
		if !c.fixedSize() {
			s := accountant.Schedule{
				SamplingRate: p.SamplingRate, Steps: p.Steps,
				Neighbouring: accountant.Neighbouring(c.Neighbouring), Accountant: accountant.RDP, Delta: *c.Delta,
			}
			if z := c.NormNoise; z != nil {
				s.WithSum = []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: *z}}
			}
			sigma, _, err := s.Calibrate(*c.Epsilon)
			if err != nil {
				return asBudget(p.blameNorm(err))
			}
			e := p.asked(sigma)
			e.Count = p.Steps
			if p.order, err = accountant.FilterOrder([]accountant.Event{e}, s.Neighbouring, *c.Delta); err != nil {
				return usage.Wrap(err)
			}
		}
		var err error
		if p.Sigma, err = p.least(p.Steps); err != nil {
			return err
		}
		if p.setting.Least, err = p.least(1); err != nil {
			return err
		}
		p.Epsilon, p.spent = c.Epsilon, map[int]float64{}
	}
	p.setting.Planned = p.Sigma
	p.bound = p.Steps
	if p.Sigma == 0 {
		return nil
	}
	largest := p.Sigma
	if p.protector.Adapts() {
		largest = p.setting.Multiplier(1)
	}
	if c.exact() && largest > mechanism.MostExact {
		return usage.Errorf("exact noise is drawn for noise multipliers up to %g, the schedule's go up to %v: allow more epsilon, or use --noise secure", mechanism.MostExact, largest)
	}
	b, err := p.newBudget()
	if err != nil {
		return err
	}
	e := p.asked(p.Sigma)
	e.Count = p.Steps
	if err := b.Ask(e); err != nil {
		return asBudget(err)
	}
	if b.Left() > 0.01 {
		p.warnings = append(p.warnings, fmt.Sprintf("%d steps spend %.3g of the budget, as the conditions of %s allow no less noise; lower --batch, or raise --steps", p.Steps, 1-b.Left(), c.Accountant))
	} else if p.protector.Adapts() {
		// A step costs a quarter of a planned one at least, or nearly so, as its noise
		// is at most twice the planned.
		p.bound *= mostOverPlanned
	}
	return nil
}

// blameNorm adds to a refusal that norms take a part of the budget.
func (p *Plan) blameNorm(err error) error {
	if z := p.Config.NormNoise; z != nil {
		return fmt.Errorf("%w; norms with a noise multiplier of %v take a part of it: raise --norm-noise, or leave it out", err, *z)
	}
	return err
}

// mostOverPlanned bounds the steps of a schedule, as a multiple of those planned.
const mostOverPlanned = 8

// resolveSetting tells the protector what is public of the run.
func (p *Plan) resolveSetting() {
	p.setting.Steps, p.setting.Params = p.Steps, p.Network.Program.NumParams()
	p.setting.Clip, p.setting.Batch = p.Config.Clip, p.ExpectedBatch
}

// protectState is where a run whose noise is scheduled stands: released values only,
// which the checkpoint holds as JSON.
type protectState struct {
	filterState
	Scheduler []float64    `json:"scheduler"`
	Released  l2p.Released `json:"released"`
}

// protection is a run's part of it.
type protection struct {
	state     protectState
	projector *l2p.Projector // nil where it is the identity
}

// openProtection prepares the schedule.
func (r *run) openProtection() error {
	p := r.plan
	if !p.schedules() {
		return nil
	}
	r.protection = &protection{projector: projectorOf(r.engine.optimizer)}
	r.protection.state.Scheduler = make([]float64, p.protector.SchedulerState())
	r.protection.state.Released = l2p.Released{Step: 1, Left: 1}
	if p.Sigma == 0 {
		return nil
	}
	var err error
	r.budget, err = p.newBudget()
	return err
}

// projectorOf is the learned projector among an optimizer and its average.
func projectorOf(o dpoptim.Optimizer) *l2p.Projector {
	if a, ok := o.(*dpoptim.Average); ok {
		o = a.Optimizer
	}
	projector, _ := o.(*l2p.Projector)
	return projector
}

// protectedStep chooses the noise, has it admitted, and makes a step with it.
func (r *run) protectedStep() error {
	p, s := r.plan, &r.protection.state
	next := append([]float64(nil), s.Scheduler...)
	multiplier := p.protector.Next(p.setting, s.Released, next)
	if r.options.onSchedule != nil {
		r.options.onSchedule(multiplier)
	}
	if err := r.ask(p.asked(multiplier)); err != nil {
		return err
	}
	s.Scheduler = next
	if p.Sigma > 0 {
		m, err := p.gradient(multiplier, p.Config.Clip, r.noise, r.engine.net)
		if err != nil {
			return err
		}
		r.engine.mechanism = m
	}
	if o := r.protection.projector; o != nil {
		o.Released = s.Released
	}
	batch, draw := s.draw()
	r.rows = r.sampler.Batch(batch, r.rows[:0])
	norm2, norm, err := r.engine.Protected(r.rows, draw, r.step+1)
	if err != nil {
		return err
	}
	left := 1 - float64(r.step+1)/float64(p.Steps)
	if r.budget != nil {
		left = r.budget.Left()
	}
	s.Released = l2p.Released{
		Step: r.step + 2, Left: math.Max(left, 0), Multiplier: multiplier,
		Norm2: norm2 / p.ExpectedBatch / p.ExpectedBatch, Norm: norm / p.ExpectedBatch,
	}
	return nil
}

// encode, decode and validate are the state as a checkpoint holds it.
func (s *protectState) encode() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

func (s *protectState) decode(text string, states int) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return err
	}
	if len(s.Scheduler) != states || s.Released.Step < 1 {
		return errors.New("not what a schedule of this protector leaves")
	}
	return nil
}

// saveProtection and restoreProtection keep the state with a checkpoint.
func (r *run) saveProtection(c *checkpoint) (err error) {
	if r.protection == nil {
		return nil
	}
	r.protection.state.save(r.budget)
	c.more, err = r.protection.state.encode()
	return err
}

func (r *run) restoreProtection(c *checkpoint) error {
	if r.protection == nil {
		return nil
	}
	var state protectState
	if err := state.decode(c.more, r.plan.protector.SchedulerState()); err != nil {
		return usage.Errorf("%s: the checkpoint's schedule cannot be read: %w; restore the file, or start a new run in another directory", r.options.Out, err)
	}
	if err := r.restoreBudget(state.filterState); err != nil {
		return err
	}
	r.protection.state = state
	return nil
}

// normMechanism is what releases norms; nil where none are asked for.
func (p *Plan) normMechanism(n device.Net, s *stream.Stream) (*mechanism.Norm, error) {
	z := p.Config.NormNoise
	if z == nil || p.Sigma == 0 {
		return nil, nil
	}
	rows := p.mostBatch()
	m, err := mechanism.NewNorm(*z, p.Config.Clip, n.Rounding(rows), rows, p.Network.Program.NumParams(), s, normNoise)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	return m, priced(m.Event(), *z)
}
