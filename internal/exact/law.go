package exact

import (
	"math"
	"math/big"
	"sync"
)

// A law is a distribution symmetric about 0, sampled by inversion of its tail, P(|Z| > x).
type law struct {
	tail    func(x *big.Float) *big.Float           // at the precision of x, within tailError
	roughly func(x float64) float64                 // the same, to choose points by
	rate    func(z float64, prec uint) *big.Float   // d|Z|/dt at |Z| = z, where t counts V down in 2⁻⁶³
	derive  func(p []int64, n int64) (next []int64) // Pₙ₊₁ of Pₙ, where the n-th derivative of |Z| is Pₙ(|Z|)·rateⁿ

	tables [octaves]struct {
		once sync.Once
		*octave
	}
}

var (
	normal = law{
		tail:    tail,
		roughly: func(x float64) float64 { return math.Erfc(x / math.Sqrt2) },
		rate:    rate,
		derive:  differentiate,
	}
	laplace = law{
		tail: func(x *big.Float) *big.Float {
			return new(big.Float).SetPrec(x.Prec()).Quo(big.NewFloat(1), exponential(x))
		},
		roughly: func(x float64) float64 { return math.Exp(-x) },
		rate: func(z float64, prec uint) *big.Float {
			r := exponential(new(big.Float).SetPrec(prec).SetFloat64(z))
			return r.SetMantExp(r, -63)
		},
		derive: func(p []int64, n int64) []int64 {
			return []int64{n * p[0]} // the rate is its own derivative, squared
		},
	}
)

// octave gives the cells of [2⁻ᵉ⁻¹, 2⁻ᵉ), which take some milliseconds the first time.
func (l *law) octave(e int) *octave {
	t := &l.tables[e]
	t.once.Do(func() { t.octave = l.newOctave(e) })
	return t.octave
}

// inverse is about where the tail is v, in [0, most].
func (l *law) inverse(v, most float64) float64 {
	low, high := 0.0, most
	for range 64 {
		if z := (low + high) / 2; l.roughly(z) > v {
			low = z
		} else {
			high = z
		}
	}
	return low
}

// An end is where a law's draws stop: V below 2^-digits counts as |Z| = most, and V
// above it implies a smaller |Z|. The far one is for the normals of a Direction.
type end struct {
	digits int
	most   float64
}

// reached says whether V, as an integer of all digits, lies beyond the end.
func (e end) reached(all *big.Int) bool { return all.BitLen() <= mostDigits-e.digits }

var (
	normalEnd  = end{128, 13.2}
	farEnd     = end{448, 24.9}
	laplaceEnd = end{448, 311}
)
