package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// forwardOp is the forward pass of every op without a product.
func (n *net) forwardOp(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	switch op.Kind {
	case ir.ReLU:
		return func(b int, _ *worker) { vec.ReLU(n.value(out, b), n.value(in, b)) }
	case ir.Tanh:
		return func(b int, _ *worker) { vec.Tanh(n.value(out, b), n.value(in, b)) }
	case ir.Sigmoid:
		return func(b int, _ *worker) { vec.Sigmoid(n.value(out, b), n.value(in, b)) }
	case ir.LeakyReLU:
		return func(b int, _ *worker) { vec.LeakyReLU(n.value(out, b), n.value(in, b), op.Slope) }
	case ir.GroupNorm:
		return func(b int, _ *worker) {
			n.groupNorm(i, b, n.param(n.params, op.Weight), n.param(n.params, op.Bias))
		}
	case ir.MaxPool:
		return n.maxPool(i)
	case ir.AvgPool:
		return n.avgPool(i)
	default: // ir.Add
		return func(b int, _ *worker) {
			y := n.value(out, b)
			copy(y, n.value(in, b))
			vec.AddVec(y, n.value(op.In[1], b))
		}
	}
}

// inputGradOp is the backward pass of every op without a product.
func (n *net) inputGradOp(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	switch op.Kind {
	case ir.ReLU:
		return n.activationGrad(i, vec.ReLUGrad)
	case ir.Tanh:
		return n.activationGrad(i, vec.TanhGrad)
	case ir.Sigmoid:
		return n.activationGrad(i, vec.SigmoidGrad)
	case ir.LeakyReLU:
		return n.activationGrad(i, func(dst, y, g []float32) { vec.LeakyReLUGrad(dst, y, g, op.Slope) })
	case ir.GroupNorm:
		return n.groupNormGrad(i)
	case ir.MaxPool:
		if twoByTwo(op) && op.Window.StrideH == 2 && op.Window.StrideW == 2 && !n.shared[in] {
			return n.maxUnpool2(i)
		}
		if twoByTwo(op) && op.Window.StrideH == 1 && op.Window.StrideW == 1 {
			return n.addUnpool2(i)
		}
		return func(b int, _ *worker) {
			dx, dy := n.fresh(in, b), n.delta(out, b)
			for o, at := range n.picked(i, b) {
				dx[at] += dy[o]
			}
		}
	case ir.AvgPool:
		return func(b int, _ *worker) {
			dx, dy := n.fresh(in, b), n.delta(out, b)
			area := float32(op.Window.H * op.Window.W)
			windows(op, func(o, lo, count int) {
				d := dy[o] / area
				for j := range count {
					dx[lo+j] += d
				}
			})
		}
	default: // ir.Add
		return func(b int, _ *worker) {
			dy := n.delta(out, b)
			for _, v := range op.In {
				if n.deltas[v] != nil {
					vec.AddVec(n.fresh(v, b), dy)
				}
			}
		}
	}
}

// fresh is the delta of a value, zero if nobody has added to it.
func (n *net) fresh(v ir.Value, b int) []float32 {
	d := n.delta(v, b)
	if !n.shared[v] {
		clear(d)
	}
	return d
}

func (n *net) activationGrad(i int, grad func(dst, y, g []float32)) func(int, *worker) {
	in, out := n.program.Ops[i].In[0], ir.Value(i+1)
	if !n.shared[in] {
		return func(b int, _ *worker) { grad(n.delta(in, b), n.value(out, b), n.delta(out, b)) }
	}
	return func(b int, w *worker) {
		d := w.scratch(n.width[in])
		grad(d, n.value(out, b), n.delta(out, b))
		vec.AddVec(n.delta(in, b), d)
	}
}

