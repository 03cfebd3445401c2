package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
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

// groupNormalization is what such an op keeps of a chunk, and its geometry.
type groupNormalization struct {
	moments         []moments // one a group, one row an example
	size, positions int       // elements of a group and of a channel
	ones            []float32 // size of them
}

func newGroupNormalization(op *ir.Op, chunk int) *groupNormalization {
	n := &groupNormalization{moments: make([]moments, chunk*op.Groups), size: ir.Size(op.Shape) / op.Groups, positions: ir.Size(op.Shape) / op.Shape[0]}
	n.ones = make([]float32, n.size)
	for i := range n.ones {
		n.ones[i] = 1
	}
	return n
}

// groupNorm is the forward pass of example b with the given weight and bias; the latter may be empty.
func (n *net) groupNorm(i, b int, weight, bias []float32) {
	op, norm := &n.program.Ops[i], n.norms[i]
	x, y := n.value(op.In[0], b), n.value(ir.Value(i+1), b)
	for g := range op.Groups {
		in, out := row(x, g, norm.size), row(y, g, norm.size)
		m := &norm.moments[b*op.Groups+g]
		m.mean = vec.Sum(in) / float64(norm.size)
		centre, rest := m.centre()
		vec.Mix(out, 1, in, -centre, norm.ones)
		m.scale = 1 / math.Sqrt(max(vec.SumSquares(out)/float64(norm.size)-rest*rest, 0)+op.Epsilon)
		first := g * norm.size / norm.positions
		for c := first; c < first+norm.size/norm.positions; c++ {
			slope := m.scale * float64(weight[c])
			offset := rest * slope
			if len(bias) > 0 {
				offset += float64(bias[c])
			}
			channel := row(y, c, norm.positions)
			vec.Mix(channel, float32(slope), channel, float32(offset), norm.ones)
		}
	}
}

// channelSums are Σδ and Σδ·(x−μ) of a channel.
func (n *net) channelSums(i, b, c int) (sum, slope float64) {
	op, norm := &n.program.Ops[i], n.norms[i]
	x, dy := row(n.value(op.In[0], b), c, norm.positions), row(n.delta(ir.Value(i+1), b), c, norm.positions)
	sum = vec.Sum(dy)
	return sum, vec.Dot(dy, x) - norm.moments[b*op.Groups+c*norm.positions/norm.size].mean*sum
}

// groupNormStore keeps and measures an example's gradient.
func (n *net) groupNormStore(i int) func(int, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	channels := op.Shape[0]
	return func(b int, w *worker) {
		g := n.keep(i, b, w)
		for c := range channels {
			sum, slope := n.channelSums(i, b, c)
			g[c] = float32(norm.moments[b*op.Groups+c*norm.positions/norm.size].scale * slope)
			if op.Bias != ir.None {
				g[channels+c] = float32(sum)
			}
		}
		n.measured(i, b, vec.SumSquares(g))
	}
}

// groupNormGrad passes δ on: with g = δ·weight and x̂ the normalized input, g − mean(g) − x̂·mean(g·x̂), times the scale.
func (n *net) groupNormGrad(i int) func(int, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	in, out := op.In[0], ir.Value(i+1)
	return func(b int, w *worker) {
		weight := n.param(n.params, op.Weight)
		for g := range op.Groups {
			x, dy, dx := row(n.value(in, b), g, norm.size), row(n.delta(out, b), g, norm.size), row(n.delta(in, b), g, norm.size)
			m := norm.moments[b*op.Groups+g]
			channels := norm.size / norm.positions
			sum, slope := 0.0, 0.0
			for c := range channels {
				s1, s2 := n.channelSums(i, b, g*channels+c)
				sum += float64(weight[g*channels+c]) * s1
				slope += float64(weight[g*channels+c]) * s2
			}
			sum, slope = m.scale*sum/float64(norm.size), m.scale*m.scale*m.scale*slope/float64(norm.size)
			centre, rest := m.centre()
			d := dx
			if n.shared[in] {
				d = w.scratch(norm.size)
			}
			vec.Mix(d, 1, x, -centre, norm.ones)
			for c := range channels {
				channel := row(d, c, norm.positions)
				vec.Mix(channel, float32(m.scale*float64(weight[g*channels+c])), row(dy, c, norm.positions), float32(-slope), channel)
			}
			vec.Axpy(d, float32(-sum-slope*rest), norm.ones)
			if n.shared[in] {
				vec.AddVec(dx, d)
			}
		}
	}
}
