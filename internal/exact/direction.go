package exact

import (
	"fmt"
	"math"
	"math/big"
	"sync"

	"github.com/privgrad/privgrad/internal/stream"
)

// Within these a draw of a Direction stays below 2⁵³.
const (
	maxScale     = 0x1p32 // in grid steps
	maxDimension = 1 << 24
)

// Direction draws vectors round(z), z ∈ ℝᵈ of density ∝ exp(-‖z‖/scale): a
// radius of Gamma(d, scale) and a uniform direction (Chaudhuri, Monteleoni and
// Sarwate, "Differentially private empirical risk minimization", JMLR 12, 2011,
// algorithm 1). At scale Δ/ε, on a vector of integers whose L2 sensitivity is Δ,
// it gives pure ε. It may be used concurrently.
//
// The density is a mixture of normals: z = scale·S·N with N ∈ ℝᵈ standard
// normal and S² ~ χ² of d+1 degrees of freedom (Andrews and Mallows, "Scale
// mixtures of normal distributions", JRSS B 36, 1974, for d = 1). So one number S,
// computed to some 500 digits, makes the coordinates independent rounded normals.
type Direction struct {
	scale     float64
	dimension int
	source
}

// NewDirection checks a scale in grid steps in [MinStd, maxScale], taken as
// exactly that number, a dimension in [1, maxDimension], and the rest as New does.
func NewDirection(scale float64, dimension int, s *stream.Stream, tensor uint32) (*Direction, error) {
	if !(scale >= MinStd && scale <= maxScale) {
		return nil, fmt.Errorf("exact direction noise of scale %v grid steps: must be in [%g, %g]", scale, MinStd, maxScale)
	}
	if dimension < 1 || dimension > maxDimension {
		return nil, fmt.Errorf("exact direction noise in %d dimensions: must be in [1, %d]", dimension, maxDimension)
	}
	if err := Check(s, tensor); err != nil {
		return nil, err
	}
	return &Direction{scale, dimension, source{s, tensor}}, nil
}

// Add adds the vector of a step to dst, whose length must be the dimension. Coordinate
// i is draw i of a Sampler of this tensor. The uniform variables of S are the
// big-endian numbers in blocks mixtureBlock… of the tensor, which no coordinate reads.
func (g *Direction) Add(dst []int64, step uint64) error {
	if len(dst) != g.dimension {
		return fmt.Errorf("exact direction noise in %d dimensions: was asked for %d values", g.dimension, len(dst))
	}
	length, slack := g.mixture(step)
	g.sampler(length, slack).Add(dst, step, 0)
	return nil
}

// Release64 is Sampler.Release64 with the vector of a step as the noise.
func (g *Direction) Release64(dst, src []float64, gridStep float64, step uint64) error {
	var r grid
	if len(src) != len(dst) || !r.set(gridStep) {
		return fmt.Errorf("exact direction noise on %d values for %d, on a grid of step %v: they must be as many, and the step a power of two in [%g, %g]", len(src), len(dst), gridStep, MinGrid, MaxGrid)
	}
	k := make([]int64, len(src))
	for i, x := range src {
		k[i] = r.units(x)
	}
	if err := g.Add(k, step); err != nil {
		return err
	}
	for i, k := range k {
		dst[i] = float64(k) * r.step
	}
	return nil
}

// sampler draws the coordinates, given S within a relative error.
func (g *Direction) sampler(length *big.Float, slack float64) *Sampler {
	wide := new(big.Float).SetPrec(mixturePrec).SetFloat64(g.scale)
	wide.Mul(wide, length)
	std, _ := wide.Float64()
	low, _ := new(big.Float).Sub(wide, big.NewFloat(std)).Float64()
	if slack > 4*unit*unit {
		low = math.NaN() // more than scaled has room for: nothing is decided there
	}
	return &Sampler{
		std: std, low: low, wide: wide, slack: slack,
		law: &normal, end: farEnd, source: g.source,
	}
}

const (
	mixtureBlock  = 1 << 31 // words of coordinates end below block 2²³
	mixtureDigits = 512     // of a uniform variable: a block of ChaCha20, four of AES
	mixturePrec   = mostDigits + guard
)

// mixture gives S and a bound on its relative error, which also bounds what it moves a tail by.
//
// S²/2 has the distribution Gamma((d+1)/2): that of the sum of ⌊(d+1)/2⌋
// exponential variables, which is -ln of a product of uniform ones, and for
// even d of half the square of a normal, E·cos²(πU/2) by Box and Muller.
// A uniform variable is known to lie in [v, v+1]·2⁻⁵¹², where -ln moves by at most
// 1/v; v = 0 counts as 1, an event of probability 2⁻⁵¹². All roundings are far
// below 2⁻⁶⁰⁰·(1 + S²/2): a product of 2²³ factors at 639 bits, then the series.
func (g *Direction) mixture(step uint64) (length *big.Float, slack float64) {
	uniform := g.uniforms(step)
	product, unread := big.NewFloat(1).SetPrec(mixturePrec), 0.0
	next := new(big.Float).SetPrec(mixturePrec)
	for range (g.dimension + 1) / 2 {
		v, off := uniform()
		next.Mul(product, v)
		product, next = next, product
		unread += off
	}
	half := minusLog(product)
	if g.dimension%2 == 0 {
		v, off := uniform()
		u, _ := uniform()
		e := minusLog(v)
		size, _ := e.Float64()
		unread += off + 2*size*math.Ldexp(1, -mixtureDigits) // the derivative of cos² is at most π/2
		half.Add(half, e.Mul(e, squaredCosine(u)))
	}
	size, _ := half.Float64()
	slack = 2 * (unread + 0x1p-600*(1+size)) / size // twice, for the roundings of this bound
	half.SetMantExp(half, 1)
	return half.Sqrt(half), slack
}

