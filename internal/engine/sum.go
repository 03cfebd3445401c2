package engine

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
)

// sum is a recorded question for the sum of a batch's gradients.
type sum struct {
	recorded
	norm *norm // nil where it is not asked for
}

// norm is a norm on its way out.
type norm struct {
	*mechanism.Scalar
	private  device.Sum
	released device.Vector
	value    [1]float32
}

func (e *Engine) Sum(a dpoptim.SumQuery) (dpoptim.Sum, error) {
	m, err := e.gradientMechanism(nil)
	if err != nil {
		return nil, err
	}
	into := a.Into
	if into == 0 {
		into = e.gradient
	}
	s := &sum{recorded: recorded{engine: e}}
	if a.Norm {
		if s.norm, err = e.newNorm(); err != nil {
			return nil, err
		}
	}
	var thenErr error
	s.step, err = e.net.Record(func(q device.Queue) {
		if n := s.norm; n != nil {
			q.Norm(n.private, e.private) // before the release clears the sum
			n.Release(q, n.released, n.private)
		}
		noisy := m.Release(q, into, e.private)
		if d := e.Adaptation; d != nil {
			d.count.Release(q, d.released, d.private)
		}
		if a.Then != nil {
			s.moves = e.follow(q, func(q dpoptim.Queue) { thenErr = a.Then(q, noisy) })
		}
	})
	return s, errors.Join(err, thenErr)
}

// newNorm makes what releases norms; nil without noise.
func (e *Engine) newNorm() (*norm, error) {
	r, err := e.release(dpoptim.Norms, nil)
	if err != nil || r.Noise == nil {
		return nil, err
	}
	g, ok := r.Noise.(accountant.Gaussian)
	if !ok {
		return nil, e.unfit(dpoptim.Norms, r)
	}
	n := &norm{}
	n.Scalar, err = mechanism.NewNorm(g.NoiseMultiplier, r.Bound, e.net.Rounding(e.c.Rows), e.c.Rows, e.c.Facts.Params, e.net.Parts(), e.c.Noise, normNoise)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	if n.private, err = e.net.NewScalarSum(1); err != nil {
		return nil, err
	}
	n.released, err = e.net.NewScalars(1)
	return n, err
}

// Ask pays, draws a batch, sums, releases, and does what follows. The batch may be empty:
// noise is drawn and an update made all the same.
func (s *sum) Ask(a dpoptim.SumAsk) error {
	e := s.engine
	m, err := e.gradientMechanism(a.Release)
	if err != nil {
		return err
	}
	asked := []accountant.Mechanism{m.Event()}
	if s.norm != nil {
		sum, norm := e.declared[dpoptim.Gradients].release, e.declared[dpoptim.Norms].release
		if a.Release != nil {
			sum = *a.Release
		}
		if sum.Bound != norm.Bound {
			return fmt.Errorf("optimizer %s asks for a sum at a bound of %v, and declares its norm at %v; nothing was released", e.c.Method.Traits().Name, sum.Bound, norm.Bound)
		}
		asked = append(asked, s.norm.Event())
	}
	if err := e.admit(dpoptim.Gradients, append(asked, a.Besides...)...); err != nil {
		return err
	}
	e.paid = a.Besides
	var draw uint64
	e.rows, draw = e.c.Supply.Batch(dpoptim.Gradients, false, e.rows[:0])
	noise := func() {
		m.Set(&e.inputs)
		if d := e.Adaptation; d != nil {
			d.count.Set(&e.inputs)
		}
		if s.norm != nil {
			s.norm.Set(&e.inputs)
		}
	}
	if d := e.Adaptation; d != nil {
		m.SetBound(d.Clip)
	}
	noise() // for the method to see, and once more behind what it has set
	e.set(s.moves, a.Set)
	noise()
	if err := e.run(e.sum, s.step, e.rows, draw); err != nil || e.Adaptation == nil {
		return err
	}
	return e.Adaptation.follow(e.net)
}

// Norm waits for the released norm, 0 where none is asked for.
func (s *sum) Norm() (float64, error) {
	if s.norm == nil {
		return 0, nil
	}
	err := s.engine.net.Read(s.norm.released, s.norm.value[:])
	return float64(s.norm.value[0]), err
}

// Majority gives the class of most records, by noisy max.
func (e *Engine) Majority() (int, error) {
	r, err := e.release(dpoptim.Majority, nil)
	if err != nil {
		return 0, err
	}
	pure, ok := r.Noise.(accountant.Pure)
	if !ok {
		return 0, e.unfit(dpoptim.Majority, r)
	}
	m, err := mechanism.NewNoisyMax(pure.Epsilon, e.c.Noise, gradientNoise)
	if err != nil {
		return 0, err
	}
	if err := e.admit(dpoptim.Majority, m.Event()); err != nil {
		return 0, err
	}
	_, draw := e.c.Supply.Batch(dpoptim.Majority, true, nil)
	class, err := m.Select(device.CountLabels(e.c.Labels, e.c.Classes), draw)
	if err != nil {
		return 0, fmt.Errorf("majority: %w", err)
	}
	return class, nil
}
