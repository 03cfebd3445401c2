package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// maxPool notes what it picked.
var maxPool = operation{
	example: (*net).pickLargest,
	back:    (*net).maxPoolGrad,
	memory: func(n *net, i, _, inFlight int) {
		n.argmax[i] = make([]int32, inFlight*n.width[i+1]+slack)
	},
}

var avgPool = operation{example: (*net).averages, back: eachBack((*net).avgPoolGrad)}

func (n *net) maxPoolGrad(i int) []phase {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	switch {
	case n.deltas[in] == nil:
		return nil // the convolution before takes what the pooling picked
	case twoByTwo(op) && op.Window.StrideH == 2 && op.Window.StrideW == 2 && !n.shared[in]:
		return each(n.maxUnpool2(i))
	case twoByTwo(op) && op.Window.StrideH == 1 && op.Window.StrideW == 1:
		return each(n.addUnpool2(i))
	}
	return each(func(b int, _ *worker) {
		dx, dy := n.fresh(in, b), n.delta(out, b)
		for o, at := range n.picked(i, b) {
			dx[at] += dy[o]
		}
	})
}

func (n *net) avgPoolGrad(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
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
}

func (n *net) pickLargest(i int) func(int, []float32, []float32, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	if win := op.Window; twoByTwo(op) && win.StrideW <= 2 {
		channels, rows := tallest(op)
		plane, pooled := op.Shape[0]*op.Shape[1]*op.Shape[2]/channels, rows*op.Out[2]
		return func(b int, _, _ []float32, _ *worker) {
			x, y, arg := n.value(in, b), n.value(out, b), n.picked(i, b)
			for c := range channels {
				vec.MaxPool2(y[c*pooled:], arg[c*pooled:], x[c*plane:(c+1)*plane], rows, op.Out[2], op.Shape[2], win.StrideH*op.Shape[2], win.StrideW, c*plane)
			}
		}
	}
	return func(b int, _, _ []float32, _ *worker) {
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

func (n *net) averages(i int) func(int, []float32, []float32, *worker) {
	op := &n.program.Ops[i]
	in, out := op.In[0], ir.Value(i+1)
	return func(b int, _, _ []float32, _ *worker) {
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
