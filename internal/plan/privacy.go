package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// What a run costs, and the noise that makes it cost that.

// resolvePrivacy prices what the method declares.
func (p *Plan) resolvePrivacy() error {
	c := &p.Config
	var err error
	if p.Declaration, err = p.Method.Declare(c.Settings, p.Facts); err != nil {
		return err
	}
	if err := p.checkDeclaration(); err != nil {
		return err
	}
	p.resolveCount()
	if !c.Private() {
		return nil
	}
	if p.Method.Traits().Pure {
		err = p.resolvePure()
	} else {
		err = p.resolveNoise()
	}
	if err != nil {
		return err
	}
	p.Warnings = append(p.Warnings, p.doubts()...)
	return p.resolveRisk()
}

// resolveNoise settles δ, and the noise of a method that is not pure.
func (p *Plan) resolveNoise() error {
	c := &p.Config
	if n := 1 / float64(p.PublicN); *c.Delta >= n {
		p.Warnings = append(p.Warnings, fmt.Sprintf("delta %v is not below 1/N = %.3g: such a δ allows that some record is published as it is; choose a smaller --delta, such as %s", *c.Delta, n, suggestedDelta(p.PublicN)))
	}
	var err error
	switch p.Declaration.Budget {
	case dpoptim.Committed:
		err = p.resolveCommitted()
	case dpoptim.Planned:
		err = p.resolvePlanned()
	case dpoptim.Adaptive:
		err = p.resolveAdaptive()
	default:
		err = p.resolveScheduled()
	}
	p.Facts.Planned = p.Sigma
	return err
}

// suggestedDelta is one over ten times the public number of records, rounded down to a power of ten.
func suggestedDelta(records int) string {
	power := 1
	for p := 1.; p < float64(records); p *= 10 {
		power++
	}
	return fmt.Sprintf("1e-%02d", power)
}

// resolveRisk says what the guarantee means for attacks. What a filter admits is known by its
// (ε, δ) alone, as is what a pure method releases.
func (p *Plan) resolveRisk() error {
	c := &p.Config
	if len(p.NoGuarantee()) > 0 {
		return nil
	}
	if p.Filtered() || p.Method.Traits().Pure {
		delta := 0.0
		if !p.Method.Traits().Pure {
			delta = *c.Delta
		}
		p.Risk = accountant.RiskAt(*p.Epsilon, delta)
		return nil
	}
	events, err := p.asksOf(p.price, p.Sigma)
	if err != nil {
		return err
	}
	p.Risk, err = accountant.RiskOf(events, accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: *c.Delta})
	return usage.Wrap(err)
}

// resolvePure prices the releases of a pure method, which share ε, with δ = 0.
func (p *Plan) resolvePure() error {
	c := &p.Config
	prices, err := p.prices(0)
	if err != nil {
		return usage.Wrap(err)
	}
	pure, ok := prices[0].(accountant.Pure)
	if !ok {
		return fmt.Errorf("optimizer %s declares %v as its noise, and promises a pure ε", c.Optimizer, prices[0])
	}
	cost := pure.Epsilon * float64(p.Uses(p.Steps))
	if c.Neighbouring == string(accountant.ReplaceOne) {
		cost *= 2
	}
	if cost > *c.Epsilon {
		return fmt.Errorf("optimizer %s declares %d releases of ε = %v together, and was allowed %v", c.Optimizer, p.Uses(p.Steps), cost, *c.Epsilon)
	}
	p.Epsilon, p.spent = c.Epsilon, map[int]float64{0: 0, p.Steps: *c.Epsilon}
	return nil
}

// keepPlaces says how records stand at places that no other record decides.
func (p *Plan) keepPlaces() string {
	c := &p.Config
	switch {
	case len(c.Classes) > 0:
		return "leave out --classes (--positive keeps all records)"
	case c.Folds > 0:
		return "leave out --folds"
	case strings.HasPrefix(c.Data, "dir:"):
		return "give the images as npz:PATH instead of dir:PATH"
	case p.Set.Share > 0 && p.Set.Share < 1:
		return "the schema's test_share holds out records by what they hold: remove it, and name a file of test records under test"
	}
	return "give a table without empty lines, and with a schema in which no column has `only`"
}

