package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

const pointwiseThreads = 256

// Errors of the activations in units in the last place.
const (
	TanhError    = 2
	SigmoidError = 2.5
)

func pointwise(name string, b Batch, op *ir.Op, args ...uint64) Launch {
	size := ir.Size(op.Out)
	return line("pointwise", name, ceil(b.Capacity*size, pointwiseThreads), pointwiseThreads, append(b.args(args...), I(size))...)
}

// slope is a leaky ReLU's.
func slope(op *ir.Op) []uint64 {
	if op.Kind == ir.LeakyReLU {
		return []uint64{F(op.Slope)}
	}
	return nil
}

// Activation is y = max(x, 0), max(x, slope·x), with NaN for NaN, tanh x or 1/(1+exp(−x)). The latter two
// err by at most TanhError and SigmoidError units in the last place.
func Activation(b Batch, op *ir.Op, x, y Ptr) (Launch, error) {
	if !op.Kind.Activation() {
		return Launch{}, fmt.Errorf("%s is no activation", op.Kind)
	}
	return pointwise(op.Kind.String()+"_forward", b, op, append([]uint64{x, y}, slope(op)...)...), nil
}

// ActivationGrad is dx = dy·f′, f′ from the output y: 1 above zero and 0, or the slope, elsewhere, 1−y², or y·(1−y). Where add is set, it is
// added to what dx has.
func ActivationGrad(b Batch, op *ir.Op, y, dy, dx Ptr, add bool) (Launch, error) {
	if !op.Kind.Activation() {
		return Launch{}, fmt.Errorf("%s is no activation", op.Kind)
	}
	return pointwise(op.Kind.String()+"_grad", b, op, append([]uint64{y, dy, dx, flag(add)}, slope(op)...)...), nil
}

// Add is y = x0 + x1.
func Add(b Batch, op *ir.Op, x0, x1, y Ptr) Launch { return pointwise("add", b, op, x0, x1, y) }

// AddGrad passes dy on to one of Add's inputs: dx = dy, or dx += dy where add is set. An
// input that is read twice gets it twice.
func AddGrad(b Batch, op *ir.Op, dy, dx Ptr, add bool) Launch {
	return pointwise("add_grad", b, op, dy, dx, flag(add))
}
