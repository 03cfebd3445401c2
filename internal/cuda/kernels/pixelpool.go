package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// pixelpool.cu has the same.
const pixelPoolThreads = 256

// wholeUnits is the most units that a block has of a pool over the whole image.
const wholeUnits = 32

// form is how a pool's windows lie.
type form uint8

const (
	anyForm    form = iota
	twoForm         // 2×2 windows side by side, which fill the image
	wholeForm       // one window, which is the image
	squareForm      // windows of 2×2 a pixel apart, or of 3×3 two pixels, without padding
)

func formOf(op *ir.Op) form {
	w := op.Window
	if w.PadTop+w.PadBottom+w.PadLeft+w.PadRight > 0 {
		return anyForm
	}
	switch {
	case w.H == op.Shape[1] && w.W == op.Shape[2]:
		return wholeForm
	case w.H == 2 && w.W == 2 && w.StrideH == 2 && w.StrideW == 2 && op.Shape[1]%2+op.Shape[2]%2 == 0:
		return twoForm
	case w.H == w.W && w.StrideH == w.StrideW && (w.H == 2 && w.StrideH == 1 || w.H == 3 && w.StrideH == 2):
		return squareForm
	}
	return anyForm
}

// pixelPool launches a kernel whose threads have a unit each of values of a shape.
func (m Math) pixelPool(name string, b Batch, op *ir.Op, shape []int, args ...uint64) Launch {
	blocks := ceil(b.Capacity*Pixels.Elements(shape), m.unit()*pixelPoolThreads)
	return line("pixelpool", m.inPixels(name), blocks, pixelPoolThreads, append(b.args(args...), geometry(op)...)...)
}

// pixelPoolWhole launches a kernel whose blocks have some units of one example.
func (m Math) pixelPoolWhole(name string, b Batch, op *ir.Op, args ...uint64) Launch {
	l := m.pixelPool(name, b, op, op.Out, args...)
	l.Grid = [3]int{b.Capacity, ceil(padded(op.Shape[0])/m.unit(), wholeUnits), 1}
	return l
}

// MaxPool is the function of this name, in pixels.
func (m Math) MaxPool(b Batch, op *ir.Op, x, y Ptr) Launch {
	if formOf(op) == wholeForm {
		return m.pixelPoolWhole("max_pool_whole", b, op, x, y)
	}
	return m.pixelPool("max_pool", b, op, op.Out, x, y)
}

// AvgPool is the function of this name, in pixels: a sum in float32, which is rounded once after the division. That of a window that is the whole
// image takes every so many pixels in order, then these sums in a tree of halves.
func (m Math) AvgPool(b Batch, op *ir.Op, x, y Ptr) Launch {
	if formOf(op) == wholeForm {
		return m.pixelPoolWhole("avg_pool_whole", b, op, x, y)
	}
	return m.pixelPool("avg_pool", b, op, op.Out, x, y)
}

// MaxPoolGrad is the function of this name, in pixels: an element's sum is rounded once.
func (m Math) MaxPoolGrad(b Batch, op *ir.Op, x, dy, dx Ptr, add bool) Launch {
	return m.maxPoolGrad(b, op, noActivation, x, dy, dx, add)
}

func (m Math) maxPoolGrad(b Batch, op *ir.Op, act ir.Kind, x, dy, dx Ptr, add bool) Launch {
	args := []uint64{x, dy, dx, flag(add), I(int(act))}
	switch formOf(op) {
	case wholeForm:
		return m.pixelPoolWhole("max_pool_grad_whole", b, op, args...)
	case twoForm:
		return m.pixelPool("max_pool_grad_two", b, op, op.Out, args...)
	}
	name := "max_pool_grad"
	if w := op.Window; formOf(op) == squareForm {
		name = fmt.Sprint(name, "_", w.H, "_", w.StrideH)
	}
	return m.pixelPool(name, b, op, op.Shape, args...)
}

// AvgPoolGrad is the function of this name, in pixels.
func (m Math) AvgPoolGrad(b Batch, op *ir.Op, dy, dx Ptr, add bool) Launch {
	return m.avgPoolGrad(b, op, noActivation, 0, dy, dx, add)
}

func (m Math) avgPoolGrad(b Batch, op *ir.Op, act ir.Kind, x, dy, dx Ptr, add bool) Launch {
	return m.pixelPool("avg_pool_grad", b, op, op.Shape, x, dy, dx, flag(add), I(int(act)))
}

// PoolGradThrough is the function of this name, in pixels.
func (m Math) PoolGradThrough(b Batch, op *ir.Op, act ir.Kind, x, dy, dx Ptr) Launch {
	if op.Kind == ir.AvgPool {
		return m.avgPoolGrad(b, op, act, x, dy, dx, false)
	}
	return m.maxPoolGrad(b, op, act, x, dy, dx, false)
}
