package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// GridSum adds every example's truncated gradient.
func (b *backend) GridSum(dst []int64, params []float64, t *host.Table, all host.Batch, g device.Grid) {
	p := b.schedule.Program
	gradient := make([]float64, len(dst))
	for i := range all.Rows {
		one := all.Part(i, i+1, b.schedule.Views())
		e := b.gather(t, one.Rows[0], one.Words)
		clear(gradient)
		for _, st := range b.schedule.Steps {
			if st.Kind == ir.Combine {
				add(p, &p.Ops[st.Op], gradient, 1, e.kept[st.Op])
				continue
			}
			b.step(st, e, nil, params, float32(math.Inf(1)))
		}
		if scale, ok := host.Scale(g, gradient); ok && e.used {
			host.Accumulate(dst, gradient, scale)
		}
	}
}

// Blocks is one block.
func (b *backend) Blocks(n int, f func(lo, hi int)) { f(0, n) }
