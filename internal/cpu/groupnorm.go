package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// groupNorm has a weight and a bias of each channel.
var groupNorm = operation{
	example:  (*net).groupNorm,
	back:     eachBack((*net).groupNormGrad),
	gradient: (*net).groupNormGradient,
	memory: func(n *net, i, chunk, inFlight int) {
		op := &n.program.Ops[i]
		n.norms[i] = newNormalization(op.Groups, ir.Size(op.Shape)/op.Groups, chunk)
		n.norms[i].sums, n.norms[i].summed = make([]channelSum, inFlight*op.Shape[0]), make([]bool, inFlight)
	},
}

// positions are the elements of a channel.
func positions(op *ir.Op) int { return ir.Size(op.Shape) / op.Shape[0] }

func (n *net) groupNorm(i int) func(int, []float32, []float32, *worker) {
	op := &n.program.Ops[i]
	norm, positions := n.norms[i], positions(op)
	return func(b int, weight, bias []float32, _ *worker) {
		x, y := n.value(op.In[0], b), n.value(ir.Value(i+1), b)
		for g := range op.Groups {
			m, rest := norm.normalize(b, g, row(y, g, norm.size), row(x, g, norm.size), op.Epsilon)
			first := g * norm.size / positions
			for c := first; c < first+norm.size/positions; c++ {
				slope := m.scale * float64(weight[c])
				offset := rest * slope
				if len(bias) > 0 {
					offset += float64(bias[c])
				}
				channel := row(y, c, positions)
				vec.Normalize(channel, channel, 0, float32(slope), float32(offset))
			}
		}
	}
}

// channelSum has Σδ and Σδ·(x−μ) of a channel.
type channelSum struct{ delta, slope float64 }

// channelSums are those of an example. Its gradient and what is passed on both need them: they are found once.
func (n *net) channelSums(i, b int) []channelSum {
	op, norm, at := &n.program.Ops[i], n.norms[i], n.place(forStretch, b)
	sums := row(norm.sums, at, op.Shape[0])
	if norm.summed[at] {
		return sums
	}
	norm.summed[at] = true
	positions := positions(op)
	x, dy := n.value(op.In[0], b), n.delta(ir.Value(i+1), b)
	for c := range sums {
		x, dy := row(x, c, positions), row(dy, c, positions)
		sum := vec.Sum(dy)
		sums[c] = channelSum{sum, vec.Dot(dy, x) - norm.of(b, c*positions/norm.size).mean*sum}
	}
	return sums
}

// groupNormGradient adds up a record's views.
func (n *net) groupNormGradient(i int) func(int, []float32, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	channels, positions := op.Shape[0], positions(op)
	return func(r int, g []float32, _ *worker) {
		for c := range channels {
			slope, sum := 0.0, 0.0
			for b := n.views * r; b < n.views*(r+1); b++ {
				s := n.channelSums(i, b)[c]
				slope += norm.of(b, c*positions/norm.size).scale * s.slope
				sum += s.delta
			}
			if g[c] = float32(slope); op.Bias != ir.None {
				g[channels+c] = float32(sum)
			}
		}
	}
}

// groupNormGrad passes δ on: with g = δ·weight and x̂ the normalized input, g − mean(g) − x̂·mean(g·x̂), times the scale.
func (n *net) groupNormGrad(i int) func(int, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	in, out, positions := op.In[0], ir.Value(i+1), positions(op)
	return func(b int, w *worker) {
		weight, sums := n.weight(i), n.channelSums(i, b)
		for g := range op.Groups {
			x, dy, dx := row(n.value(in, b), g, norm.size), row(n.delta(out, b), g, norm.size), row(n.delta(in, b), g, norm.size)
			m := norm.of(b, g)
			channels := norm.size / positions
			sum, slope := 0.0, 0.0
			for c := range channels {
				sum += float64(weight[g*channels+c]) * sums[g*channels+c].delta
				slope += float64(weight[g*channels+c]) * sums[g*channels+c].slope
			}
			sum, slope = m.scale*sum/float64(norm.size), m.scale*m.scale*m.scale*slope/float64(norm.size)
			centre, rest := m.centre()
			d := dx
			if n.shared[in] {
				d = w.scratch(norm.size)
			}
			vec.Normalize(d, x, centre, 1, 0)
			for c := range channels {
				channel := row(d, c, positions)
				vec.Mix(channel, float32(m.scale*float64(weight[g*channels+c])), row(dy, c, positions), float32(-slope), channel)
			}
			vec.Normalize(d, d, float32(sum+slope*rest), 1, 0)
			if n.shared[in] {
				vec.AddVec(dx, d)
			}
		}
	}
}
