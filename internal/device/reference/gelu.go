package reference

import "math"

// gelu takes the tail from erfc, which keeps its digits where erf comes close to −1.
var gelu = operation{
	forward: func(c *call) {
		for i, x := range c.x[0] {
			if c.y[i] = x * normal(x); math.IsInf(x, -1) {
				c.y[i] = 0
			}
		}
	},
	back: func(c *call) {
		for i, x := range c.x[0] {
			density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
			if density > 0 {
				density *= x
			}
			c.dx[0][i] += c.dy[i] * (normal(x) + density)
		}
	},
}

// normal is the standard normal distribution function.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
