package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// turn.cu has the same.
const (
	turnThreads = 256
	turnNumbers = 2048
)

// turn launches a kernel whose blocks turn tiles of examples around, which lie stride elements apart in planes.
func (m Math) turn(name string, b Batch, shape []int, stride int, x, y Ptr, add bool) Launch {
	pixels, channels := area(shape)
	wide := eight
	if channels > eight {
		wide = 4 * eight
	}
	return Launch{
		Module: "turn", Name: m.inPixels(fmt.Sprint(name, "_", wide)),
		Grid: [3]int{b.Capacity, ceil(channels, wide) * ceil(pixels, turnNumbers/wide), 1}, Block: [3]int{turnThreads, 1, 1},
		Args: b.args(x, y, flag(add), I(stride), I(channels), I(pixels)),
	}
}

// vector is that of values of one pixel, whose order is the same in both layouts.
func (m Math) vector(name string, b Batch, n int, x, y Ptr, add bool) Launch {
	return line("turn", m.inPixels(name), ceil(b.Capacity*padded(n), m.unit()*turnThreads), turnThreads, b.args(x, y, flag(add), I(n))...)
}

// ToPixels writes a value x of a shape, in planes, to y in pixels, rounded to nearest. Where add is set, it is added to what y has, and
// the sum is rounded. Addresses are multiples of 16, here and below.
func (m Math) ToPixels(b Batch, shape []int, x, y Ptr, add bool) Launch {
	if n, c := area(shape); n == 1 {
		return m.vector("to_vector", b, c, x, y, add)
	}
	return m.turn("to_pixels", b, shape, ir.Size(shape), x, y, add)
}

// FromPixels writes a value x of a shape, in pixels, to y in planes, where nothing rounds. Where add is set, it is added to what y has.
func (m Math) FromPixels(b Batch, shape []int, x, y Ptr, add bool) Launch {
	if n, c := area(shape); n == 1 {
		return m.vector("from_vector", b, c, x, y, add)
	}
	return m.turn("from_pixels", b, shape, ir.Size(shape), x, y, add)
}

// Flat makes a vector y of an image x of a shape (C,H,W), both in pixels: its elements are in the order of planes, as weights of dense ops
// take them.
func (m Math) Flat(b Batch, shape []int, x, y Ptr) Launch {
	return m.turn("flat", b, shape, padded(ir.Size(shape)), x, y, false)
}

// FlatGrad takes a gradient dy at Flat's vector to dx at its image. Where add is set, it is added to what dx has.
func (m Math) FlatGrad(b Batch, shape []int, dy, dx Ptr, add bool) Launch {
	return m.turn("flat_grad", b, shape, padded(ir.Size(shape)), dy, dx, add)
}
