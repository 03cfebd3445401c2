package vec

import (
	"math"
	"testing"
)

// gaussian is Φ(x) and x·φ(x). Beyond 20, both are what they are at infinity.
func gaussian(x float64) (below, slope float64) {
	x = min(max(x, -20), 20)
	return math.Erfc(-x/math.Sqrt2) / 2, x * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
}

// lastPlace is the distance of float32 numbers at v.
func lastPlace(v float64) float64 {
	_, e := math.Frexp(v)
	return math.Ldexp(1, max(e-24, -149))
}

// checkGELU compares both functions at every x with float64, in which −x/√2 is off by 2e-16 of itself, and Φ by 2e-16·x² of
// itself, which is 5e-14 where Φ is no zero yet. The bounds are those that the functions promise.
//
// The roundings of the kernels could add up to 14 of 2⁻²⁴: the two polynomials of the quotient have 4 and 5, the exponent and
// its polynomial 1.4, the division and the products 3, and 0.5 is for what the polynomials approximate. They never all go one
// way: TestLongGELUOfEveryFloat tries every x for which they are more than one, and the worst is 6.8 of them, 4.03e-7, or 6.23
// last places. The gradient's is 4.3 of its terms, 2.54e-7, and the product with g rounds once more.
func checkGELU(t *testing.T, x []float32, g float32) {
	t.Helper()
	y, d, gs := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
	for i := range gs {
		gs[i] = g
	}
	GELU(y, x)
	GELUGrad(d, x, gs)
	size := math.Abs(float64(g))
	for i, v := range x {
		below, slope := gaussian(float64(v))
		want := max(float64(v), -20) * below
		off := math.Abs(float64(y[i]) - want)
		if math.IsInf(float64(v), 1) {
			off = float64(v - y[i]) // NaN, unless it is finite
			if y[i] == v {
				off = 0
			}
		}
		if !(off <= min(7*lastPlace(want), max(5e-7*math.Abs(want), 2e-45))) || math.Signbit(float64(y[i])) != math.Signbit(float64(v)) {
			t.Fatalf("GELU(%g) is %g, want %g", v, y[i], want)
		}
		want = float64(g) * (below + slope)
		if off := math.Abs(float64(d[i]) - want); !(off <= max(4e-7*size*(below+math.Abs(slope)), 3e-45*(1+size))) {
			t.Fatalf("GELUGrad(%g) of %g is %g, want %g", v, g, d[i], want)
		}
	}
}

func TestGELUOverTheWholeRange(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, g := range []float32{1, -3.7e-5} {
			sample(4093, func(x []float32) { checkGELU(t, x, g) })
		}
	})
}

// Below 2⁻³⁰ the kernels halve, as both polynomials are their constants there; beyond 16 they give x or zero.
func TestLongGELUOfEveryFloat(t *testing.T) {
	x := make([]float32, 1<<13)
	for _, sign := range []uint32{0, 1 << 31} {
		for bits := math.Float32bits(0x1p-30); bits < math.Float32bits(16); bits += uint32(len(x)) {
			for i := range x {
				x[i] = math.Float32frombits(sign | bits + uint32(i))
			}
			checkGELU(t, x, 1)
		}
	}
}

// What is no number, or infinite, or a zero, at every place of a vector.
func TestGELUOfSpecialValues(t *testing.T) {
	inf, nan, zero := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	eachImplementation(t, func(t *testing.T) {
		for _, c := range []struct{ x, g, y, d float32 }{
			{0, 3, 0, 1.5},
			{zero, 3, zero, 1.5},
			{-math.SmallestNonzeroFloat32, 3, zero, 1.5},
			{inf, 3, inf, 3},
			{-inf, 3, zero, zero},
			{math.MaxFloat32, 3, math.MaxFloat32, 3},
			{-math.MaxFloat32, -3, zero, 0},
			{nan, 3, nan, nan},
			{float32(math.Copysign(math.NaN(), -1)), 3, nan, nan},
			{-inf, inf, zero, nan}, // 0·∞
			{inf, nan, inf, nan},
			{inf, -inf, inf, -inf},
		} {
			const n = 37 // of whole vectors, one of them, and a tail
			x, g, y, d := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
			wantY, wantD := make([]float32, n), make([]float32, n)
			for i := range n {
				x[i], g[i], wantY[i], wantD[i] = c.x, c.g, c.y, c.d
			}
			GELU(y, x)
			GELUGrad(d, x, g)
			if !sameFloats(y, wantY) || !sameFloats(d, wantD) {
				t.Errorf("x = %g and g = %g give %g and %g, want %g and %g everywhere", c.x, c.g, y, d, c.y, c.d)
			}
		}
	})
}
