package cpu

import "github.com/privgrad/privgrad/internal/ir"

// affine repeats its constants along the axes of its input. It has no way back.
var affine = operation{example: func(n *net, i int) func(int, []float32, []float32, *worker) {
	op := &n.program.Ops[i]
	scales, shifts := repeated(n.program, op, op.Weight), repeated(n.program, op, op.Bias)
	return func(b int, weight, bias []float32, _ *worker) {
		x, y := n.value(op.In[0], b), n.value(ir.Value(i+1), b)
		for k, v := range x {
			if weight != nil {
				v *= weight[scales[k]]
			}
			if bias != nil {
				v += bias[shifts[k]]
			}
			y[k] = v
		}
	}
}}

// repeated is where each element of an op's input finds its own of a constant; nil for none.
func repeated(p *ir.Program, op *ir.Op, constant int) []int32 {
	if constant == ir.None {
		return nil
	}
	axes := p.Params[constant].Shape
	at := make([]int32, ir.Size(op.Shape))
	for k := range at {
		rest, stride := k, 1
		for axis := range axes { // from the last
			n, has := op.Shape[len(op.Shape)-1-axis], axes[len(axes)-1-axis]
			if has != 1 {
				at[k] += int32(rest % n * stride)
			}
			stride *= has
			rest /= n
		}
	}
	return at
}
