package reference

import "math"

var modulus = operation{forward: func(c *call) {
	n := len(c.y) / c.op.Groups
	for o := range c.y {
		at := o/n*2*n + o%n
		c.y[o] = math.Hypot(c.x[0][at], c.x[0][at+n])
	}
}}
