package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// Single gradients are laid out bias after weight.

// turned: op i's weights are those of a convolution that lie as (taps) × (out) up to the sum.
func (n *net) turned(i int) bool { return n.convs[i] != nil && n.convs[i].picks == nil }

// keep is where record b's gradient of op i is stored.
func (n *net) keep(i, b int, w *worker) []float32 {
	x := w.kept[b%n.group*n.passed:]
	if !n.passing[i] {
		x = row(n.kept, b, n.stored)
	}
	return x[n.keptAt[i]:][:n.program.OpParams(i)]
}

// part is op i's share of the partial sum of record b's unit; first says that b is the first to be added.
func (n *net) part(i, b int) (sum []float32, first bool) {
	return row(n.parts, b/n.unit, n.passed)[n.keptAt[i]:][:n.program.OpParams(i)], b%n.unit == 0
}

// pass adds a record's gradients to the partial sum of its unit, times its factor: a function for each op.
func (n *net) pass() (all []func(int, *worker)) {
	for _, st := range n.schedule.Steps {
		i := st.Op
		if st.Kind != ir.Combine || !n.passing[i] {
			continue
		}
		all = append(all, func(b int, w *worker) {
			sum, first := n.part(i, b)
			switch {
			case n.used[b] && first:
				vec.Scaled(sum, n.factorOf(i, b), n.keep(i, b, w))
			case n.used[b]:
				vec.Axpy(sum, n.factorOf(i, b), n.keep(i, b, w))
			case first:
				clear(sum)
			}
		})
	}
	return all
}

// convGradient writes a record's gradient of a convolution's weight, which grows over the views inside of one product, then
// of the bias.
func (n *net) convGradient(i int) func(int, []float32, *worker) {
	return func(r int, g []float32, w *worker) {
		for v := range n.views {
			n.convGrad(i, n.views*r+v, g, v > 0, w)
		}
	}
}

// complete gives a function that writes a record's complete gradient of op i's parameters.
func (n *net) complete(i int) func(r int, g []float32, w *worker) {
	gradient, made := n.ops[i].gradient(n, i), n.made[i]
	if made == nil {
		return gradient
	}
	return func(r int, g []float32, w *worker) {
		gradient(r, g, w)
		made.back(g, w)
	}
}

// store keeps each record's gradient of an op and measures it.
func (n *net) store(i int) func(int, *worker) {
	complete := n.complete(i)
	return func(r int, w *worker) {
		g := n.keep(i, r, w)
		complete(r, g, w)
		n.measured(i, r, vec.SumSquares(g))
	}
}

// instantiate gives a function that computes a record's gradient of op i in scratch memory.
func (n *net) instantiate(i int) func(r int, w *worker) []float32 {
	complete, size := n.complete(i), n.program.OpParams(i)
	return func(r int, w *worker) []float32 {
		g := w.gradient[:size]
		complete(r, g, w)
		return g
	}
}

// normInstantiate measures a gradient that the sum computes again, with the same bits.
func (n *net) normInstantiate(i int) func(int, *worker) {
	instantiate := n.instantiate(i)
	return func(r int, w *worker) { n.measured(i, r, vec.SumSquares(instantiate(r, w))) }
}

// byProduct says that op i's GradSum is a product over the examples of the chunk. Of a clipped gradient of several views it
// is not: the parts of one are not bounded as the whole is.
func (n *net) byProduct(i int) bool {
	return n.ops[i].sum != nil && (n.views == 1 || !n.schedule.Private())
}

// grows says that op i's GradSum grows inside the products of single examples. Only a plain sum may: the parts of a clipped
// gradient are not bounded as the whole is.
func (n *net) grows(i int) bool { return !n.schedule.Private() && n.convs[i] != nil }

// recordSum adds the records' gradients to the partial sums of their units.
func (n *net) recordSum(i int) []phase {
	instantiate, grows := n.instantiate(i), n.grows(i)
	return append(n.perRecord(func(r int, w *worker) {
		sum, first := n.part(i, r)
		switch {
		case !n.used[r]:
			if first {
				clear(sum)
			}
		case grows:
			for v := range n.views {
				n.convGrad(i, n.views*r+v, sum, !first || v > 0, w)
			}
		case first:
			vec.Scaled(sum, n.factorOf(i, r), instantiate(r, w))
		default:
			vec.Axpy(sum, n.factorOf(i, r), instantiate(r, w))
		}
	}), n.sumParts(i))
}

