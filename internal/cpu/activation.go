package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// activation writes an output from an input, and passes its gradient g back by the output y.
func activation(forward func(op *ir.Op, y, x []float32), back func(op *ir.Op, dst, y, g []float32)) operation {
	return operation{
		forward: (*net).activate,
		example: func(n *net, i int) func(int, []float32, []float32, *worker) {
			op := &n.program.Ops[i]
			return func(b int, _, _ []float32, _ *worker) {
				forward(op, n.value(ir.Value(i+1), b), n.value(op.In[0], b))
			}
		},
		back: eachBack(func(n *net, i int) func(int, *worker) {
			op := &n.program.Ops[i]
			return n.elementGrad(i, ir.Value(i+1), func(dst, y, g []float32) { back(op, dst, y, g) })
		}),
	}
}

var (
	relu    = activation(pointwise(vec.ReLU), pointwiseGrad(vec.ReLUGrad))
	tanh    = activation(pointwise(vec.Tanh), pointwiseGrad(vec.TanhGrad))
	sigmoid = activation(pointwise(vec.Sigmoid), pointwiseGrad(vec.SigmoidGrad))

	leakyReLU = activation(
		func(op *ir.Op, y, x []float32) { vec.LeakyReLU(y, x, op.Slope) },
		func(op *ir.Op, dst, y, g []float32) { vec.LeakyReLUGrad(dst, y, g, op.Slope) },
	)
)

func pointwise(f func(y, x []float32)) func(*ir.Op, []float32, []float32) {
	return func(_ *ir.Op, y, x []float32) { f(y, x) }
}

func pointwiseGrad(f func(dst, y, g []float32)) func(*ir.Op, []float32, []float32, []float32) {
	return func(_ *ir.Op, dst, y, g []float32) { f(dst, y, g) }
}

// activate is nothing where a convolution did it on the way out.
func (n *net) activate(i int) []phase {
	if n.program.Ops[i].Kind == ir.ReLU && i > 0 && n.convs[i-1] != nil && n.convs[i-1].relu {
		return nil
	}
	return n.forwardEach(i)
}

// elementGrad passes the gradient of an op on that works on each element by itself: grad takes it from value v, the op's
// input or output, to dst.
func (n *net) elementGrad(i int, v ir.Value, grad func(dst, v, g []float32)) func(int, *worker) {
	in, out := n.program.Ops[i].In[0], ir.Value(i+1)
	if !n.shared[in] {
		return func(b int, _ *worker) { grad(n.delta(in, b), n.value(v, b), n.delta(out, b)) }
	}
	return func(b int, w *worker) {
		d := w.scratch(n.width[in])
		grad(d, n.value(v, b), n.delta(out, b))
		vec.AddVec(n.delta(in, b), d)
	}
}
