// Command ownmethod trains privately by a method that is not part of privgrad: every
// parameter moves by the step size, against the sign of its noised gradient.
package main

import "github.com/privgrad/privgrad/dpoptim"

// sign is the method. It has no settings of its own.
type sign struct{ dpoptim.NoSettings }

func (sign) Traits() dpoptim.Traits { return dpoptim.Traits{Name: "dp-signsgd", Private: true} }

func (sign) Declare(s dpoptim.Settings, _ dpoptim.Facts) (dpoptim.Declaration, error) {
	return dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(s.Clip)}}, nil
}

func (sign) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	sum, err := e.Sum(dpoptim.SumQuery{})
	n := e.Facts().Params
	return &steps{e, sum, make([]float32, n), make([]float32, n)}, err
}

type steps struct {
	engine           dpoptim.Engine
	sum              dpoptim.Sum
	params, gradient []float32
}

func (*steps) State() []dpoptim.State { return nil }

func (s *steps) Step() (int, error) {
	e := s.engine
	if err := s.sum.Ask(dpoptim.SumAsk{}); err != nil {
		return 0, err
	}
	if err := e.Read(e.Gradient(), s.gradient); err != nil {
		return 0, err
	}
	if err := e.Read(e.Params(), s.params); err != nil {
		return 0, err
	}
	rate := float32(e.Facts().Rate.At(e.Slot() + 1))
	for i, g := range s.gradient {
		if g > 0 {
			s.params[i] -= rate
		} else if g < 0 {
			s.params[i] += rate
		}
	}
	return 1, e.Write(e.Params(), s.params)
}
