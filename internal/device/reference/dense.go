package reference

var dense = operation{
	forward: func(c *call) {
		c.begin()
		x := c.x[0]
		for o := range c.y {
			for i, v := range x {
				c.y[o] += c.weight[o*len(x)+i] * v
			}
		}
	},
	back: func(c *call) {
		dx := c.dx[0]
		for o, d := range c.dy {
			for i := range dx {
				dx[i] += c.weight[o*len(dx)+i] * d
			}
		}
	},
	grad: func(c *call) []float64 {
		x := c.x[0]
		g := make([]float64, len(c.dy)*len(x))
		for o, d := range c.dy {
			for i, v := range x {
				g[o*len(x)+i] = d * v
			}
		}
		return append(g, c.biases()...)
	},
}
