package exact

import (
	"math"
	"math/big"
	"math/bits"
)

// The unit interval of V is cut into octaves, [2⁻ᵉ⁻¹, 2⁻ᵉ), and those into
// cells of equal width. Below 2^-octaves the slow path draws.
const (
	octaves   = 40
	perOctave = 32
	degree    = 8
)

// An octave is the cells of one.
type octave [perOctave]cell

// A cell expands |Z| in powers of t = (V₀ - V)·2⁶³ around a V₀ near its middle.
type cell struct {
	at     int64           // ⌊V₀·2⁶³⌋
	centre float64         // |Z| at V₀, exact: V₀ is computed from it
	c      [degree]float64 // Taylor coefficients of t¹…
	error  float64         // of |Z|, in absolute terms, whatever lies in the cell
}

// unit is half the distance of 1 and the next float64.
const unit = 0x1p-53

// scaled gives (s+low)·|Z| as whole + rest, within bound, for a V whose first 63
// digits are v, where |low| ≤ unit·s and only the small rest is rounded. The bound has room
// for a scale that is off by another 4·unit²·s.
func (c *cell) scaled(v uint64, s, low float64) (whole, rest, bound float64) {
	t := float64(c.at - int64(v))
	w := t * (c.c[0] + t*(c.c[1]+t*(c.c[2]+t*(c.c[3]+t*(c.c[4]+t*(c.c[5]+t*(c.c[6]+t*c.c[7])))))))
	high := float64(s * c.centre) // the conversion keeps compilers from fusing it into the difference below
	lost := math.FMA(s, c.centre, -high)
	whole = math.RoundToEven(high)
	return whole, (high - whole) + (lost + (s*w + low*(c.centre+w))), s*c.error + 8*unit
}

// cellOf is the cell that a V whose first 63 digits are v lies in; nil below 2^-octaves.
func (l *law) cellOf(v uint64) *cell {
	e := bits.LeadingZeros64(v) - 1
	if e >= octaves {
		return nil
	}
	return &l.octave(e)[v<<e>>57&(perOctave-1)]
}

func (l *law) newOctave(e int) *octave {
	o := new(octave)
	for j := range o {
		first := uint64(perOctave+j) << (57 - e)
		o[j] = l.newCell(first, first+1<<(57-e))
	}
	return o
}

// farthest is beyond |Z| in every cell of every law.
const farthest = 32

// newCell expands around the middle of [first, last)·2⁻⁶³. Float64 only chooses points;
// what the bound rests on is computed with 128 bits.
func (l *law) newCell(first, last uint64) cell {
	const prec = 128
	z := l.inverse(float64(first+(last-first)/2)*0x1p-63, farthest)
	c := cell{centre: z}
	middle := new(big.Float).SetMantExp(l.tail(new(big.Float).SetPrec(prec).SetFloat64(z)), 63)
	at, _ := middle.Int(nil)
	c.at = at.Int64()

	// The farthest t in the cell, and half of the 2 for the digits of V₀ and V below 2⁻⁶³.
	reach := math.Max(float64(c.at-int64(first)), float64(int64(last)-c.at)) + 2

	// f⁽ⁿ⁾(t) = Pₙ(|Z|)·rⁿ with r = rate(|Z|), and P has no
	// negative coefficient: f and all its derivatives are largest where |Z| is.
	top := math.Max(z, l.topOf(first, prec))
	slope, steepest := l.rate(z, prec), l.rate(top, prec)
	factorial, power, most := big.NewFloat(1), big.NewFloat(1).SetPrec(prec), 1.0
	r, _ := steepest.Float64()
	p := []int64{1}
	for n := 1; n <= degree; n++ {
		power.Mul(power, slope)
		factorial.Mul(factorial, big.NewFloat(float64(n)))
		term := new(big.Float).SetPrec(prec).Mul(evaluate(p, z, prec), power)
		c.c[n-1], _ = term.Quo(term, factorial).Float64()
		most *= r * reach / float64(n)

		// Roundings of this term: n of t, one of c, a product and a sum for
		// each power of t, and the last products and sums of scaled.
		size := c.c[n-1] * math.Pow(reach, float64(n))
		c.error += float64(3*n+2) * unit * size
		c.error += 4 * unit * size
		p = l.derive(p, int64(n))
	}
	most *= r * reach / float64(degree+1)
	remainder, _ := evaluate(p, top, prec).Float64()
	c.error += remainder*most + r + 16*unit*unit*z
	c.error *= 1 + 0x1p-10 // for the roundings of this bound
	return c
}

// topOf gives a point not below |Z| where V = first·2⁻⁶³.
func (l *law) topOf(first uint64, prec uint) float64 {
	v := new(big.Float).SetMantExp(new(big.Float).SetUint64(first), -63)
	for z := l.inverse(float64(first)*0x1p-63, farthest) * (1 + 0x1p-20); ; z += 0x1p-20 {
		if g := l.tail(new(big.Float).SetPrec(prec).SetFloat64(z)); g.Add(g, tailError(prec)).Cmp(v) <= 0 {
			return z
		}
	}
}

// rate is d|Z|/dt of a normal at |Z| = z: 2⁻⁶⁴ over the density.
func rate(z float64, prec uint) *big.Float {
	r := exponential(halfSquare(new(big.Float).SetPrec(prec).SetFloat64(z)))
	return r.SetMantExp(r.Mul(r, rootTwoPi(prec)), -64)
}

// evaluate gives the polynomial with coefficients p, lowest first, at x.
func evaluate(p []int64, x float64, prec uint) *big.Float {
	y, at := new(big.Float).SetPrec(prec), new(big.Float).SetFloat64(x)
	for i := len(p) - 1; i >= 0; i-- {
		y.Mul(y, at)
		y.Add(y, new(big.Float).SetInt64(p[i]))
	}
	return y
}

// differentiate gives Pₙ₊₁ = Pₙ′ + n·x·Pₙ, with which f⁽ⁿ⁺¹⁾ = Pₙ₊₁(f)·f′ⁿ⁺¹
// follows from f″ = f·f′².
func differentiate(p []int64, n int64) []int64 {
	next := make([]int64, len(p)+1)
	for i, c := range p {
		next[i+1] += n * c
		if i > 0 {
			next[i-1] += int64(i) * c
		}
	}
	return next
}