// takenBack says that op i's partial sums are of gradients of a weight that is a function: the way back to the parameters is
// linear, so a plain sum goes it once.
func (n *net) takenBack(i int) bool { return n.made[i] != nil && n.grows(i) }

// sumBlock is how many of op i's gradient values a worker sums up at a time: long stretches come faster from memory, the
// sums of a small op are shared out, and whole taps are delivered in long runs.
func (n *net) sumBlock(i int) int {
	block, op := 512, &n.program.Ops[i]
	if n.program.OpParams(i) >= 64<<10 {
		block = 2048
	}
	if out, _, _ := op.Columns(); n.turned(i) {
		block = max(block/out, 1) * out
	}
	return block
}

// blockwise is a phase over blocks of op i's gradient values.
func (n *net) blockwise(i, block int, body func(lo, hi int, w *worker)) phase {
	size := n.program.OpParams(i)
	return phase{
		tiles: func() int { return (size + block - 1) / block },
		body:  func(tile int, w *worker) { body(tile*block, min((tile+1)*block, size), w) },
	}
}

// sumParts adds op i's partial sums pairwise. A sum that has yet to be taken back takes the place of the first.
func (n *net) sumParts(i int) phase {
	at, back := n.keptAt[i], n.takenBack(i)
	return n.blockwise(i, n.sumBlock(i), func(lo, hi int, w *worker) {
		w.tree.begin(hi - lo)
		for u := range n.units(n.batch) {
			copy(w.tree.next(), row(n.parts, u, n.passed)[at+lo:at+hi])
			w.tree.push()
		}
		if back {
			copy(row(n.parts, 0, n.passed)[at+lo:at+hi], w.tree.sum())
			return
		}
		deliver(n, i, n.dst, lo, w.tree.sum())
	})
}

// takeBack delivers the chunk's gradients of weights that are functions, taken back to the parameters.
func (n *net) takeBack() []phase {
	var ops []int
	for _, st := range n.schedule.Steps {
		if st.Kind == ir.GradSum && n.takenBack(st.Op) {
			ops = append(ops, st.Op)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return []phase{{
		tiles: func() int { return min(len(ops), len(ops)*n.batch) },
		body: func(tile int, w *worker) {
			i := ops[tile]
			sum, _ := n.part(i, 0)
			n.made[i].back(sum, w)
			deliver(n, i, n.dst, 0, sum)
		},
	}}
}

// combine adds Σ factor·(stored gradient) of op i.
func (n *net) combine(i int) phase {
	at := n.keptAt[i]
	return n.blockwise(i, n.sumBlock(i), func(lo, hi int, w *worker) {
		deliver(n, i, n.dst, lo, n.sumExamples(n.batch, hi-lo, w, func(dst []float32, b int) {
			if n.used[b] {
				vec.Axpy(dst, n.factorOf(i, b), row(n.kept, b, n.stored)[at+lo:at+hi])
			}
		}))
	})
}

// deliver adds values lo, lo+1, … of op i's summed gradient to their places in dst, one value a parameter.
func deliver[T float32 | int64](n *net, i int, dst []T, lo int, g []T) {
	op := &n.program.Ops[i]
	size := n.program.Params[op.Weight].Size()
	if here := min(len(g), size-lo); here > 0 {
		weights := dst[n.program.Params[op.Weight].Offset:][:size]
		out, k, _ := op.Columns()
		if !n.turned(i) {
			out, k = 1, 1 // lies as it should
		}
		for o := range out {
			first, tap := o-lo%out, lo/out
			if first < 0 {
				first, tap = first+out, tap+1
			}
			for j := first; j < here; j += out {
				weights[o*k+tap] += g[j]
				tap++
			}
		}
		lo, g = lo+here, g[here:]
	}
	lo -= size
	for _, q := range n.behind[i] {
		size := n.program.Params[q].Size()
		here := max(min(len(g), size-lo), 0)
		to := dst[n.program.Params[q].Offset:][:size]
		for j, x := range g[:here] {
			to[lo+j] += x
		}
		lo, g = max(lo-size, 0), g[here:]
	}
}
