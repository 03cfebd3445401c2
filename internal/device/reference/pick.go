package reference

var pick = operation{forward: func(c *call) {
	for o, i := range c.op.Index {
		c.y[o] = c.x[0][i]
	}
}}
