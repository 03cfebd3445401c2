package kernels

import "github.com/privgrad/privgrad/internal/ir"

// What an op of front ends makes of an example is the same bits wherever the example stands.

func front(name string, b Batch, size int, args ...uint64) Launch {
	return line("front", name, ceil(b.Capacity*size, pointwiseThreads), pointwiseThreads, append(b.args(args...), I(size))...)
}

// Reflect pads images by their mirror images, as ir.Reflect says.
func Reflect(b Batch, op *ir.Op, x, y Ptr) Launch {
	w := op.Window
	return front("reflect", b, ir.Size(op.Out), x, y, I(op.Shape[1]), I(op.Shape[2]), I(w.PadTop), I(w.PadLeft), I(op.Out[1]), I(op.Out[2]))
}

// Concat copies one of the values that an ir.Concat joins, of so many elements, to behind those before it, of so many elements together.
func Concat(b Batch, op *ir.Op, x Ptr, size, before int, y Ptr) Launch {
	return front("concat", b, size, x, y, I(size/op.Groups), I(before/op.Groups), I(ir.Size(op.Shape)/op.Groups))
}

// Pick is y[i] = x[index[i]], with the op's int32 Index in device memory.
func Pick(b Batch, op *ir.Op, x, index, y Ptr) Launch {
	return front("pick", b, ir.Size(op.Out), x, index, y, I(ir.Size(op.Shape)))
}

// AffineAxes is how many axes Affine has.
const AffineAxes = 3

// Affine is y = x·weight + bias, fused, with constants of these shapes that repeat along axes; 0 is a weight of 1, or a bias of 0. The op's
// shape has at most AffineAxes axes.
func Affine(b Batch, op *ir.Op, x, weight Ptr, weightShape []int, bias Ptr, biasShape []int, y Ptr) Launch {
	shape := [AffineAxes]int{1, 1, 1}
	copy(shape[AffineAxes-len(op.Shape):], op.Shape)
	args := append([]uint64{x, weight}, repeated(weightShape)...)
	args = append(append(args, bias), repeated(biasShape)...)
	return front("affine", b, ir.Size(op.Out), append(args, y, I(shape[1]), I(shape[2]))...)
}

// repeated are the strides of a constant: 0 along axes on which it repeats.
func repeated(shape []int) []uint64 {
	strides := make([]uint64, AffineAxes)
	for k, stride := len(shape)-1, 1; k >= 0; k-- {
		if shape[k] > 1 {
			strides[AffineAxes-len(shape)+k] = I(stride)
			stride *= shape[k]
		}
	}
	return strides
}

// Divide is every channel of x over the one plane by.
func Divide(b Batch, op *ir.Op, x, by, y Ptr) Launch {
	return front("divide", b, ir.Size(op.Out), x, by, y, I(ir.Size(op.Shape)/op.Shape[0]))
}

// Modulus is √(re² + im²) of complex numbers, as ir.Modulus says where their parts lie. Beyond a modulus of 2⁶⁴ it is infinite.
func Modulus(b Batch, op *ir.Op, x, y Ptr) Launch {
	return front("modulus", b, ir.Size(op.Out), x, y, I(ir.Size(op.Out)/op.Groups))
}
