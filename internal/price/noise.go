package price

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

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
		SamplingRate: p.SamplingRate, Steps: p.Steps,
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
	switch far := errors.As(err, &out); {
	case far && p.adapts():
		out.Words = fmt.Sprintf("epsilon %v is out of reach with --clipping %s at an expected batch of %.6g: even with unlimited noise on the gradients epsilon would be %.4g, because clipped records are counted with noise; raise --batch, or use --clipping %s",
			*c.Epsilon, c.Clipping, p.ExpectedBatch, out.Least, perexample.Flat)
	case far && c.TrainLossNoise != nil:
		out.Words = fmt.Sprintf("epsilon %v is out of reach with --train-loss-noise %v: even with unlimited noise on the gradients epsilon would be %.4g, because every training loss that is shown is paid for; raise --train-loss-noise or --eval-every, or leave the losses out",
			*c.Epsilon, *c.TrainLossNoise, out.Least)
	}
	return refused(err)
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
	c := &p.Settings
	events, err := p.fixed(p.Steps)
	if err != nil {
		return usage.Wrap(err)
	}
	step := 1
	for _, e := range events {
		multiplier := 0.0
		switch m := e.Mechanisms[0].(type) {
		case accountant.Gaussian:
			multiplier = m.NoiseMultiplier
		case accountant.ObjectivePerturbation:
			multiplier = m.NoiseMultiplier
		default:
			return fmt.Errorf("optimizer %s plans %v as the noise of a step, which must be Gaussian", p.Traits.Name, m)
		}
		if err := p.checkExact(multiplier, fmt.Sprintf("and step %d needs", step)); err != nil {
			return err
		}
		if step == 1 {
			p.Sigma, p.Least = multiplier, multiplier
		}
		step += e.Count
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

// adaptive prices a run whose budgets adapt. Its ε is that of the filter, whatever will be spent.
func (p *Price) adaptive() error {
	prices, err := p.prices(1)
	if err != nil {
		return usage.Wrap(err)
	}
	first, c := p.asked(prices, 1), &p.Settings
	gradient, ok := first[0].Mechanisms[0].(accountant.Gaussian)
	if !ok {
		return fmt.Errorf("optimizer %s declares %v as the noise of its gradients, which must be Gaussian", p.Traits.Name, first[0].Mechanisms[0])
	}
	if c.Accountant == accountant.RDP {
		if p.order, err = accountant.RepeatedOrder(first, p.relation(), *c.Epsilon, *c.Delta); err != nil {
			return usage.Wrap(err)
		}
	}
	p.Noisy, p.Sigma, p.Epsilon = true, gradient.NoiseMultiplier, c.Epsilon
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

// NewBudget is the filter that admits the releases. The count is paid before all else.
func (p *Price) NewBudget() (accountant.Budget, error) {
	c := &p.Settings
	b, err := accountant.NewBudget(accountant.BudgetTerms{
		Epsilon: *c.Epsilon, Delta: *c.Delta, Neighbouring: p.relation(),
		Accountant: c.Accountant, Order: p.order, SamplingRate: p.SamplingRate,
	})
	if err == nil && p.Count != nil {
		err = b.Ask(p.countEvent())
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

// least is the smallest noise multiplier at which so many steps are admitted.
func (p *Price) least(steps int) (float64, error) {
	var failed error
	event := func(multiplier float64) accountant.Event {
		e, err := p.together(multiplier, steps)
		failed = errors.Join(failed, err)
		return e
	}
	sigma, err := accountant.LeastAdmitted(event, p.NewBudget, setting.LeastNoise, setting.MostNoise)
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, refused(p.blameNorm(fmt.Errorf("no noise makes %d steps at sampling rate %v affordable: %w; lower --batch, or allow more epsilon", steps, p.SamplingRate, err)))
	}
	return sigma, nil
}

// scheduled plans the noise around which a method chooses that of every step: σ_g with which the planned steps spend the
// budget, and σ_min with which one does (Hong et al. 2021, algorithm 3).
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

// chooseOrder settles at which order a filter spends: that which suits a committed schedule that spends the budget.
func (p *Price) chooseOrder() error {
	c := &p.Settings
	if c.Accountant == accountant.CTCDP {
		return nil
	}
	steps := *p
	steps.Count = nil // which is paid before them
	sigma, _, err := steps.schedule(accountant.RDP).Calibrate(*c.Epsilon)
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
		return fmt.Errorf("%w; norms with a noise multiplier of %v take a part of it: raise norm_noise, or leave it out", err, *z)
	}
	return err
}
