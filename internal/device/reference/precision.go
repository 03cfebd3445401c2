package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// What a precision means. Forward and input gradients multiply both factors rounded to nearest, gradients of weights both factors cut off,
// so that no magnitude grows: of a convolution δ and x, of a dense layer, whose gradient is summed without being
// formed, f·δ and x. A dense gradient that is formed is an outer product, of which nothing is rounded.

// lost is how many of float64's binary digits a precision leaves away.
func lost(p device.Precision) uint {
	switch p {
	case device.TF32:
		return 53 - 11
	case device.BF16:
		return 53 - 8
	}
	return 0
}

// nearest is x rounded to a precision; ties go to even in bf16 and away from zero in tf32, as on GPUs.
func nearest(p device.Precision, x []float64) []float64 {
	n := lost(p)
	return rounded(p, x, func(b uint64) uint64 {
		half := uint64(1) << (n - 1)
		if p == device.BF16 {
			half += b>>n&1 - 1
		}
		return (b + half) >> n << n
	})
}

// cut is x rounded toward zero.
func cut(p device.Precision, x []float64) []float64 {
	n := lost(p)
	return rounded(p, x, func(b uint64) uint64 { return b >> n << n })
}

func rounded(p device.Precision, x []float64, f func(uint64) uint64) []float64 {
	if p == device.Float32 {
		return x
	}
	y := make([]float64, len(x))
	for i, v := range x {
		if y[i] = v; !math.IsNaN(v) && !math.IsInf(v, 0) {
			y[i] = math.Float64frombits(f(math.Float64bits(v)))
		}
	}
	return y
}

// multiplies says that an op is a matrix product, whose factors are rounded.
func multiplies(op *ir.Op) bool { return op.Kind == ir.Conv || op.Kind == ir.Dense }
