package host

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
)

// inside is what a clipped gradient aims at, as a part of C. The norm is
// computed with a relative error below 2⁻²³ up to 2³⁰ parameters, and
// truncation makes it smaller, so that rounding zeroes no example.
const inside = 1 - 0x1p-20

// truncate is coordinate x of a gradient as an integer. Its two operations are
// each rounded once on every processor, so that the integers whose norm was
// checked are those that are summed.
func truncate[T Float](x T, scale float64) int64 { return int64(float64(x) * scale) }

// Scale gives what truncate multiplies an example's whole gradient by: the
// clipping factor over γ. It is false for an example that counts as zero
// because its gradient is not finite, or because the integers k, whose Σk² is
// computed exactly, do not have ‖k‖ ≤ C/γ.
func Scale[T Float](g device.Grid, gradient []T) (float64, bool) {
	scale, ok := ScaleTo(g, squares(gradient))
	return scale, ok && within(g, gradient, scale)
}

// ScaleTo is Scale of a gradient whose Σx² is known, before the integers are checked.
func ScaleTo(g device.Grid, norm2 float64) (float64, bool) {
	if math.IsNaN(norm2) || math.IsInf(norm2, 0) {
		return 0, false
	}
	scale := 1 / g.Step
	if norm := math.Sqrt(norm2); norm > g.Clip*inside {
		scale *= g.Clip * inside / norm
	}
	return scale, true
}

// squares is Σx², by four sums at once, which no addition has to wait for.
func squares[T Float](x []T) float64 {
	var s [4]float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s[0] += float64(a * a) // converted, so that no compiler fuses it
		s[1] += float64(b * b)
		s[2] += float64(c * c)
		s[3] += float64(d * d)
	}
	for i, a := range x {
		s[i] += float64(float64(a) * float64(a))
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// within says whether Σk² ≤ (C/γ)², for |k| < 2²²: Scale has seen a norm of the
// gradient, no coordinate is longer, and squares that are lost to underflow
// belong to coordinates that truncate to 0.
func within[T Float](g device.Grid, gradient []T, scale float64) bool {
	sum := uint64(0)
	for len(gradient) > 0 && sum <= g.Most2 { // at most 2⁴² before the part, 2⁶² in it
		part := gradient[:min(len(gradient), 1<<18)]
		gradient = gradient[len(part):]
		for _, x := range part {
			k := truncate(x, scale)
			sum += uint64(k * k)
		}
	}
	return sum <= g.Most2
}

// Accumulate adds a gradient's integers to dst.
func Accumulate[T Float](dst []int64, gradient []T, scale float64) {
	for i, x := range gradient {
		dst[i] += truncate(x, scale)
	}
}
