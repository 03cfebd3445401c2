package reference

import "math"

// activation computes an output from its input, and passes its gradient d back by the output y.
func activation(forward func(x float64) float64, back func(d, y float64) float64) operation {
	return operation{
		forward: func(c *call) {
			for i, v := range c.x[0] {
				c.y[i] = forward(v)
			}
		},
		back: func(c *call) {
			for i, d := range c.dy {
				c.dx[0][i] += back(d, c.y[i])
			}
		},
	}
}

var (
	relu = activation(
		func(x float64) float64 {
			if x <= 0 {
				return 0
			}
			return x
		},
		func(d, y float64) float64 {
			if y > 0 {
				return d
			}
			return 0
		},
	)
	tanh    = activation(math.Tanh, func(d, y float64) float64 { return d * (1 - y*y) })
	sigmoid = activation(
		func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
		func(d, y float64) float64 { return d * y * (1 - y) },
	)
)

var leakyReLU = operation{
	forward: func(c *call) {
		for i, v := range c.x[0] {
			if c.y[i] = v; v <= 0 {
				c.y[i] = float64(c.op.Slope) * v
			}
		}
	},
	back: func(c *call) {
		for i, d := range c.dy {
			if !(c.y[i] > 0) {
				d *= float64(c.op.Slope)
			}
			c.dx[0][i] += d
		}
	},
}
