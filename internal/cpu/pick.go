package cpu

import "github.com/privgrad/privgrad/internal/ir"

// pick has no way back.
var pick = operation{example: func(n *net, i int) func(int, []float32, []float32, *worker) {
	op := &n.program.Ops[i]
	run := true // of neighbours
	for k, at := range op.Index {
		run = run && at == op.Index[0]+int32(k)
	}
	return func(b int, _, _ []float32, _ *worker) {
		x, y := n.value(op.In[0], b), n.value(ir.Value(i+1), b)
		if run {
			copy(y, x[op.Index[0]:])
			return
		}
		for k, at := range op.Index {
			y[k] = x[at]
		}
	}
}}
