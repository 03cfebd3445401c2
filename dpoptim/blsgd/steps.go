package blsgd

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/internal/linesearch"
)

// steps releases a direction, asks for losses along it, and takes a step last. Directions
// are kept in units of the sum, D = length·d.
type steps struct {
	method    *Method
	engine    dpoptim.Engine
	optimizer *sgd.Optimizer
	state     state

	direction dpoptim.Sum
	aim       dpoptim.Work // adds a multiple of the parameters to the direction
	length    float64      // what D is divided by: qN or, normalised, ‖D‖
	move      dpoptim.Work
	search    dpoptim.Search // of all forms but the curve
	curve     func(etas []float64) ([]float64, error)
	second    *second // of budgets that adapt
}

// second is what a method has that may ask for a second gradient and tell angles.
type second struct {
	direction, last dpoptim.Vector
	again           dpoptim.Sum
	keep            dpoptim.Work
	noise           float64          // energy of the noise in the direction
	shared          *dpoptim.Release // a search that its batch has paid for
	turned          float64          // by the last move
}

var (
	_ dpoptim.Keeper   = (*steps)(nil)
	_ dpoptim.Reporter = (*steps)(nil)
)

// Open records a direction, the step along it, and the search.
func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	f := e.Facts()
	s := &steps{method: m, engine: e, length: f.ExpectedBatch, state: state{Eta: m.start, Start: linesearch.Start{Eta: m.start}}}
	var err error
	if s.optimizer, err = sgd.NewSGD(e, sgd.Config{Rate: m.start, Normaliser: f.ExpectedBatch, L2: m.l2}); err != nil {
		return nil, err
	}
	if m.s.adapts() {
		first := m.firstBudgets()
		s.state.Adaptive, s.second = new(linesearch.NewState(first.Gradient, first.Search, m.start)), &second{}
	}
	if err := s.record(); err != nil {
		return nil, err
	}
	switch m.s.Form {
	case FormCurve:
		s.curve, err = e.Curve(e.Gradient())
	case FormMinimum:
		s.search, err = e.Minimum(e.Gradient())
	default:
		s.search, err = e.Search(e.Gradient())
	}
	return s, err
}

func (s *steps) record() error {
	e, two := s.engine, s.second
	direction := e.Gradient()
	var err, moveErr error
	if two != nil {
		for _, v := range []*dpoptim.Vector{&two.direction, &two.last} {
			if *v, err = e.NewVector(1); err != nil {
				return err
			}
		}
	}
	var noisy dpoptim.Noisy
	s.direction, err = e.Sum(dpoptim.SumQuery{Then: func(q dpoptim.Queue, g dpoptim.Noisy) error {
		noisy = g
		s.penalise(q, direction)
		s.measure(q, direction)
		return nil
	}})
	if err == nil && s.normalises() {
		s.aim, err = e.Record(func(q dpoptim.Queue) {
			s.penalise(q, direction)
			s.measure(q, direction)
		})
	}
	if err != nil {
		return err
	}
	s.move, err = e.Record(func(q dpoptim.Queue) {
		if two != nil {
			q.Dot(direction, two.last)
			q.Dot(direction, direction)
			q.Dot(two.last, two.last)
		}
		moveErr = s.optimizer.Record(q, e.Params(), noisy)
	})
	if err = errors.Join(err, moveErr); err != nil || two == nil {
		return err
	}
	two.keep, err = e.Record(func(q dpoptim.Queue) { q.Update(dpoptim.Blending, two.last, direction) })
	if err != nil {
		return err
	}
	two.again, err = e.Sum(dpoptim.SumQuery{Into: two.direction, Then: func(q dpoptim.Queue, _ dpoptim.Noisy) error {
		s.penalise(q, two.direction)
		q.Dot(direction, two.direction)
		q.Dot(direction, direction)
		q.Dot(two.direction, two.direction)
		q.Update(dpoptim.Blending, direction, two.direction)
		s.measure(q, direction)
		return nil
	}})
	return err
}

// penalise adds the penalty's gradient, where there is a penalty.
func (s *steps) penalise(q dpoptim.Queue, direction dpoptim.Vector) {
	if s.method.l2 != 0 {
		q.Axpy(direction, dpoptim.SlotAlong, s.engine.Params())
	}
}

// measure gives what a search has to know of a direction: D·D, and w·D where there is
// a penalty.
func (s *steps) measure(q dpoptim.Queue, direction dpoptim.Vector) {
	q.Dot(direction, direction)
	if s.method.l2 != 0 {
		q.Dot(s.engine.Params(), direction)
	}
}

func (s *steps) State() []dpoptim.State {
	if s.second != nil {
		return append(s.optimizer.State(), dpoptim.State{Vector: s.second.last, Width: 1})
	}
	return s.optimizer.State()
}

func (s *steps) Step() (int, error) {
	if s.second == nil {
		return 1, s.planned()
	}
	eta, err := s.method.s.rule().Iterate(s.state.Adaptive, s)
	if err != nil {
		return 0, err
	}
	s.state.Eta = eta
	return 1, nil
}

