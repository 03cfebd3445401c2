package reference

import "math"

var contrast = operation{forward: func(c *call) {
	n := float64(c.op.Shape[0] * c.op.Window.H * c.op.Window.W)
	for o := range c.y {
		first, second := 0.0, 0.0
		for channel := range c.op.Shape[0] {
			window(c.op, channel*len(c.y)+o, func(i int) {
				first += c.x[0][i] / n
				second += c.x[0][i] * c.x[0][i] / n
			})
		}
		c.y[o] = math.Sqrt(max(second-first*first, 0) + c.op.Epsilon)
	}
}}