// checkDeclaration refuses what does not go together with the settings.
func (p *Plan) checkDeclaration() error {
	c, committed := &p.Config, !p.Declaration.Budget.Filtered()
	if err := p.Declaration.Check(p.Method.Traits(), c.Accountant); err != nil {
		return err
	}
	switch {
	case p.Method.Traits().Local && c.Neighbouring != string(accountant.ReplaceOne):
		return usage.Errorf("neighbouring %s: local privacy is about which record reports, not whether; use --neighbouring %s", c.Neighbouring, accountant.ReplaceOne)
	case p.Method.Traits().Local && p.Set.Moves:
		return usage.Errorf("optimizer %s has records report at their places, and what a record of data set %s holds decides at which places others stand; %s", c.Optimizer, c.Data, p.keepPlaces())
	case (p.Declaration.Budget != dpoptim.Committed || p.Method.Traits().Once) && (c.Adapts() || c.TrainLossNoise != nil):
		return usage.Errorf("clipping %s, train-loss-noise: optimizer %s is charged for what it asks, and for nothing beside; use --clipping flat, and leave out --train-loss-noise", c.Clipping, c.Optimizer)
	case !committed && c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0:
		return usage.Errorf("noise multiplier %v: optimizer %s chooses its noise as it goes; give --epsilon", *c.NoiseMultiplier, c.Optimizer)
	case len(p.Declaration.Asks) > 1 && c.Adapts():
		return usage.Errorf("clipping %s: optimizer %s asks for more than sums of gradients; use --clipping flat", c.Clipping, c.Optimizer)
	}
	return nil
}

// Filtered reports whether an online filter admits every release.
func (p *Plan) Filtered() bool {
	return p.Method.Traits().Private && p.Declaration.Budget.Filtered()
}

// resolveCommitted calibrates the noise of a schedule of which every release is planned.
func (p *Plan) resolveCommitted() error {
	c := &p.Config
	s := accountant.Schedule{
		SamplingRate: p.SamplingRate, Steps: p.Steps, Batch: p.Event,
		Neighbouring: accountant.Neighbouring(c.Neighbouring), Accountant: c.Accountant, Delta: *c.Delta,
	}
	if c.Adapts() {
		a := c.Adaptive()
		c.ClipFloor, c.ClipCeiling, c.ClipQuantile = &a.Floor, &a.Ceiling, &a.Quantile
		s.WithSum = []accountant.Mechanism{engine.CountNoise(p.ExpectedBatch)}
	}
	s.Besides = p.besides(p.Steps)
	s.Price = p.priceAsks
	if c.Epsilon != nil {
		sigma, _, err := s.Calibrate(*c.Epsilon)
		if err != nil {
			return p.outOfReach(err)
		}
		p.Sigma = sigma
	} else {
		p.Sigma = *c.NoiseMultiplier
	}
	if c.Exact() && p.Sigma > mechanism.MostExact {
		return usage.Errorf("exact noise is drawn for noise multipliers up to %g, not %v: allow more epsilon, or use --noise secure", mechanism.MostExact, p.Sigma)
	}
	p.Facts.Least = p.Sigma // constant
	if p.Sigma == 0 {
		return nil
	}
	p.price, p.spent = s, map[int]float64{}
	epsilon, err := s.Epsilon(p.Sigma)
	if err != nil {
		return usage.Wrap(err)
	}
	p.spent[p.Steps], p.Epsilon = epsilon, Finite(epsilon)
	return nil
}

