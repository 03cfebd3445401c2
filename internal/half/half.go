// Package half converts float32 values to IEEE 754 half precision and back.
package half

import "math"

// Max is the largest finite half.
const Max = 65504

// FromFloat32 rounds to the nearest half, ties to even. Values beyond Max become
// infinite; a NaN stays one.
func FromFloat32(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // rounds to 2¹⁶ or is above
		return sign | 0x7c00
	case b >= 0x38800000: // a normal half: drop 13 digits, change the bias
		b -= 112 << 23
		return sign | uint16((b+0xfff+b>>13&1)>>13)
	}
	// Below 2⁻¹⁴, halves are multiples of 2⁻²⁴, as float32 values of [.5, 1) are:
	// the addition rounds.
	return sign | uint16(math.Float32bits(math.Float32frombits(b)+.5)-0x3f000000)
}

// ToFloat32 is exact.
func ToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	b := uint32(h&0x7fff) << 13
	switch {
	case b >= 0x0f800000: // infinite or NaN
		b += 224 << 23
	case b >= 1<<23:
		b += 112 << 23
	default: // subnormal or zero
		b = math.Float32bits(float32(h&0x3ff) * (1. / (1 << 24)))
	}
	return math.Float32frombits(sign | b)
}
