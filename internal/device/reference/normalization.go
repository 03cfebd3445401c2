package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// normalization gives stretches of neighbouring elements the mean 0 and the variance 1: so many of groups, and weight is
// the number of the weight and the bias of element i.
func normalization(groups func(op *ir.Op) int, weight func(op *ir.Op, i int) int) operation {
	return operation{
		forward: func(c *call) {
			normalized, _ := normalize(c.x[0], groups(c.op), c.op.Epsilon)
			for i, v := range normalized {
				if c.y[i] = v * c.weight[weight(c.op, i)]; c.bias != nil {
					c.y[i] += c.bias[weight(c.op, i)]
				}
			}
		},
		// With g = dy·weight it is g − mean(g) − x̂·mean(g·x̂), times the scale, of each group.
		back: func(c *call) {
			normalized, scale := normalize(c.x[0], groups(c.op), c.op.Epsilon)
			size := len(normalized) / len(scale)
			for group, s := range scale {
				mean, slope := 0.0, 0.0
				for i := group * size; i < (group+1)*size; i++ {
					g := c.dy[i] * c.weight[weight(c.op, i)]
					mean += g / float64(size)
					slope += g * normalized[i] / float64(size)
				}
				for i := group * size; i < (group+1)*size; i++ {
					c.dx[0][i] += s * (c.dy[i]*c.weight[weight(c.op, i)] - mean - normalized[i]*slope)
				}
			}
		},
		grad: func(c *call) []float64 {
			normalized, _ := normalize(c.x[0], groups(c.op), c.op.Epsilon)
			n := len(c.weight)
			g := make([]float64, n, 2*n)
			if c.op.Bias != ir.None {
				g = g[:2*n]
			}
			for i, d := range c.dy {
				w := weight(c.op, i)
				g[w] += d * normalized[i]
				if c.op.Bias != ir.None {
					g[n+w] += d
				}
			}
			return g
		},
	}
}

// normalize is (x−μ)/√(v+ε) with the mean and the variance of each element's group, and 1/√(v+ε) of each group.
func normalize(x []float64, groups int, epsilon float64) (normalized, scale []float64) {
	size := len(x) / groups
	for first := 0; first < len(x); first += size {
		group := x[first : first+size]
		mean, variance := 0.0, 0.0
		for _, v := range group {
			mean += v / float64(size)
		}
		for _, v := range group {
			variance += (v - mean) * (v - mean) / float64(size)
		}
		s := 1 / math.Sqrt(variance+epsilon)
		scale = append(scale, s)
		for _, v := range group {
			normalized = append(normalized, (v-mean)*s)
		}
	}
	return normalized, scale
}