// resolvePlanned prices the noise that the method has fixed for every step.
func (p *Plan) resolvePlanned() error {
	c := &p.Config
	for step := range p.different(p.Steps) {
		r, err := p.Declaration.Asks[0].At(step)
		if err != nil {
			return usage.Wrap(err)
		}
		multiplier, ok := multiplierOf(r.Noise)
		switch {
		case !ok:
			return fmt.Errorf("optimizer %s plans %v as the noise of a step, which must be Gaussian", c.Optimizer, r.Noise)
		case c.Exact() && multiplier > mechanism.MostExact:
			return usage.Errorf("exact noise is drawn for noise multipliers up to %g, and step %d needs %v: allow more epsilon, or use --noise secure", mechanism.MostExact, step+1, multiplier)
		case step == 0:
			p.Sigma, p.Facts.Least = multiplier, multiplier
		}
	}
	p.price = accountant.Schedule{
		SamplingRate: p.SamplingRate, Steps: p.Steps, Price: p.priceAsks,
		Neighbouring: accountant.Neighbouring(c.Neighbouring), Accountant: c.Accountant, Delta: *c.Delta,
	}
	epsilon, err := p.price.Epsilon(p.Sigma)
	if err != nil {
		return usage.Wrap(err)
	}
	if c.Epsilon != nil && epsilon > *c.Epsilon*(1+1e-9) {
		return fmt.Errorf("%w: the noise that optimizer %s plans costs epsilon %.6g in %d steps, and %v was given; lower --steps, or leave it out", accountant.ErrBudget, c.Optimizer, epsilon, p.Steps, *c.Epsilon)
	}
	p.Epsilon, p.spent = Finite(epsilon), map[int]float64{p.Steps: epsilon}
	return nil
}

