package reference

var divide = operation{forward: func(c *call) {
	plane := c.x[1]
	for i, v := range c.x[0] {
		c.y[i] = v / plane[i%len(plane)]
	}
}}
