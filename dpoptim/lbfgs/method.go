package lbfgs

import (
	"fmt"

	"github.com/privgrad/privgrad/dpoptim"
)

const Name = "lbfgs"

// mostIterations where --steps says nothing.
const mostIterations = 500

// Family lists the method.
var Family = dpoptim.Plain{
	Kind: dpoptim.Kind{Name: Name, About: "the minimum by L-BFGS, on all records, without privacy (NOT PRIVATE)"},
	Make: func() dpoptim.Method { return New() },
}

// Method finds the minimum of the mean loss, without privacy.
type Method struct {
	dpoptim.NoSettings
	l2 float64
}

func New() *Method { return &Method{} }

func (*Method) Traits() dpoptim.Traits { return dpoptim.Traits{Name: Name, Once: true} }

func (*Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	err := c.CheckOnce(Name)
	c.SamplingRate = new(1.0)
	if c.Steps == nil {
		c.Steps = new(mostIterations)
	}
	return c, err
}

// Declare says what is asked, un-noised: sums of gradients and of losses.
func (m *Method) Declare(c dpoptim.Settings, _ dpoptim.Facts) (dpoptim.Declaration, error) {
	m.l2 = c.L2
	return dpoptim.Declaration{Asks: []dpoptim.Ask{{Question: dpoptim.Gradients}, {Question: dpoptim.Losses, Size: 1}}}, nil
}

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	s := &steps{engine: e, l2: m.l2}
	var err error
	if s.sum, err = e.Sum(dpoptim.SumQuery{}); err != nil {
		return nil, err
	}
	s.loss, err = e.Loss()
	return s, err
}

type steps struct {
	engine dpoptim.Engine
	l2     float64
	sum    dpoptim.Sum
	loss   func() (float64, error)

	params, released []float32
}

// State is none: what was stopped begins again.
func (s *steps) State() []dpoptim.State { return nil }

func (s *steps) Step() (int, error) {
	n := s.engine.Facts().Params
	s.params, s.released = make([]float32, n), make([]float32, n)
	if err := s.engine.Read(s.engine.Params(), s.params); err != nil {
		return 0, err
	}
	x := make([]float64, n)
	for i, w := range s.params {
		x[i] = float64(w)
	}
	iterations, err := minimise(x, s.engine.Facts().Steps, s.objective)
	if err != nil {
		return 0, fmt.Errorf("optimizer %s: %w", Name, err)
	}
	return iterations, s.move(x)
}

func (s *steps) move(x []float64) error {
	for i, w := range x {
		s.params[i] = float32(w)
	}
	return s.engine.Write(s.engine.Params(), s.params)
}

// objective is the sum of the records' losses over the normaliser, with the penalty
// λ/2·‖w‖², and its gradient.
func (s *steps) objective(x, gradient []float64) (float64, error) {
	if err := s.engine.Stopped(); err != nil {
		return 0, fmt.Errorf("%w before the minimum was found; --resume begins again", err)
	}
	if err := s.move(x); err != nil {
		return 0, err
	}
	if err := s.sum.Ask(dpoptim.SumAsk{}); err != nil {
		return 0, err
	}
	if err := s.engine.Read(s.engine.Gradient(), s.released); err != nil {
		return 0, err
	}
	loss, err := s.loss()
	if err != nil {
		return 0, err
	}
	normaliser := s.engine.Facts().ExpectedBatch
	value := loss / normaliser
	for i, w := range x {
		gradient[i] = float64(s.released[i])/normaliser + s.l2*w
		value += s.l2 / 2 * w * w
	}
	return value, nil
}