// besides is what the first n slots of a committed schedule release apart from what the method asks.
func (p *Plan) besides(n int) (events []accountant.Event) {
	if n == 0 {
		return nil
	}
	if z := p.Config.TrainLossNoise; z != nil && p.evaluations(n) > 0 {
		e := p.BatchEvent(accountant.Gaussian{NoiseMultiplier: *z})
		e.Count = p.evaluations(n)
		events = append(events, e)
	}
	return append(events, p.countEvent()...)
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

// different is in how many of so many steps of a planned budget the noise has to be looked at.
func (p *Plan) different(steps int) int {
	if p.Declaration.Asks[0].Alike {
		return min(steps, 1)
	}
	return steps
}

// NoiseMultiplier is that of every step's gradients; nil where they differ, or are not planned.
func (p *Plan) NoiseMultiplier() *float64 {
	switch b := p.Declaration.Budget; {
	case !p.Config.Private() || p.Method.Traits().Pure, (b == dpoptim.Scheduled || b == dpoptim.Adaptive) && p.Sigma > 0,
		b == dpoptim.Planned && !p.Declaration.Asks[0].Alike:
		return nil
	}
	return &p.Sigma
}

// Iterations are those of a solver between two questions; nil where there is none.
func (p *Plan) Iterations() *int {
	s, ok := p.Method.(dpoptim.Solving)
	if !ok {
		return nil
	}
	n := s.Iterations(p.Facts)
	return &n
}

// planned are the events of so many steps of a planned budget; steps of one noise are one.
func (p *Plan) planned(steps int) (events []accountant.Event, err error) {
	different := p.different(steps)
	for step := range different {
		r, err := p.Declaration.Asks[0].At(step)
		if err != nil {
			return nil, err
		}
		if last := len(events) - 1; last >= 0 && events[last].Mechanisms[0] == r.Noise {
			events[last].Count++
			continue
		}
		events = append(events, p.BatchEvent(r.Noise))
	}
	if different > 0 {
		events[len(events)-1].Count += steps - different
	}
	return events, nil
}

// outOfReach says which settings keep a committed schedule from its ε.
func (p *Plan) outOfReach(err error) error {
	c := &p.Config
	var out *accountant.OutOfReach
	if !errors.As(err, &out) {
		return asBudget(err)
	}
	switch {
	case c.Adapts():
		out.Words = fmt.Sprintf("epsilon %v is out of reach with --clipping %s at an expected batch of %.6g: even with unlimited noise on the gradients epsilon would be %.4g, because clipped records are counted with noise; raise --batch, or use --clipping %s",
			*c.Epsilon, c.Clipping, p.ExpectedBatch, out.Least, perexample.Flat)
	case c.TrainLossNoise != nil:
		out.Words = fmt.Sprintf("epsilon %v is out of reach with --train-loss-noise %v: even with unlimited noise on the gradients epsilon would be %.4g, because every training loss that is shown is paid for; raise --train-loss-noise or --eval-every, or leave the losses out",
			*c.Epsilon, *c.TrainLossNoise, out.Least)
	default:
		return asBudget(err)
	}
	return out
}

// prices are the noise of the declared releases at a noise multiplier of gradients.
func (p *Plan) prices(sigma float64) (all []accountant.Mechanism, err error) {
	for _, a := range p.Declaration.Asks {
		r, err := a.Release(sigma)
		if err != nil {
			return nil, err
		}
		if (sigma > 0 || p.Method.Traits().Pure) && engine.Silent(r.Noise) {
			return nil, fmt.Errorf("optimizer %s declares a %s without noise", p.Config.Optimizer, a.Question)
		}
		all = append(all, r.Noise)
	}
	return all, nil
}

// priceAsks is what a schedule of the declared questions costs.
func (p *Plan) priceAsks(s accountant.Schedule, sigma float64) (float64, error) {
	if asks := p.Declaration.Asks; len(asks) > 1 && asks[1].Batch == dpoptim.ByPapers {
		prices, err := p.prices(sigma)
		if err != nil {
			return 0, err
		}
		return p.priceByPapers(s, prices)
	}
	events, err := p.asksOf(s, sigma)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	r, err := accountant.Account(events, accountant.Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
	return r.Epsilon, err
}

// asksOf are the events of a schedule of the declared questions, and of what is asked beside them.
func (p *Plan) asksOf(s accountant.Schedule, sigma float64) ([]accountant.Event, error) {
	if p.Declaration.Budget == dpoptim.Planned {
		return p.planned(s.Steps)
	}
	prices, err := p.prices(sigma)
	switch {
	case err != nil:
		return nil, err
	case len(prices) == 1 && prices[0] == accountant.Mechanism(accountant.Gaussian{NoiseMultiplier: sigma}) && max(p.Declaration.Asks[0].Every, 1) == 1:
		return s.Events(sigma), nil
	case len(s.WithSum) > 0:
		return nil, usage.Errorf("clipping %s: it is for sums of gradients with the planned noise, and optimizer %s asks for others; use --clipping flat", p.Config.Clipping, p.Config.Optimizer)
	}
	return append(slices.Clip(s.Besides), p.events(prices, s.Steps)...), nil
}

// priceByPapers is for a gradient and a line search in every step.
func (p *Plan) priceByPapers(s accountant.Schedule, prices []accountant.Mechanism) (float64, error) {
	gradient, isGaussian := prices[0].(accountant.Gaussian)
	search, isSearch := prices[1].(accountant.NoisyBTLS)
	if !isGaussian || !isSearch || len(prices) != 2 {
		return 0, fmt.Errorf("the papers' arithmetic is for a gradient and a line search; optimizer %s asks for %v", p.Config.Optimizer, prices)
	}
	if s.Steps < 1 {
		return 0, nil
	}
	r, err := accountant.LineSearch{SamplingRate: s.SamplingRate, Steps: s.Steps, Gradient: gradient, Search: search}.PaperEpsilon(s.Delta)
	return r.Epsilon, err
}

// events are those of so many steps. What is asked of one batch is one event; the batch of
// the first question is drawn in every step.
func (p *Plan) events(prices []accountant.Mechanism, steps int) (events []accountant.Event) {
	add := func(count int, asked ...accountant.Mechanism) {
		if count > 0 {
			e := p.BatchEvent(asked...)
			e.Count = count
			events = append(events, e)
		}
	}
	alone := asks(p.Declaration.Asks[0], steps)
	for i, a := range p.Declaration.Asks[1:] {
		if count := asks(a, steps); a.Batch == dpoptim.OfSum {
			add(count, prices[0], prices[i+1])
			alone -= count
		}
	}
	add(alone, prices[0])
	for i, a := range p.Declaration.Asks[1:] {
		if a.Batch != dpoptim.OfSum {
			add(asks(a, steps), prices[i+1])
		}
	}
	return events
}

// asks counts a question in so many steps, of which the first has it.
func asks(a dpoptim.Ask, steps int) int {
	every := max(a.Every, 1)
	return (steps + every - 1) / every
}

// EpsilonAt is the ε of the first n slots of the schedule; nil without noise.
func (p *Plan) EpsilonAt(n int) *float64 {
	if p.spent == nil {
		return nil
	}
	epsilon, known := p.spent[n]
	switch {
	case known:
	case p.Method.Traits().Pure:
		epsilon = *p.Epsilon * float64(p.Uses(n)) / float64(p.Uses(p.Steps))
	default:
		part := p.price
		part.Steps, part.Besides = n, p.besides(n)
		// A part costs no more than the whole; bounds on both may cross.
		epsilon = p.spent[p.Steps]
		if e, err := part.Epsilon(p.Sigma); err == nil {
			epsilon = min(e, epsilon)
		}
		p.spent[n] = epsilon
	}
	return Finite(epsilon)
}

// Evaluates says whether an evaluation follows slot number n, counted from 1.
// It goes by slots, so that a slot's noisy loss is never drawn twice.
func (p *Plan) Evaluates(n int) bool { return n%p.evalEvery == 0 || n == p.Steps }

// Evaluations counts those of a run of so many slots.
func (p *Plan) Evaluations() int { return p.evaluations(p.MostSteps) }

// evaluations counts those after the first n slots.
func (p *Plan) evaluations(n int) int {
	count := n / p.evalEvery
	if n == p.Steps && n%p.evalEvery != 0 {
		count++
	}
	return count
}

// first are the events of the first step of a run whose budgets adapt.
func (p *Plan) first() ([]accountant.Event, error) {
	prices, err := p.prices(1)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	return p.events(prices, 1), nil
}

// resolveAdaptive prices a run whose budgets adapt: its ε is that of the filter,
// whatever will be spent.
func (p *Plan) resolveAdaptive() error {
	c := &p.Config
	if c.Epsilon == nil {
		return nil // no noise
	}
	first, err := p.first()
	if err != nil {
		return err
	}
	gradient, ok := first[0].Mechanisms[0].(accountant.Gaussian)
	if !ok {
		return fmt.Errorf("optimizer %s declares %v as the noise of its gradients, which must be Gaussian", c.Optimizer, first[0].Mechanisms[0])
	}
	p.Sigma, p.Epsilon, p.spent = gradient.NoiseMultiplier, c.Epsilon, map[int]float64{}
	b, err := p.NewBudget()
	if err != nil {
		return err
	}
	for _, e := range first {
		if err := b.Ask(e); err != nil {
			return asBudget(fmt.Errorf("the first step: %w; %s", err, p.Declaration.Advice))
		}
	}
	return nil
}

// NewBudget is the filter that admits the releases.
func (p *Plan) NewBudget() (accountant.Budget, error) {
	c := &p.Config
	t := accountant.BudgetTerms{
		Epsilon: *c.Epsilon, Delta: *c.Delta, Neighbouring: accountant.Neighbouring(c.Neighbouring),
		Accountant: c.Accountant, Order: p.order, SamplingRate: p.SamplingRate,
	}
	if p.Declaration.Budget == dpoptim.Adaptive && t.Accountant == accountant.RDP {
		expected, err := p.first()
		if err != nil {
			return nil, err
		}
		if t.Order, err = accountant.RepeatedOrder(expected, t.Neighbouring, t.Epsilon, t.Delta); err != nil {
			return nil, usage.Wrap(err)
		}
	}
	b, err := accountant.NewBudget(t)
	for _, e := range p.countEvent() { // paid before all else
		if err == nil {
			err = b.Ask(e)
		}
	}
	return b, asBudget(err)
}

// asBudget leaves a refusal what it is, and calls any other error bad usage.
func asBudget(err error) error {
	if errors.Is(err, accountant.ErrBudget) {
		return err
	}
	return usage.Wrap(err)
}

// asked is what steps ask at a noise multiplier.
func (p *Plan) asked(multiplier float64, steps int) (accountant.Event, error) {
	prices, err := p.prices(multiplier)
	e := p.BatchEvent(prices...)
	e.Count = steps
	return e, usage.Wrap(err)
}

// least is the smallest noise multiplier at which so many steps are admitted.
func (p *Plan) least(steps int) (float64, error) {
	var failed error
	event := func(multiplier float64) accountant.Event {
		e, err := p.asked(multiplier, steps)
		failed = errors.Join(failed, err)
		return e
	}
	sigma, err := accountant.LeastAdmitted(event, p.NewBudget, setting.LeastNoise, setting.MostNoise)
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, asBudget(p.blameNorm(fmt.Errorf("no noise makes %d steps at sampling rate %v affordable: %w; lower --batch, or allow more epsilon", steps, p.SamplingRate, err)))
	}
	return sigma, nil
}

// resolveScheduled plans the noise around which a method chooses that of every step: σ_g
// with which the planned steps spend the budget, and σ_min with which one does (Hong et
// al. 2021, algorithm 3). The run's ε is that of the filter, whatever is spent.
func (p *Plan) resolveScheduled() error {
	c := &p.Config
	if c.Epsilon == nil {
		return nil // no noise
	}
	if err := p.resolveOrder(); err != nil {
		return err
	}
	var err error
	if p.Sigma, err = p.least(p.Steps); err != nil {
		return err
	}
	if p.Facts.Least, err = p.least(1); err != nil {
		return err
	}
	p.Epsilon, p.spent = c.Epsilon, map[int]float64{}
	largest, scheduled := p.Sigma, p.Declaration.Budget == dpoptim.Scheduled
	if scheduled {
		largest = p.Facts.Least + 2*(p.Sigma-p.Facts.Least)
	}
	if c.Exact() && largest > mechanism.MostExact {
		return usage.Errorf("exact noise is drawn for noise multipliers up to %g, the schedule's go up to %v: allow more epsilon, or use --noise secure", mechanism.MostExact, largest)
	}
	b, err := p.NewBudget()
	if err != nil {
		return err
	}
	e, err := p.asked(p.Sigma, p.Steps)
	if err != nil {
		return err
	}
	if err := b.Ask(e); err != nil {
		return asBudget(err)
	}
	if b.Left() > 0.01 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d steps spend %.3g of the budget, as the conditions of %s allow no less noise; lower --batch, or raise --steps", p.Steps, 1-b.Left(), c.Accountant))
	} else if scheduled {
		// A step costs a quarter of a planned one at least, or nearly so, as its noise
		// is at most twice the planned.
		p.MostSteps *= mostOverPlanned
	}
	return nil
}

