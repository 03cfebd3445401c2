package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/vec"
)

// Sums over a group are in float64. Elements are centred by the mean rounded to float32, which loses nothing
// where they are close to it; what the mean was rounded by is added with the bias.

// moments are the mean of a group and 1/√(variance+ε), in float64.
type moments struct{ mean, scale float64 }

// centre is the mean in float32, and what is missing from it.
func (m moments) centre() (rounded float32, rest float64) {
	rounded = float32(m.mean)
	return rounded, float64(rounded) - m.mean
}

// normalization is what an op that normalizes keeps of a chunk, and its geometry.
type normalization struct {
	moments      []moments // one a group, one row an example
	groups, size int       // how many an example has, and elements of one

	sums   []channelSum // of a group norm, of the examples in flight
	summed []bool       // which of them have theirs
}

func newNormalization(groups, size, chunk int) *normalization {
	return &normalization{moments: make([]moments, chunk*groups), groups: groups, size: size}
}

// of are the moments of example b's group g.
func (n *normalization) of(b, g int) *moments { return &n.moments[b*n.groups+g] }

// normalize finds the moments of x, group g of example b, and writes x less the rounded mean to y. rest is what is missing
// from that mean.
func (n *normalization) normalize(b, g int, y, x []float32, epsilon float64) (m *moments, rest float64) {
	m = n.of(b, g)
	m.mean = vec.Sum(x) / float64(n.size)
	centre, rest := m.centre()
	vec.Normalize(y, x, centre, 1, 0)
	m.scale = 1 / math.Sqrt(max(vec.SumSquares(y)/float64(n.size)-rest*rest, 0)+epsilon)
	return m, rest
}
