package kernels

import "github.com/privgrad/privgrad/internal/ir"

const deskewWarps = 8 // of a block; deskew.cu has the same

// Deskew shears images upright, as ir.Deskew says. Moments of an image, and by how much a line moves, are float64: a warp adds element i in
// lane i mod 32, in order, then the lanes in a tree of halves.
func Deskew(b Batch, op *ir.Op, x, y Ptr) Launch {
	return line("deskew", "deskew", ceil(b.Capacity, deskewWarps), deskewWarps*warp, b.args(x, y, I(op.Shape[1]), I(op.Shape[2]), I(ir.Size(op.Shape)))...)
}
