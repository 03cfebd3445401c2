package blsgd

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/linesearch"
)

// Where budgets adapt, linesearch.Rule decides what to ask, and steps answers as its Oracle.

// noised is a release as it is made: without noise where none was planned.
func (s *steps) noised(r dpoptim.Release) *dpoptim.Release {
	if s.engine.Facts().Planned == 0 {
		r.Noise = nil
	}
	return &r
}

// gradient asks for one of a budget, on a batch of its own that may pay for a search too.
func (s *steps) gradient(sum dpoptim.Sum, rho float64, b linesearch.Budgets, set func(*dpoptim.Scalars)) (linesearch.Direction, error) {
	a := dpoptim.SumAsk{Release: s.noised(s.method.gradientAt(rho, s.engine.Facts().Clip*b.Clip)), Set: set}
	if s.method.s.Batches == string(accountant.Shared) {
		search, err := s.method.searchAt(b)
		if err != nil {
			return linesearch.Direction{}, err
		}
		s.second.shared = s.noised(search)
		a.Besides = []accountant.Mechanism{search.Noise}
	}
	return s.ask(sum, a)
}

// noise is the energy of that in one gradient.
func (s *steps) noise(rho float64, b linesearch.Budgets) float64 {
	f := s.engine.Facts()
	if f.Planned == 0 {
		return 0
	}
	return s.energy(multiplier(rho) * f.Clip * b.Clip)
}

func (s *steps) Gradient(b linesearch.Budgets) (linesearch.Direction, error) {
	d, err := s.gradient(s.direction, b.Gradient, b, nil)
	s.second.noise = s.noise(b.Gradient, b)
	d.Noise = s.second.noise
	return d, err
}

func (s *steps) Again(rho, weight float64, b linesearch.Budgets) (linesearch.Direction, float64, error) {
	two := s.second
	if s.normalises() {
		if _, err := s.shift(-s.method.l2 * s.length); err != nil { // gradients are averaged
			return linesearch.Direction{}, 0, err
		}
	}
	d, err := s.gradient(two.again, rho, b, func(x *dpoptim.Scalars) { x[dpoptim.SlotBlend] = float32(weight) })
	if err != nil {
		return linesearch.Direction{}, 0, err
	}
	dots, err := two.again.Dots()
	if err != nil {
		return linesearch.Direction{}, 0, err
	}
	two.noise = (1-weight)*(1-weight)*two.noise + weight*weight*s.noise(rho, b)
	d.Noise = two.noise
	return d, angle(dots[:3]), nil
}

// angle reads x·y, x·x and y·y; NaN where one of them is zero.
func angle(dots []float64) float64 {
	cos := dots[0] / math.Sqrt(dots[1]) / math.Sqrt(dots[2])
	return math.Acos(min(max(cos, -1), 1))
}

func (s *steps) Search(b linesearch.Budgets, start float64, d linesearch.Direction) (float64, error) {
	r := s.second.shared // fixed when its batch was drawn
	if s.method.s.Batches != string(accountant.Shared) {
		search, err := s.method.searchAt(b)
		if err != nil {
			return 0, err
		}
		r = s.noised(search)
	} else {
		r.Bound = *s.method.s.Clip * b.Clip
	}
	if s.method.s.Form == FormMinimum {
		return s.least(r, start, d)
	}
	rule := s.rule(r)
	i, err := s.search.Ask(r, s.candidates(rule, d, func(i int) float64 { return rule.Candidate(start, i) }))
	if err != nil {
		return 0, err
	}
	s.state.asked(i, *s.method.s.Trials)
	switch {
	case i >= 0:
		return rule.Candidate(start, i), nil
	case r.Noise == nil: // nothing would end the tries
		return rule.Smallest(start), nil
	}
	return 0, nil
}

// least takes the candidate of least objective among equally spaced ones from 0 to most.
func (s *steps) least(r *dpoptim.Release, most float64, d linesearch.Direction) (float64, error) {
	trials := *s.method.s.Trials
	penalty := linesearch.Backtrack{Batch: s.engine.Facts().ExpectedBatch} // of the slope it asks nothing
	c := s.candidates(penalty, d, func(i int) float64 { return most * float64(i) / float64(trials-1) })
	etas := slices.Clone(c.Etas)
	for i := range c.Etas {
		c.Etas[i] *= s.scale()
	}
	i, err := s.search.Ask(r, c)
	if err != nil {
		return 0, err
	}
	s.state.Losses += trials
	if i == 0 && r.Noise == nil {
		i = 1 // nothing would end the tries
	}
	return etas[i], nil
}

// Move takes a step along the direction, and measures how far it turned.
func (s *steps) Move(eta float64) error {
	if err := s.run(eta); err != nil {
		return err
	}
	dots, err := s.move.Dots()
	if err != nil {
		return err
	}
	s.second.turned = angle(dots)
	if err := s.second.keep.Run(func(x *dpoptim.Scalars) { x[dpoptim.SlotBlend] = 1 }); err != nil {
		return fmt.Errorf("direction: %w", err)
	}
	return nil
}

func (s *steps) Turned() float64 { return s.second.turned }
