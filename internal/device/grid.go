package device

import "math"

// A Grid is the lattice γ·ℤ on which an exact net sums at clip norm C. γ is
// the largest power of two that is at most C·2⁻²⁰, so that C/γ lies in
// [2²⁰, 2²¹).
type Grid struct {
	Step  float64 // γ
	Clip  float64 // C
	Most2 uint64  // ⌊(C/γ)²⌋
}

// gridBits is how many more binary digits than C has the grid.
const gridBits = 20

// NewGrid makes the grid of a clip norm, a finite number above 0.
func NewGrid(clip float32) Grid {
	fraction, exponent := math.Frexp(float64(clip))
	m := uint64(fraction * 0x1p24) // a float32 has 24 digits: C/γ = m/8, exactly
	return Grid{
		Step: math.Ldexp(1, exponent-1-gridBits), Clip: float64(clip),
		Most2: m * m >> 6,
	}
}
