package cpu

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
)

// exactSum is what an exact net knows beside others.
type exactSum struct {
	dst   []int64
	grid  device.Grid
	scale []float64 // by example
}

// GridSum runs the schedule with integers at its end.
func (n *net) GridSum(dst []int64, params []float32, t *host.Table, rows []int32, g device.Grid) {
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

// combineIntegers adds Σ truncated gradient of one op.
func (n *net) combineIntegers(i int) phase {
	at := n.keptAt[i]
	return n.blockwise(i, func(lo, hi int, w *worker) {
		sum := w.integers[:hi-lo]
		clear(sum)
		for b := range n.batch {
			if n.used[b] {
				host.Accumulate(sum, row(n.kept, b, n.stored)[at+lo:at+hi], n.exact.scale[b])
			}
		}
		deliver(n, i, n.exact.dst, lo, sum)
	})
}

// Blocks are shared out among the workers.
func (n *net) Blocks(size int, f func(lo, hi int)) {
	n.workers.do((size+flatBlock-1)/flatBlock, func(tile int, _ *worker) {
		f(tile*flatBlock, min((tile+1)*flatBlock, size))
	})
}
