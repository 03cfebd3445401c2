package cpu

import (
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/plan"
)

// exactSum is what an exact net knows beside others: where the integers go,
// and each example's scale.
type exactSum struct {
	dst   []int64
	grid  host.Grid
	scale []float64
}

// GridSum runs the schedule with integers at its end.
func (n *net) GridSum(dst []int64, params []float32, t *host.Table, rows []int32, g host.Grid) {
	n.exact.dst, n.exact.grid = dst, g
	n.ClippedSum(nil, params, t, rows, 0)
	n.exact.dst = nil
}

// setScale stands in the place of setFactor.
func (n *net) setScale(b int, _ *worker) {
	scale, ok := host.Scale(n.exact.grid, row(n.kept, b, n.stored))
	n.exact.scale[b] = scale
	n.used[b] = n.used[b] && ok
}

// combineIntegers adds Σ truncated gradient of one op; integers may be added
// in any order.
func (n *net) combineIntegers(i int) phase {
	op := &n.program.Ops[i]
	weight, size := n.program.Params[op.Weight].Size(), paramCount(n.program, op)
	return phase{
		tiles: func() int { return (size + combineBlock - 1) / combineBlock },
		body: func(tile int, _ *worker) {
			lo := tile * combineBlock
			hi := min(lo+combineBlock, size)
			// A block may lie across the end of the weight.
			cut := min(max(weight, lo), hi)
			for b := range n.batch {
				if !n.used[b] {
					continue
				}
				g, scale := row(n.kept, b, n.stored)[n.keptAt[i]:], n.exact.scale[b]
				if lo < cut {
					host.Accumulate(n.exact.dst[n.program.Params[op.Weight].Offset+lo:], g[lo:cut], scale)
				}
				if cut < hi && op.Bias != plan.None {
					host.Accumulate(n.exact.dst[n.program.Params[op.Bias].Offset+cut-weight:], g[cut:hi], scale)
				}
			}
		},
	}
}

// Blocks are shared out among the workers.
func (n *net) Blocks(size int, f func(lo, hi int)) {
	n.flat(size, func(lo, hi int, _ *worker) { f(lo, hi) })
}
