package host

import (
	"math"

	"github.com/privgrad/privgrad/internal/plan"
)

// Clipper computes the factors of a schedule's clipping from squared norms,
// alike on every host.
type Clipper struct {
	clipping plan.Clipping
	group    []int // by op
	Groups   int   // norms and factors that an example has
}

// NewClipper prepares a schedule's clipping.
func NewClipper(s *plan.Schedule) *Clipper {
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
	if c.clipping == plan.Unclipped {
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
		switch {
		case c.clipping == plan.Automatic:
			factor[i] = T(bound / (norm + plan.AutomaticGamma))
		case norm > bound:
			factor[i] = T(bound / norm)
		}
	}
	return true
}

// Within is one used example's share of the count of Queue.CountedSum: ½ if
// flat clipping leaves its gradient as it is, else −½.
func Within(norm2 float64, clip float32) float64 {
	if math.Sqrt(norm2) <= float64(clip) {
		return 0.5
	}
	return -0.5
}
