package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// layerNorm has a weight and a bias of each element of a line.
var layerNorm = operation{
	example:  (*net).layerNorm,
	back:     eachBack((*net).layerNormGrad),
	gradient: (*net).layerNormGradient,
	memory: func(n *net, i, chunk, _ int) {
		lines, size := n.program.Ops[i].Lines()
		n.norms[i] = newNormalization(lines, size, chunk)
	},
}

func (n *net) layerNorm(i int) func(int, []float32, []float32, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	return func(b int, weight, bias []float32, _ *worker) {
		x, y := n.value(op.In[0], b), n.value(ir.Value(i+1), b)
		for l := range norm.groups {
			line := row(y, l, norm.size)
			m, rest := norm.normalize(b, l, line, row(x, l, norm.size), op.Epsilon)
			vec.Normalize(line, line, 0, float32(m.scale), float32(rest*m.scale))
			if len(bias) > 0 {
				vec.MulAdd(line, line, weight, bias)
			} else {
				vec.Mul(line, line, weight)
			}
		}
	}
}

// normalized writes (x−μ)·scale of a line.
func (n *normalization) normalized(dst, x []float32, m *moments) {
	centre, rest := m.centre()
	vec.Normalize(dst, x, centre, float32(m.scale), float32(rest*m.scale))
}

// normalizedTogether is how many values layerNormStore normalizes before it adds them up, in whole lines.
const normalizedTogether = 1 << 10

// layerNormGradient adds up a record's views and their lines: Σδ·x̂ and Σδ of each element.
func (n *net) layerNormGradient(i int) func(int, []float32, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	together := min(max(normalizedTogether/norm.size, 1), norm.groups)
	return func(r int, g []float32, w *worker) {
		clear(g)
		scratch := w.scratch((together + 1) * norm.size)
		normalized, sum := scratch[norm.size:], scratch[:norm.size]
		if op.Bias != ir.None {
			sum = g[norm.size:] // else nobody needs it
		}
		for b := n.views * r; b < n.views*(r+1); b++ {
			x, dy := n.value(op.In[0], b), n.delta(ir.Value(i+1), b)
			for first := 0; first < norm.groups; first += together {
				end := min(first+together, norm.groups)
				for l := first; l < end; l++ {
					norm.normalized(row(normalized, l-first, norm.size), row(x, l, norm.size), norm.of(b, l))
				}
				vec.AddColumns(sum, g, dy[first*norm.size:end*norm.size], normalized)
			}
		}
	}
}

// layerNormGrad passes δ on as groupNormGrad does.
func (n *net) layerNormGrad(i int) func(int, *worker) {
	op, norm := &n.program.Ops[i], n.norms[i]
	in, out := op.In[0], ir.Value(i+1)
	return func(b int, w *worker) {
		weight := n.weight(i)
		scratch := w.scratch(2 * norm.size)
		normalized := scratch[:norm.size]
		x, dy, all := n.value(in, b), n.delta(out, b), n.delta(in, b)
		for l := range norm.groups {
			m := norm.of(b, l)
			norm.normalized(normalized, row(x, l, norm.size), m)
			dx := row(all, l, norm.size)
			d := dx
			if n.shared[in] {
				d = scratch[norm.size:]
			}
			vec.Mul(d, row(dy, l, norm.size), weight)
			mean, slope := vec.Sum(d)/float64(norm.size), vec.Dot(d, normalized)/float64(norm.size)
			vec.Mix(d, float32(m.scale), d, float32(-m.scale*slope), normalized)
			vec.Normalize(d, d, float32(m.scale*mean), 1, 0)
			if n.shared[in] {
				vec.AddVec(dx, d)
			}
		}
	}
}
