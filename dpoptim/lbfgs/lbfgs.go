// Package lbfgs is the baseline without privacy that the papers compare with.
package lbfgs

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"
)

// errNoMinimum says that an objective is not finite where the search begins.
var errNoMinimum = errors.New("the loss or its gradient is not finite at the initial parameters")

// minimise is limited-memory BFGS (Liu and Nocedal 1989) as gonum has it: 15 pairs, steps by
// Moré and Thuente. It has no private form, as it stops by exact values.
//
// It changes x to where the function was least, in at most so many iterations, and
// returns how many it made. It stops earlier where ten have not improved the value by
// a part in 10⁶, a few times what single precision tells apart, or where no step along a
// direction improves it. An error of the function ends it.
func minimise(x []float64, iterations int, f func(x, gradient []float64) (float64, error)) (int, error) {
	var failed error
	value, at, gradient := 0.0, []float64(nil), make([]float64, len(x))
	evaluate := func(x []float64) { // both at once, which is how they are computed
		if failed != nil || at != nil && floats.Equal(x, at) {
			return
		}
		value, failed = f(x, gradient)
		at = append(at[:0], x...)
	}
	p := optimize.Problem{
		Func: func(x []float64) float64 { evaluate(x); return value },
		Grad: func(g, x []float64) { evaluate(x); copy(g, gradient) },
		Status: func() (optimize.Status, error) {
			if failed != nil {
				return optimize.Failure, failed
			}
			return optimize.NotTerminated, nil
		},
	}
	if evaluate(x); failed != nil {
		return 0, failed
	}
	if math.IsInf(floats.Sum(gradient), 0) || math.IsNaN(floats.Sum(gradient)+value) || math.IsInf(value, 0) {
		return 0, errNoMinimum
	}
	if floats.Norm(gradient, math.Inf(1)) == 0 {
		return 0, nil
	}
	r, err := optimize.Minimize(p, x, &optimize.Settings{
		MajorIterations: iterations,
		Converger:       &optimize.FunctionConverge{Relative: 1e-6, Iterations: 10},
	}, &optimize.LBFGS{Linesearcher: &optimize.MoreThuente{}})
	if failed != nil {
		return 0, failed
	}
	if r == nil {
		return 0, err
	}
	// What else is an error to gonum, a direction without a better point, is the
	// end of what rounding lets it do.
	copy(x, r.X)
	return r.MajorIterations, nil
}
