package price

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/usage"
)

// The prices of runs whose releases a filter admits: their ε is that of the filter, whatever will be spent.

// first are the events of the first step of a run whose budgets adapt.
func (p *Price) first() ([]accountant.Event, error) {
	prices, err := p.prices(1)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	return p.asked(prices, 1), nil
}

// adaptive prices a run whose budgets adapt.
func (p *Price) adaptive() error {
	first, err := p.first()
	if err != nil {
		return err
	}
	gradient, ok := first[0].Mechanisms[0].(accountant.Gaussian)
	if !ok {
		return fmt.Errorf("optimizer %s declares %v as the noise of its gradients, which must be Gaussian", p.Traits.Name, first[0].Mechanisms[0])
	}
	p.Noisy, p.Sigma, p.Epsilon = true, gradient.NoiseMultiplier, p.Settings.Epsilon
	b, err := p.NewBudget()
	if err != nil {
		return err
	}
	for _, e := range first {
		if err := b.Ask(e); err != nil {
			return refused(fmt.Errorf("the first step: %w; %s", err, p.Declaration.Advice))
		}
	}
	return nil
}

// NewBudget is the filter that admits the releases.
func (p *Price) NewBudget() (accountant.Budget, error) {
	c := &p.Settings
	t := accountant.BudgetTerms{
		Epsilon: *c.Epsilon, Delta: *c.Delta, Neighbouring: p.relation(),
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
	return b, refused(err)
}

// together is what steps ask at a noise multiplier, of one batch each.
func (p *Price) together(multiplier float64, steps int) (accountant.Event, error) {
	prices, err := p.prices(multiplier)
	e := p.BatchEvent(prices...)
	e.Count = steps
	return e, usage.Wrap(err)
}

// Noise multipliers among which one is sought; the configuration gives none beyond them.
const leastNoise, mostNoise = 1e-6, 1e9

// least is the smallest noise multiplier at which so many steps are admitted.
func (p *Price) least(steps int) (float64, error) {
	var failed error
	event := func(multiplier float64) accountant.Event {
		e, err := p.together(multiplier, steps)
		failed = errors.Join(failed, err)
		return e
	}
	sigma, err := accountant.LeastAdmitted(event, p.NewBudget, leastNoise, mostNoise)
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, refused(p.blameNorm(fmt.Errorf("no noise makes %d steps at sampling rate %v affordable: %w; lower --batch, or allow more epsilon", steps, p.SamplingRate, err)))
	}
	return sigma, nil
}

// scheduled plans the noise around which a method chooses that of every step: σ_g
// with which the planned steps spend the budget, and σ_min with which one does (Hong et
// al. 2021, algorithm 3).
func (p *Price) scheduled() error {
	c := &p.Settings
	if err := p.chooseOrder(); err != nil {
		return err
	}
	var err error
	if p.Sigma, err = p.least(p.Steps); err != nil {
		return err
	}
	if p.Least, err = p.least(1); err != nil {
		return err
	}
	p.Noisy, p.Epsilon = true, c.Epsilon
	largest, scheduled := p.Sigma, p.Declaration.Budget == dpoptim.Scheduled
	if scheduled {
		largest = p.Least + 2*(p.Sigma-p.Least)
	}
	if err := p.checkExact(largest, "the schedule's go up to"); err != nil {
		return err
	}
	b, err := p.NewBudget()
	if err != nil {
		return err
	}
	e, err := p.together(p.Sigma, p.Steps)
	if err != nil {
		return err
	}
	if err := b.Ask(e); err != nil {
		return refused(err)
	}
	if b.Left() > 0.01 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d steps spend %.3g of the budget, as the conditions of %s allow no less noise; lower --batch, or raise --steps", p.Steps, 1-b.Left(), c.Accountant))
	} else if scheduled {
		p.MostSteps *= 8 // a step costs a quarter of a planned one at least, or nearly so, as its noise is at most twice the planned
	}
	return nil
}

// chooseOrder settles at which order a filter spends: that which suits the noise with which a
// committed schedule would spend the budget.
func (p *Price) chooseOrder() error {
	c := &p.Settings
	if c.Accountant == accountant.CTCDP {
		return nil
	}
	with, err := p.prices(1)
	if err != nil {
		return usage.Wrap(err)
	}
	s := p.schedule(accountant.RDP)
	s.WithSum, s.Price = with[1:], nil
	sigma, _, err := s.Calibrate(*c.Epsilon)
	if err != nil {
		return refused(p.blameNorm(err))
	}
	e, err := p.together(sigma, p.Steps)
	if err != nil {
		return err
	}
	p.order, err = accountant.FilterOrder([]accountant.Event{e}, p.relation(), *c.Delta)
	return usage.Wrap(err)
}

// blameNorm adds to a refusal that norms take a part of the budget.
func (p *Price) blameNorm(err error) error {
	if z := p.NormNoise; z != nil {
		return fmt.Errorf("%w; norms with a noise multiplier of %v take a part of it: raise --norm-noise, or leave it out", err, *z)
	}
	return err
}
