package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// normalize is (x−μ)/√(v+ε) with the mean and the variance of each element's group, and 1/√(v+ε) of each group.
func normalize(op *ir.Op, x []float64) (normalized, scale []float64) {
	size := len(x) / op.Groups
	for first := 0; first < len(x); first += size {
		group := x[first : first+size]
		mean, variance := 0.0, 0.0
		for _, v := range group {
			mean += v / float64(size)
		}
		for _, v := range group {
			variance += (v - mean) * (v - mean) / float64(size)
		}
		s := 1 / math.Sqrt(variance+op.Epsilon)
		scale = append(scale, s)
		for _, v := range group {
			normalized = append(normalized, (v-mean)*s)
		}
	}
	return normalized, scale
}

// groupNorm writes the output; w and bias, nil for none, have a number a channel.
func groupNorm(op *ir.Op, x, y, w, bias []float64) {
	normalized, _ := normalize(op, x)
	for i, v := range normalized {
		c := i * len(w) / len(y)
		y[i] = v * w[c]
		if bias != nil {
			y[i] += bias[c]
		}
	}
}

// groupNormGrad adds the gradient at x: g − mean(g) − x̂·mean(g·x̂), times the scale, of each group, where g is dy·w.
func groupNormGrad(op *ir.Op, x, dy, dx, w []float64) {
	normalized, scale := normalize(op, x)
	size := len(x) / op.Groups
	for group, s := range scale {
		mean, slope := 0.0, 0.0
		for i := group * size; i < (group+1)*size; i++ {
			g := dy[i] * w[i*len(w)/len(dy)]
			mean += g / float64(size)
			slope += g * normalized[i] / float64(size)
		}
		for i := group * size; i < (group+1)*size; i++ {
			dx[i] += s * (dy[i]*w[i*len(w)/len(dy)] - mean - normalized[i]*slope)
		}
	}
}
