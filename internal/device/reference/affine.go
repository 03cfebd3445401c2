package reference

import "github.com/privgrad/privgrad/internal/ir"

var affine = operation{forward: func(c *call) {
	of := func(values []float64, param, i int, left float64) float64 {
		if param == ir.None {
			return left
		}
		return values[place(c.program.Params[param].Shape, c.op.Shape, i)]
	}
	for i, v := range c.x[0] {
		c.y[i] = v*of(c.weight, c.op.Weight, i, 1) + of(c.bias, c.op.Bias, i, 0)
	}
}}

// place is where element i of a shape lies in a tensor that repeats along its axes.
func place(axes, shape []int, i int) (at int) {
	for k, stride := len(axes)-1, 1; k >= 0; k-- {
		n := shape[len(shape)-len(axes)+k]
		if axes[k] > 1 {
			at += i % n * stride
			stride *= n
		}
		i /= n
	}
	return at
}
