package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

const poolThreads = 256

// pool launches the form of a kernel that fits an op best. They compute the same bits.
func pool(name string, b Batch, op *ir.Op, elements int, args ...uint64) Launch {
	w := op.Window
	square := w.H == w.W && w.StrideH == w.StrideW && w.PadTop+w.PadBottom+w.PadLeft+w.PadRight == 0
	switch at := [2]int{w.H, w.StrideH}; {
	case square && at == [2]int{2, 2} && op.Shape[1]%2 == 0 && op.Shape[2]%4 == 0:
		name, elements = name+"_pair", ir.Size(op.Shape)/8
	case square && (at == [2]int{2, 1} || at == [2]int{2, 2} || at == [2]int{3, 2}):
		name = fmt.Sprintf("%s_%d_%d", name, w.H, w.StrideH)
	}
	return line("pool", name, ceil(b.Capacity*elements, poolThreads), poolThreads, append(b.args(args...), geometry(op)...)...)
}

// MaxPool is the largest value of each window. Padding never wins; of equal values,
// and where one is NaN, the first in row-major order that no later one exceeds.
func MaxPool(b Batch, op *ir.Op, x, y Ptr) Launch {
	return pool("max_pool", b, op, ir.Size(op.Out), x, y)
}

// MaxPoolGrad gives each window's dy to the element that MaxPool took, found again from x. An element
// adds what it gets in the order of the windows, to zero or, where add is set, to what dx has.
func MaxPoolGrad(b Batch, op *ir.Op, x, dy, dx Ptr, add bool) Launch {
	return pool("max_pool_grad", b, op, ir.Size(op.Shape), x, dy, dx, flag(add), I(int(noActivation)))
}

// PoolGradThrough is MaxPoolGrad or AvgPoolGrad, and takes the gradient on through the activation that gave the pool's input
// x, to the activation's input.
func PoolGradThrough(b Batch, op *ir.Op, act ir.Kind, x, dy, dx Ptr) Launch {
	name := "max_pool_grad"
	if op.Kind == ir.AvgPool {
		name = "avg_pool_grad"
	}
	return pool(name, b, op, ir.Size(op.Shape), x, dy, dx, flag(false), I(int(act)))
}

// AvgPool is the mean over each window, padding counted as zeros: the sum in row-major order, divided by the area.
func AvgPool(b Batch, op *ir.Op, x, y Ptr) Launch {
	return pool("avg_pool", b, op, ir.Size(op.Out), x, y)
}

// AvgPoolGrad gives an element the sum of dy over the windows that read it, in their order, divided by the area; where
// add is set, it is added to what dx has. Addresses are multiples of 16.
func AvgPoolGrad(b Batch, op *ir.Op, dy, dx Ptr, add bool) Launch {
	return pool("avg_pool_grad", b, op, ir.Size(op.Shape), 0, dy, dx, flag(add), I(int(noActivation)))
}