// uniforms gives the uniform variables of a step in turn, and what the digits
// beyond the last may move their logarithms by.
func (g *Direction) uniforms(step uint64) func() (v *big.Float, off float64) {
	var buf [64 * mixtureDigits / 8]byte
	blocks := uint64(len(buf) / g.stream.Cipher().BlockSize())
	block, rest := uint64(mixtureBlock), buf[:0]
	whole := new(big.Int)
	return func() (*big.Float, float64) {
		if len(rest) == 0 {
			g.stream.Fill(buf[:], step, uint64(g.tensor)<<32|block)
			block, rest = block+blocks, buf[:]
		}
		if whole.SetBytes(rest[:mixtureDigits/8]); whole.Sign() == 0 {
			whole.SetUint64(1)
		}
		rest = rest[mixtureDigits/8:]
		v := new(big.Float).SetPrec(mixturePrec).SetInt(whole)
		v.SetMantExp(v, -mixtureDigits)
		size, _ := v.Float64()
		return v, math.Ldexp(1/size, -mixtureDigits)
	}
}

// The series below count in units of 2^-fixedDigits: below 2⁹ terms, each rounded by
// less than two units, leave an error below 2⁻⁶⁹⁰.
const fixedDigits = 704

func fixed(x *big.Float) *big.Int {
	n, _ := new(big.Float).SetPrec(2*fixedDigits).SetMantExp(x, fixedDigits).Int(nil)
	return n
}

func float(n *big.Int) *big.Float {
	x := new(big.Float).SetPrec(mixturePrec).SetInt(n)
	return x.SetMantExp(x, -fixedDigits)
}

// minusLog gives -ln(v), 0 < v < 1, by ln(m·2ᵉ) = 2·artanh((m-1)/(m+1)) + e·ln 2
// with m in [¾, 3/2), which is a whole number of units.
func minusLog(v *big.Float) *big.Float {
	fraction := new(big.Float)
	e := v.MantExp(fraction)
	if fraction.Cmp(big.NewFloat(0.75)) < 0 {
		fraction.SetMantExp(fraction, 1)
		e--
	}
	m, one := fixed(fraction), new(big.Int).Lsh(big.NewInt(1), fixedDigits)
	ratio := new(big.Int).Sub(one, m)
	ratio.Quo(ratio.Lsh(ratio, fixedDigits), one.Add(one, m))
	y := artanh(ratio)
	y.Sub(y, new(big.Int).Mul(halfLog2(), big.NewInt(int64(e))))
	return float(y.Lsh(y, 1))
}

// halfLog2 is artanh(1/3).
var halfLog2 = sync.OnceValue(func() *big.Int {
	third := new(big.Int).Lsh(big.NewInt(1), fixedDigits)
	return artanh(third.Quo(third, big.NewInt(3)))
})

// artanh gives Σ t²ᵏ⁺¹/(2k+1), |t| ≤ 1/3.
func artanh(t *big.Int) *big.Int {
	if t.Sign() < 0 { // shifts would round away from 0 for ever
		y := artanh(new(big.Int).Neg(t))
		return y.Neg(y)
	}
	square, power, sum := new(big.Int).Mul(t, t), new(big.Int).Set(t), new(big.Int).Set(t)
	square.Rsh(square, fixedDigits)
	product, term, odd := new(big.Int), new(big.Int), new(big.Int)
	for k := int64(3); power.Sign() != 0; k += 2 {
		power.Rsh(product.Mul(power, square), fixedDigits)
		sum.Add(sum, term.Quo(power, odd.SetInt64(k)))
	}
	return sum
}

// squaredCosine gives cos²(πu/2) = (1 + cos πu)/2, 0 < u < 1, by the series of
// the cosine, no term of which is above 6.
func squaredCosine(u *big.Float) *big.Float {
	y := rootTwoPi(mostDigits + 2*guard)
	y.Mul(y, y)
	y.Mul(y.SetMantExp(y, -1), u)
	square := fixed(y)
	square.Rsh(square.Mul(square, square), fixedDigits)
	term := new(big.Int).Lsh(big.NewInt(1), fixedDigits)
	sum, product, divisor := new(big.Int).Lsh(term, 1), new(big.Int), new(big.Int)
	for k := int64(1); term.Sign() != 0; k++ {
		term.Rsh(product.Mul(term, square), fixedDigits)
		term.Quo(term, divisor.SetInt64((2*k-1)*2*k))
		if k%2 == 1 {
			sum.Sub(sum, term)
		} else {
			sum.Add(sum, term)
		}
	}
	return float(sum.Rsh(sum, 1))
}
