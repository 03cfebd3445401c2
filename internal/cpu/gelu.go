package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// gelu goes back by its input.
var gelu = operation{
	example: func(n *net, i int) func(int, []float32, []float32, *worker) {
		in, out := n.program.Ops[i].In[0], ir.Value(i+1)
		return func(b int, _, _ []float32, _ *worker) { vec.GELU(n.value(out, b), n.value(in, b)) }
	},
	back: eachBack(func(n *net, i int) func(int, *worker) {
		return n.elementGrad(i, n.program.Ops[i].In[0], vec.GELUGrad)
	}),
}