// mostOverPlanned bounds the steps of a schedule, as a multiple of those planned.
const mostOverPlanned = 8

// resolveOrder settles at which order a filter spends: that which suits the noise with which a
// committed schedule would spend the budget.
func (p *Plan) resolveOrder() error {
	c := &p.Config
	if c.Accountant == accountant.CTCDP {
		return nil
	}
	s := accountant.Schedule{
		SamplingRate: p.SamplingRate, Steps: p.Steps, Batch: p.Event,
		Neighbouring: accountant.Neighbouring(c.Neighbouring), Accountant: accountant.RDP, Delta: *c.Delta,
	}
	with, err := p.prices(1)
	if err != nil {
		return usage.Wrap(err)
	}
	s.WithSum = with[1:]
	sigma, _, err := s.Calibrate(*c.Epsilon)
	if err != nil {
		return asBudget(p.blameNorm(err))
	}
	e, err := p.asked(sigma, p.Steps)
	if err != nil {
		return err
	}
	p.order, err = accountant.FilterOrder([]accountant.Event{e}, s.Neighbouring, *c.Delta)
	return usage.Wrap(err)
}

// blameNorm adds to a refusal that norms take a part of the budget.
func (p *Plan) blameNorm(err error) error {
	if z := p.Config.L2P.NormNoise; z != nil {
		return fmt.Errorf("%w; norms with a noise multiplier of %v take a part of it: raise --norm-noise, or leave it out", err, *z)
	}
	return err
}

// LossBound clips an example's loss where the training loss is released.
const LossBound = 3

// Finite is x for JSON, nil where it is no number.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
