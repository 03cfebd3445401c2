package device

import "math"

// Factor is min(1, clip/norm) made safe against rounding: a float32 not above
// clip/norm, less a margin of 2⁻²² that covers the rounding of δ times the
// factor to float32 and that of sums of squares in float64 on the way to norm.
// Whoever scales by it keeps to clip as long as norm is no smaller than the
// norm of exactly what is scaled, up to that margin.
func Factor(clip float32, norm float64) float32 {
	if norm *= 1 + 0x1p-22; norm <= float64(clip) {
		return 1
	}
	exact := float64(clip) / norm
	f := float32(exact)
	if float64(f) > exact {
		f = math.Nextafter32(f, 0)
	}
	return f
}