func (n *net) maxPool(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	if win := op.Window; twoByTwo(op) && win.StrideW <= 2 {
		channels, rows := tallest(op)
		plane, pooled := op.Shape[0]*op.Shape[1]*op.Shape[2]/channels, rows*op.Out[2]
		return func(b int, _ *worker) {
			x, y, arg := n.value(in, b), n.value(out, b), n.picked(i, b)
			for c := range channels {
				vec.MaxPool2(y[c*pooled:], arg[c*pooled:], x[c*plane:(c+1)*plane], rows, op.Out[2], op.Shape[2], win.StrideH*op.Shape[2], win.StrideW, c*plane)
			}
		}
	}
	return func(b int, _ *worker) {
		x, y := n.value(in, b), n.value(out, b)
		arg := n.picked(i, b)
		for o := range arg {
			arg[o] = -1
		}
		windows(op, func(o, lo, count int) {
			for at := lo; at < lo+count; at++ {
				if arg[o] < 0 || x[at] > y[o] {
					arg[o], y[o] = int32(at), x[at]
				}
			}
		})
	}
}

// twoByTwo: the op's windows are that, and none of them reads padding.
func twoByTwo(op *ir.Op) bool { return op.Window.H == 2 && op.Window.W == 2 && !padded(op) }

func padded(op *ir.Op) bool {
	w := op.Window
	return w.PadTop|w.PadBottom|w.PadLeft|w.PadRight != 0
}

// tallest puts the channels of a pool one below the other, as one, where no row between their windows is left out.
func tallest(op *ir.Op) (channels, rows int) {
	if op.Shape[1] == op.Out[1]*op.Window.StrideH {
		return 1, op.Shape[0] * op.Out[1]
	}
	return op.Shape[0], op.Out[1]
}

// maxUnpool2 is for windows side by side, which leave out at most a last row and column.
func (n *net) maxUnpool2(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	h, w, oh, ow := op.Shape[1], op.Shape[2], op.Out[1], op.Out[2]
	channels, rows := tallest(op)
	plane, pooled := op.Shape[0]*h*w/channels, rows*ow
	return func(b int, _ *worker) {
		dx, dy, arg := n.delta(in, b), n.delta(out, b), n.picked(i, b)
		if h != 2*oh || w != 2*ow {
			clear(dx)
		}
		for c := range channels {
			vec.MaxUnpool2(dx[c*plane:], arg[c*pooled:], dy[c*pooled:], rows, ow, w, c*plane)
		}
	}
}

// addUnpool2 is for windows one apart.
func (n *net) addUnpool2(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	plane, pooled := op.Shape[1]*op.Shape[2], op.Out[1]*op.Out[2]
	return func(b int, _ *worker) {
		dx, dy, arg := n.delta(in, b), n.delta(out, b), n.picked(i, b)
		for c := range op.Shape[0] {
			vec.AddUnpool2(dx[c*plane:], arg[c*pooled:], dy[c*pooled:], op.Out[1], op.Out[2], c*plane, n.shared[in])
		}
	}
}

func (n *net) avgPool(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	return func(b int, _ *worker) {
		x, y := n.value(in, b), n.value(out, b)
		clear(y)
		windows(op, func(o, lo, count int) {
			for _, v := range x[lo : lo+count] {
				y[o] += v
			}
		})
		vec.Scale(y, 1/float32(op.Window.H*op.Window.W))
	}
}

// windows visits a pool's windows row by row, without padding: output o reads count
// elements from lo on.
func windows(op *ir.Op, visit func(o, lo, count int)) {
	h, w := op.Shape[1], op.Shape[2]
	win := op.Window
	o := 0
	for c := range op.Shape[0] {
		for oy := range op.Out[1] {
			for ox := range op.Out[2] {
				x0 := ox*win.StrideW - win.PadLeft
				x1 := min(x0+win.W, w)
				x0 = max(x0, 0)
				for y := max(oy*win.StrideH-win.PadTop, 0); y < min(oy*win.StrideH-win.PadTop+win.H, h); y++ {
					visit(o, (c*h+y)*w+x0, x1-x0)
				}
				o++
			}
		}
	}
}
