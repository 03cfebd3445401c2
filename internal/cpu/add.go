package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

var add = operation{
	example: func(n *net, i int) func(int, []float32, []float32, *worker) {
		op := &n.program.Ops[i]
		return func(b int, _, _ []float32, _ *worker) {
			y := n.value(ir.Value(i+1), b)
			copy(y, n.value(op.In[0], b))
			vec.AddVec(y, n.value(op.In[1], b))
		}
	},
	back: eachBack(func(n *net, i int) func(int, *worker) {
		op := &n.program.Ops[i]
		return func(b int, _ *worker) {
			dy := n.delta(ir.Value(i+1), b)
			for _, v := range op.In {
				if n.deltas[v] != nil {
					vec.AddVec(n.fresh(v, b), dy)
				}
			}
		}
	}),
}
