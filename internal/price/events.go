package price

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/usage"
)

// Events are the releases of the committed schedule, whose composition the run's ε is. They
// are nil where budgets adapt, by the papers' arithmetic, which composes otherwise, and
// where nothing is charged.
func (p *Price) Events() ([]accountant.Event, error) {
	if !p.Noisy || p.Filtered() || p.byPapers() {
		return nil, nil
	}
	asked, besides, err := p.released(p.Sigma, p.Steps)
	return append(asked, besides...), err
}

// composed are the same of the first steps at a noise multiplier of gradients, as they are priced: their order decides
// the last digits, and what goes beside sums alone has always been the last.
func (p *Price) composed(sigma float64, steps int) ([]accountant.Event, error) {
	asked, besides, err := p.released(sigma, steps)
	if err != nil || len(asked) == 0 {
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

// asked are the events of so many steps. What is asked of one batch is one event; the batch of
// the first question is drawn in every step, and clipped records are counted with it.
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
	if n == 0 {
		return nil
	}
	if z := p.Settings.TrainLossNoise; z != nil && p.evaluations(n) > 0 {
		e := p.BatchEvent(accountant.Gaussian{NoiseMultiplier: *z})
		e.Count = p.evaluations(n)
		events = append(events, e)
	}
	return append(events, p.countEvent()...)
}

// different is in how many of the steps a question's planned noise differs from that of the step before.
func different(a dpoptim.Ask, steps int) int {
	if a.Alike {
		return min(steps, 1)
	}
	return steps
}

// fixed are the events of so many steps whose noise the method has fixed; steps of one noise are one.
func (p *Price) fixed(steps int) (events []accountant.Event, err error) {
	ask := p.Declaration.Asks[0]
	n := different(ask, steps)
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
	if n > 0 {
		events[len(events)-1].Count += steps - n
	}
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
// all records. One record that is added, removed or replaced moves it by one at most.
func (p *Price) count() {
	c, t, d := &p.Settings, p.Traits, p.Declaration
	noisy := c.Epsilon != nil || c.NoiseMultiplier != nil && *c.NoiseMultiplier > 0
	byBatch := c.Accountant == accountant.CTCDP || c.Accountant == accountant.Paper
	if p.Counts && noisy && !t.Pure && !t.Once && !byBatch &&
		d.Budget != dpoptim.Planned && d.Asks[0].Question == dpoptim.Gradients && p.Units >= LeastCounted {
		p.Count = &accountant.Gaussian{NoiseMultiplier: float64(p.Units) / countShare}
	}
}

// countEvent is that of the count; nil where there is none.
func (p *Price) countEvent() []accountant.Event {
	if p.Count == nil {
		return nil
	}
	return []accountant.Event{{Mechanisms: []accountant.Mechanism{*p.Count}, Count: 1}}
}

// CountCost is the ε of the count alone.
func (p *Price) CountCost() (float64, error) {
	r, err := accountant.Account(p.countEvent(), p.options(p.Settings.Accountant))
	return r.Epsilon, err
}
