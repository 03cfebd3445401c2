// Package nesterov has DP-SGD with Nesterov momentum (Nesterov 1983, in the form of
// Sutskever et al. 2013, section 2, as PyTorch has it): for a noised mean gradient g with the
// penalty's, m = μm + g, w −= η(g + μm).
package nesterov

import (
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/sgd"
)

const Name = "dp-nesterov"

// defaultMomentum is μ where none is given.
const defaultMomentum = 0.9

// Family lists the method.
var Family = dpoptim.Plain{
	Kind: dpoptim.Kind{Name: Name, About: "DP-SGD with Nesterov momentum"},
	Make: func() dpoptim.Method { return New() },
}

// Method is DP-SGD that looks ahead. Its price is that of DP-SGD: all it does is done to
// noisy values.
type Method struct {
	dpoptim.NoSettings
	momentum float64
}

func New() *Method { return &Method{} }

func (*Method) Traits() dpoptim.Traits { return dpoptim.Traits{Name: Name, Private: true} }

// Complete fills in the step size: with momentum, sums of gradients are 1/(1−μ) times as long.
func (m *Method) Complete(c dpoptim.Settings, _ dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	if c.Momentum == 0 {
		c.Momentum = defaultMomentum
	}
	if c.LR == nil {
		c.LR = new(sgd.DefaultRate(Name, false, c) * (1 - c.Momentum))
	}
	return c, dpoptim.Notes{}, nil
}

func (m *Method) Declare(c dpoptim.Settings, _ dpoptim.Facts) (dpoptim.Declaration, error) {
	m.momentum = c.Momentum
	return dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(c.Clip)}}, nil
}

// Open records both halves of an update: the velocity, and the move.
func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	s := &steps{engine: e, momentum: m.momentum}
	var unused dpoptim.Vector // HeavyBall moves it, and nothing reads it
	var err error
	for _, v := range []*dpoptim.Vector{&s.velocity, &unused} {
		if *v, err = e.NewVector(1); err != nil {
			return nil, err
		}
	}
	var released dpoptim.Vector
	s.sum, err = e.Sum(dpoptim.SumQuery{Then: func(q dpoptim.Queue, g dpoptim.Noisy) (err error) {
		if released, err = g.Vector(); err != nil {
			return err
		}
		q.Update(dpoptim.HeavyBall, unused, released, s.velocity) // μm + G̃/(qN)
		q.Axpy(s.velocity, dpoptim.SlotAlong, e.Params())         // + λw
		return nil
	}})
	if err != nil {
		return nil, err
	}
	s.move, err = e.Record(func(q dpoptim.Queue) {
		q.Update(dpoptim.Descent, e.Params(), released)  // w − ηg
		q.Axpy(e.Params(), dpoptim.SlotGain, s.velocity) // − ημm
	})
	return s, err
}

type steps struct {
	engine   dpoptim.Engine
	momentum float64
	velocity dpoptim.Vector
	sum      dpoptim.Sum
	move     dpoptim.Work
}

func (s *steps) State() []dpoptim.State { return []dpoptim.State{{Vector: s.velocity, Width: 1}} }

func (s *steps) Step() (int, error) {
	f := s.engine.Facts()
	rate := f.Rate.At(s.engine.Slot() + 1)
	err := s.sum.Ask(dpoptim.SumAsk{Set: func(x *dpoptim.Scalars) {
		x[dpoptim.SlotScale], x[dpoptim.SlotL2] = float32(1/f.ExpectedBatch), 0
		x[dpoptim.SlotMomentum], x[dpoptim.SlotRate] = float32(s.momentum), 0
		x[dpoptim.SlotAlong] = float32(f.L2)
	}})
	if err != nil {
		return 0, err
	}
	return 1, s.move.Run(func(x *dpoptim.Scalars) {
		x[dpoptim.SlotRate], x[dpoptim.SlotL2] = float32(rate), float32(f.L2)
		x[dpoptim.SlotGain] = float32(-rate * s.momentum)
	})
}
