package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/usage"
)

// Choose tells which move of one parameter lowers the objective most, by the exponential mechanism. A
// record's share is clipped to the declared bound times the step; the penalty's share is public.
func (e *Engine) Choose(step float64) (coordinate, sign int, err error) {
	r, err := e.release(dpoptim.Choices, nil)
	if err != nil {
		return 0, 0, err
	}
	table, err := e.table()
	if err != nil {
		return 0, 0, err
	}
	bound := r.Bound * step
	if !(bound > 0) || math.IsInf(bound, 1) {
		return 0, 0, fmt.Errorf("optimizer %s asks for a move of %v; nothing was released", e.c.Method.Traits().Name, step)
	}
	w := make([]float64, e.c.Facts.Params)
	if err := e.readParams(w); err != nil {
		return 0, 0, err
	}
	choose, err := e.choice(r)
	if err != nil {
		return 0, 0, err
	}
	if err := e.admit(dpoptim.Choices, r.Noise); err != nil {
		return 0, 0, err
	}
	_, draw := e.c.Supply.Batch(dpoptim.Choices, true, nil)
	utilities := table.Moves(w, step, bound)
	for i := range utilities {
		utilities[i] = addPublic(utilities[i], e.penaltyFalls(w[i/2], step*float64(1-2*(i%2)))/bound)
	}
	i, err := choose(utilities, draw)
	return i / 2, 1 - 2*(i%2), err
}

// choice is the declared mechanism or, without noise, the best.
func (e *Engine) choice(r dpoptim.Release) (func([]int64, uint64) (int, error), error) {
	if r.Noise == nil {
		return func(u []int64, _ uint64) (int, error) { return slices.Index(u, slices.Max(u)), nil }, nil
	}
	var epsilon float64
	switch n := r.Noise.(type) {
	case accountant.BoundedRange:
		epsilon = n.Epsilon
	case accountant.Pure: // which a range of ε is as well
		epsilon = n.Epsilon
	default:
		return nil, e.unfit(dpoptim.Choices, r)
	}
	m, err := mechanism.NewExponential(epsilon, convex.MoveGrid, e.c.Noise, gradientNoise)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	return m.Select, nil
}

// readParams reads the parameters, which are public.
func (e *Engine) readParams(w []float64) error {
	at := make([]float32, len(w))
	if err := e.ReadParams(at); err != nil {
		return err
	}
	for i, v := range at {
		w[i] = float64(v)
	}
	return nil
}

// penaltyFalls is by how much the penalty of all records falls where a parameter moves.
func (e *Engine) penaltyFalls(w, by float64) float64 {
	return -e.c.Facts.ExpectedBatch * e.c.Facts.L2 * by * (w + by/2)
}

// addPublic adds a public number, in bounds, to a sum of moves.
func addPublic(sum int64, x float64) int64 {
	const most = float64(mechanism.MostUtility)
	if x *= convex.MoveGrid; math.IsNaN(x) {
		x = 0
	}
	return sum + int64(math.Round(max(-most, min(x, most))))
}
