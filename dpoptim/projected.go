package dpoptim

import "math"

// Projected is w ← Π(w − η_t(G/(qN) + λw)) for released sums of gradients G, where Π scales w to the
// norm of a radius at most. All of it is done to released values.
type Projected struct {
	Radius float64                // 0: weights are free
	Rate   func(step int) float64 // η of a step of the schedule, from 1 on
	// Replace puts another vector in the place of a sum, for methods without privacy; nil: none.
	Replace func(e Engine, sum, into Vector) error
}

// projected looks at what was released where Radius or Replace is given: then the inner products
// of the weights and of the sum, and the move, are work of their own.
type projected struct {
	Projected
	engine        Engine
	ask           Sum
	sum, gradient Vector // which differ where another takes its place
	measure, move Work   // nil where the move is recorded behind the release
}

// Open records the work. Where nothing has to be looked at, an update is that of plain gradient descent.
func (d Projected) Open(e Engine) (Steps, error) {
	s := &projected{Projected: d, engine: e}
	direct := d.Radius == 0 && d.Replace == nil
	var err error
	s.ask, err = e.Sum(SumQuery{Then: func(q Queue, g Noisy) (err error) {
		if s.sum, err = g.Vector(); err == nil && direct {
			q.Update(Descent, e.Params(), s.sum)
		}
		return err
	}})
	if err != nil || direct {
		return s, err
	}
	if s.gradient = s.sum; d.Replace != nil {
		if s.gradient, err = e.NewVector(1); err != nil {
			return nil, err
		}
	}
	s.measure, err = e.Record(func(q Queue) {
		q.Dot(e.Params(), e.Params())
		q.Dot(e.Params(), s.gradient)
		q.Dot(s.gradient, s.gradient)
	})
	if err == nil {
		s.move, err = e.Record(func(q Queue) { q.Update(Descent, e.Params(), s.gradient) })
	}
	return s, err
}

func (s *projected) State() []State { return nil }

func (s *projected) Step() (int, error) {
	f := s.engine.Facts()
	rate := s.Rate(s.engine.Slot() + 1)
	plain := func(x *Scalars) {
		x[SlotRate], x[SlotScale], x[SlotL2] = float32(rate), float32(1/f.ExpectedBatch), float32(f.L2)
	}
	if err := s.ask.Ask(SumAsk{Set: plain}); err != nil || s.move == nil {
		return 1, err
	}
	if s.Replace != nil {
		if err := s.Replace(s.engine, s.sum, s.gradient); err != nil {
			return 0, err
		}
	}
	if s.Radius == 0 {
		return 1, s.move.Run(plain)
	}
	if err := s.measure.Run(nil); err != nil {
		return 0, err
	}
	dots, err := s.measure.Dots()
	if err != nil {
		return 0, err
	}
	// The norm of the point (1−ηλ)w − η/(qN)·G that is projected.
	a, b := 1-rate*f.L2, rate/f.ExpectedBatch
	norm := math.Sqrt(a*a*dots[0] - 2*a*b*dots[1] + b*b*dots[2])
	if !(norm > s.Radius) {
		return 1, s.move.Run(plain)
	}
	shrink := s.Radius / norm
	return 1, s.move.Run(func(x *Scalars) {
		x[SlotRate], x[SlotScale], x[SlotL2] = 1, float32(shrink*b), float32(1-shrink*a)
	})
}
