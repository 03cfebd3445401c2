package kernels

import "github.com/privgrad/privgrad/internal/ir"

const halfRowThreads = 256 // rows.cu has the same

// Unit brings a whole value to the length op.Norm; zeros stay zeros. The sum of squares is float64: element i in lane i mod 256, in order,
// then the lanes in a tree of halves.
func Unit(b Batch, op *ir.Op, x, y Ptr) Launch {
	return line("rows", "unit", b.Capacity, halfRowThreads, b.args(x, y, D(op.Norm), I(ir.Size(op.Shape)))...)
}

// Rows makes a table of values: rows of size halves at y, rounded to nearest and ties to even, with the targets that go with them at to. A row
// that is not finite as halves is all NaN, and its target is NaN.
func Rows(b Batch, size int, x, targets, y, to Ptr) Launch {
	return line("rows", "rows", b.Capacity, halfRowThreads, b.args(x, targets, y, to, I(size))...)
}
