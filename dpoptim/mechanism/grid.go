package mechanism

import "math"

// The grid of a release is public: its step γ is the least power of two that is at
// least bound·2⁻²⁴, deviation·2⁻⁴⁰ and 2⁻⁷⁰. The first keeps what rounding to the grid
// adds to the sensitivity small beside the bound, the second keeps the noise within
// what package exact draws, and the last is far above where float32 loses digits to
// underflow.
const (
	gridDigits  = 0x1p-24
	noiseDigits = 0x1p-40
	leastStep   = 0x1p-70
	// underflow covers, in parts of γ a coordinate, what underflow adds to the
	// difference of two sums: docs/proofs/exact-noise.md bounds it by 2⁻¹⁵ of the least step.
	underflow = 0x1p-15
)

// onGrid gives the noise of multiplier times the sensitivity, where rounding each of
// so many parts of a sum to the grid adds √values·γ to it, and the grid's step. Both are
// exact as float32, and the deviation is rounded up.
func onGrid(multiplier, bound, sensitivity float64, values, parts int) (std, step float32) {
	rounded := float64(parts) * math.Sqrt(float64(values))
	for gamma := stepOf(math.Max(bound*gridDigits, leastStep)); ; gamma *= 2 {
		// The last factor is for the float64 operations of this line.
		std = roundUp(multiplier * (sensitivity + rounded*gamma*(1+underflow)) * (1 + 0x1p-48))
		if float64(std)*noiseDigits <= gamma || !(std <= math.MaxFloat32) {
			return std, float32(gamma)
		}
	}
}

// stepOf is the least power of two that is not below x.
func stepOf(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction == 0.5 {
		exponent--
	}
	return math.Ldexp(1, exponent)
}

// roundUp is the least float32 that is not below x.
func roundUp(x float64) float32 {
	y := float32(x)
	if float64(y) < x {
		y = math.Nextafter32(y, float32(math.Inf(1)))
	}
	return y
}
