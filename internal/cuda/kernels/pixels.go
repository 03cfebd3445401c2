package kernels

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Layout is how a value's elements lie in memory.
type Layout uint8

const (
	// Planes are float32, [example][channel][row][column], or [example][element].
	Planes Layout = iota
	// Pixels are [example][row][column][channel] with the channels rounded up to a multiple of 8, zeros where none exist; a vector is
	// an image of one pixel. Elements are what tensor cores take: float32 words rounded to tf32, or two bytes of bf16.
	// pixels.cuh is the C side.
	Pixels
)

// eight is what channels are rounded up to.
const eight = 8

func padded(n int) int { return ceil(n, eight) * eight }

// area is the number of pixels of a value, and the channels of each.
func area(shape []int) (pixels, channels int) {
	if len(shape) == 3 {
		return shape[1] * shape[2], shape[0]
	}
	return 1, ir.Size(shape)
}

// Elements is how many elements an example has of a value of a shape.
func (l Layout) Elements(shape []int) int {
	if l == Planes {
		return ir.Size(shape)
	}
	n, c := area(shape)
	return n * padded(c)
}

// ElementBytes is the size of an element of a layout.
func (m Math) ElementBytes(l Layout) int {
	if l == Pixels && device.Precision(m) == device.BF16 {
		return 2
	}
	return 4
}

// ValueBytes is the memory of an example's value.
func (m Math) ValueBytes(l Layout, shape []int) int { return l.Elements(shape) * m.ElementBytes(l) }

// inPixels is the module's name with the suffix of the precision, for kernels that are made of one source for both.
func (m Math) inPixels(module string) string { return module + "_" + device.Precision(m).String() }
