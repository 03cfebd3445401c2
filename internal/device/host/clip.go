package host

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// Clipper computes the factors of a schedule's clipping from squared norms,
// alike on every host.
type Clipper struct {
	clipping ir.Clipping
	group    []int // by op
	Groups   int   // norms and factors that an example has
}

// NewClipper prepares a schedule's clipping.
func NewClipper(s *ir.Schedule) *Clipper {
	c := &Clipper{clipping: s.Clipping}
	c.group, c.Groups = s.Groups()
	return c
}

// Group is where among an example's norms and factors those of an op stand.
func (c *Clipper) Group(op int) int { return c.group[op] }

// Factors turns the squared norms of one example, one a group, into its
// factors. It is false for an example that counts as zero: one norm that is
// not finite takes the whole example out, since the others came from the same
// broken numbers.
func Factors[T Float](c *Clipper, factor []T, norm2 []float64, clip float32) bool {
	for i := range factor {
		factor[i] = 1
	}
	if c.clipping == ir.Unclipped {
		return true
	}
	for _, x := range norm2 {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	bound := float64(clip) / math.Sqrt(float64(c.Groups))
	for i, x := range norm2 {
		norm := math.Sqrt(x)
		if c.clipping == ir.Automatic {
			factor[i] = down[T](bound / (norm*(1+margin[T]()) + ir.AutomaticGamma))
		} else {
			factor[i] = shrink[T](bound, norm)
		}
	}
	return true
}

// Ghost is the squared norm of an outer product by those of its sides, the gradient
// of a layer's outputs and its inputs. It is infinite, so that the example counts as
// zero, where inputs are longer than 2⁶³: what a factor times δ loses to underflow
// could be seen beside a bound once it is multiplied by them (docs/proofs/rounding.md).
func Ghost(outputs2, inputs2 float64) float64 {
	if inputs2 > 0x1p126 {
		return math.Inf(1)
	}
	return outputs2 * inputs2
}

// shrink is min(1, bound/norm) made safe against rounding: a value not above
// bound/norm, less a margin. Whoever scales by it keeps to the bound as long as
// norm is no smaller than the norm of exactly what is scaled, up to that margin.
func shrink[T Float](bound, norm float64) T {
	if norm *= 1 + margin[T](); norm <= bound {
		return 1
	}
	return down[T](bound / norm)
}

// margin covers the rounding of δ times the factor and that of sums of squares
// in float64 on the way to a norm.
func margin[T Float]() float64 {
	if _, double := any(T(0)).(float64); double {
		return 0x1p-40
	}
	return 0x1p-22
}

// down rounds x, which is not negative, down.
func down[T Float](x float64) T {
	y := T(x)
	if float64(y) > x {
		y = T(math.Nextafter32(float32(y), 0)) // a float64 is x itself
	}
	return y
}

// Within is one used example's share of the count of Queue.CountedSum: ½ if
// flat clipping leaves its gradient as it is, else −½.
func Within[T Float](factor T) float64 {
	if factor == 1 {
		return 0.5
	}
	return -0.5
}
