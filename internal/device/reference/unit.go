package reference

import "math"

var toNorm = operation{forward: func(c *call) {
	if s := squares(c.x[0]); s != 0 {
		for i, v := range c.x[0] {
			c.y[i] = v * c.op.Norm / math.Sqrt(s)
		}
	}
}}
