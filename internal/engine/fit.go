package engine

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/usage"
)

// Fit solves first, and pays before it draws: what stops it before leaves nothing behind.
func (e *Engine) Fit(s dpoptim.Solver) error {
	r, err := e.release(dpoptim.Fits, nil)
	if err != nil {
		return err
	}
	m, err := e.fitMechanism(r)
	if err != nil {
		return usage.Wrap(err)
	}
	table, err := e.table()
	if err != nil {
		return err
	}
	order, draw := e.c.Supply.Batch(dpoptim.Fits, !e.c.Method.Traits().Draws().Ordered, nil)
	table.Order = order
	var tilt []float64
	if p, ok := m.(*mechanism.Perturbation); ok {
		// What is solved with it is not released before it is paid for.
		if tilt, err = p.Tilt(draw); err != nil {
			return err
		}
	}
	private, err := s.Solve(table, tilt, e.Stopped)
	if err != nil {
		return err
	}
	if err := e.admit(dpoptim.Fits, m.Event()); err != nil {
		return err
	}
	if err := m.Release(private, draw); err != nil {
		return err
	}
	released := make([]float32, len(private))
	for i, v := range private {
		released[i] = float32(v)
	}
	return e.net.Write(e.net.Params(), released)
}

// fitMechanism releases what a solver finds.
type fitMechanism interface {
	Release(private []float64, draw uint64) error
	Event() accountant.Mechanism
}

func (e *Engine) fitMechanism(r dpoptim.Release) (fitMechanism, error) {
	if p, ok := r.Noise.(accountant.ObjectivePerturbation); ok {
		return mechanism.NewPerturbation(p, r.Bound, r.Within, e.c.Facts.Params, e.c.Noise, tiltNoise, gradientNoise)
	}
	return mechanism.NewVector(r.Noise, r.Bound, e.c.Facts.Params, e.c.Noise, gradientNoise)
}

// table is of the records that the device has.
func (e *Engine) table() (*convex.Table, error) {
	if e.c.Table == nil {
		return nil, fmt.Errorf("optimizer %s works on records in the host's memory, and has none", e.c.Method.Traits().Name)
	}
	if e.solved == nil {
		var err error
		if e.solved, err = e.c.Table(); err != nil {
			return nil, err
		}
	}
	return e.solved, nil
}