// planned is a step under a fixed budget: a gradient, in some steps a search,
// and a step of the size that was found last (Chen and Lee 2020, section 5.7).
func (s *steps) planned() error {
	f, c := s.engine.Facts(), &s.method.s
	d, err := s.ask(s.direction, dpoptim.SumAsk{})
	if err != nil {
		return err
	}
	d.Noise = s.energy(f.Planned * f.Clip)
	slot := s.engine.Slot()
	if slot%*c.Every == 0 {
		if c.Form == FormCurve {
			err = s.readCurve(d, f.Rate.At(slot+1))
		} else {
			err = s.backtrack(d, f.Rate.At(slot+1))
		}
		if err != nil {
			return fmt.Errorf("line search: %w", err)
		}
	}
	if eta := s.state.Eta; !(eta > 0) || math.IsInf(eta, 0) {
		return fmt.Errorf("the line search gave a step size of %v; please report this", eta)
	}
	return s.run(f.Rate.At(slot+1) * (s.state.Eta / s.method.start))
}

func (s *steps) ask(sum dpoptim.Sum, a dpoptim.SumAsk) (linesearch.Direction, error) {
	f, set := s.engine.Facts(), a.Set
	a.Set = func(x *dpoptim.Scalars) {
		x[dpoptim.SlotAlong] = 0 // the penalty comes behind the norm
		if !s.normalises() {
			x[dpoptim.SlotAlong] = float32(s.method.l2 * f.ExpectedBatch)
		}
		if set != nil {
			set(x)
		}
	}
	if err := sum.Ask(a); err != nil {
		return linesearch.Direction{}, err
	}
	s.state.Gradients++
	dots, err := sum.Dots()
	if err != nil {
		return linesearch.Direction{}, err
	}
	if sum != s.direction {
		dots = dots[3:]
	}
	if s.normalises() {
		if s.length = math.Sqrt(dots[0]); !(s.length > 0) || math.IsInf(s.length, 0) {
			s.length = f.ExpectedBatch
		}
		if dots, err = s.shift(s.method.l2 * s.length); err != nil {
			return linesearch.Direction{}, err
		}
	}
	d := linesearch.Direction{Norm2: dots[0] / s.length / s.length, L2: s.method.l2}
	if len(dots) > 1 {
		d.Along = dots[1] / s.length
	}
	return d, nil
}

// normalises reports whether the direction is divided by its norm, before the penalty's
// gradient. The norm was released with it.
func (s *steps) normalises() bool { return s.method.s.Normalise != nil && *s.method.s.Normalise }

// shift adds a multiple of the parameters to the direction, and measures it.
func (s *steps) shift(by float64) ([]float64, error) {
	if err := s.aim.Run(func(x *dpoptim.Scalars) { x[dpoptim.SlotAlong] = float32(by) }); err != nil {
		return nil, fmt.Errorf("direction: %w", err)
	}
	return s.aim.Dots()
}

// energy is E‖·‖² of the noise in a direction whose sum had noise of a
// standard deviation.
func (s *steps) energy(deviation float64) float64 {
	f := s.engine.Facts()
	return float64(f.Params) * math.Pow(deviation/f.ExpectedBatch, 2)
}

// scale is what a step size is multiplied by for the device, whose directions are D/qN.
func (s *steps) scale() float64 { return s.engine.Facts().ExpectedBatch / s.length }

func (s *steps) run(eta float64) error {
	err := s.move.Run(func(x *dpoptim.Scalars) {
		s.optimizer.Set(x, s.engine.Update())
		x[dpoptim.SlotRate] = float32(eta * s.scale())
		x[dpoptim.SlotL2] = 0 // it is in the direction
	})
	if err != nil {
		return fmt.Errorf("step of size %v: %w", eta, err)
	}
	return nil
}

// What is tried is what would be taken: a candidate in the shape of the scheduled step
// sizes, of which rate is the step's.
func (s *steps) readCurve(d linesearch.Direction, rate float64) error {
	c, shape := &s.method.s, rate/s.method.start
	curve := c.curve(s.engine.Facts().ExpectedBatch)
	sums, err := s.curve(curve.Candidates(s.state.Eta * shape))
	if err != nil {
		return err
	}
	s.state.Losses += len(sums) + 1
	s.state.follow(curve.Choose(s.state.Eta*shape, sums, d)/shape, *c.Weight)
	return nil
}

// backtrack searches under a fixed budget. Where no candidate is found the
// smallest is taken, so that every step moves.
func (s *steps) backtrack(d linesearch.Direction, rate float64) error {
	c, t := &s.method.s, &s.state
	rule, start := s.rule(nil), t.Start.Eta*rate/s.method.start
	i, err := s.search.Ask(nil, s.candidates(rule, d, func(i int) float64 { return rule.Candidate(start, i) }))
	if err != nil {
		return err
	}
	t.asked(i, *c.Trials)
	found := rule.Smallest(t.Start.Eta)
	if i >= 0 {
		found = rule.Candidate(t.Start.Eta, i)
	}
	t.follow(found, *c.Weight)
	c.startRule().Chose(&t.Start, t.Eta)
	return nil
}

// rule is the search with the noise of a release.
func (s *steps) rule(r *dpoptim.Release) linesearch.Backtrack {
	b := s.method.s.backtrack(s.engine.Facts().ExpectedBatch)
	b.Margin = *s.method.s.Margin * s.search.Deviation(r)
	return b
}

// candidates are those of a rule, by their number.
func (s *steps) candidates(rule linesearch.Backtrack, d linesearch.Direction, eta func(i int) float64) dpoptim.Candidates {
	c := dpoptim.Candidates{Group: &s.state.Group}
	for i := range *s.method.s.Trials {
		c.Etas = append(c.Etas, eta(i))
		c.Biases = append(c.Biases, rule.Bias(c.Etas[i], d))
	}
	return c
}
