package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// Functions here are those of the same names for values in pixels, of a precision below float32. They compute in float32 as those do, and round what they
// write once to the precision, also a sum with what was there before. Addresses are multiples of 16.

// pixelwise is a launch whose threads have a unit each.
func (m Math) pixelwise(name string, b Batch, op *ir.Op, args []uint64, more ...uint64) Launch {
	size := Pixels.Elements(op.Out)
	args = append(b.args(args...), I(size))
	return line("pixelwise", m.inPixels(name), ceil(b.Capacity*size, m.unit()*pointwiseThreads), pointwiseThreads, append(args, more...)...)
}

// unit is how many elements of pixels are 16 bytes.
func (m Math) unit() int { return 16 / m.ElementBytes(Pixels) }

// Activation is the function of this name, in pixels; its errors come before the rounding to the precision.
func (m Math) Activation(b Batch, op *ir.Op, x, y Ptr) (Launch, error) {
	if !op.Kind.Activation() {
		return Launch{}, fmt.Errorf("%s is no activation", op.Kind)
	}
	more := slope(op)
	if op.Kind == ir.Sigmoid { // whose zero is no zero
		_, channels := area(op.Out)
		more = append(more, I(channels))
	}
	return m.pixelwise(op.Kind.String()+"_forward", b, op, []uint64{x, y}, more...), nil
}

// ActivationGrad is the function of this name, in pixels, from the output y as it was rounded.
func (m Math) ActivationGrad(b Batch, op *ir.Op, y, dy, dx Ptr, add bool) (Launch, error) {
	if !op.Kind.Activation() {
		return Launch{}, fmt.Errorf("%s is no activation", op.Kind)
	}
	return m.pixelwise(op.Kind.String()+"_grad", b, op, []uint64{y, dy, dx, flag(add)}, slope(op)...), nil
}

// GELU is the function of this name for an op's value in pixels.
func (m Math) GELU(b Batch, op *ir.Op, x, y Ptr) Launch {
	return m.pixelwise("gelu_forward", b, op, []uint64{x, y})
}

// GELUGrad is the function of this name for an op's value in pixels.
func (m Math) GELUGrad(b Batch, op *ir.Op, x, dy, dx Ptr, add bool) Launch {
	return m.pixelwise("gelu_grad", b, op, []uint64{x, dy, dx, flag(add)})
}

// Add is y = x0 + x1 in pixels, behind it ReLU where act is it.
func (m Math) Add(b Batch, op *ir.Op, act ir.Kind, x0, x1, y Ptr) Launch {
	return m.pixelwise("add", b, op, []uint64{x0, x1, y, I(int(act))})
}

// AddGrad is the function of this name, in pixels.
func (m Math) AddGrad(b Batch, op *ir.Op, dy, dx Ptr, add bool) Launch {
	return m.pixelwise("add_grad", b, op, []uint64{dy, dx, flag(add)})
}
