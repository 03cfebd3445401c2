package kernels

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// of is the precision that an op's products have: float32 where no kernel multiplies them on tensor cores. In tf32 these are the
// convolutions by 3×3 windows that fill a tile; the others are faster in float32.
func (m Math) of(op *ir.Op) Math {
	if m.windows() && !windows(op) {
		return Math(device.Float32)
	}
	return m
}

// TensorCores reports whether any of some ops is on them.
func (m Math) TensorCores(ops []ir.Op) bool {
	return slices.ContainsFunc(ops, func(op ir.Op) bool {
		return (op.Kind == ir.Dense || op.Kind == ir.Conv) && !m.of(&op).plain()
	})
}

// windows says that what is on tensor cores is in conv3_tf32.cu.
func (m Math) windows() bool { return device.Precision(m) == device.TF32 }

// windows reports whether conv3_tf32.cu has a convolution.
func windows(op *ir.Op) bool {
	return op.Kind == ir.Conv && op.Window == ir.Square(3, 1, 1) && windowRows(op) > 0 && fits3(op)
}

// fits3 reports whether a block's part of an image has room in shared memory.
func fits3(op *ir.Op) bool {
	_, slots := rowsOf3(op)
	return slots*(op.Shape[2]+stencilMargin)+stencilMargin <= planeOf3
}

// What conv3_tf32.cu has in a block: strips of eight pixels, and of each plane so many values.
const (
	stripsOf3 = 16
	planeOf3  = 264
)

// linesOf3 chooses how many filters or channels a block has; the order of a sum does not depend on it.
func linesOf3(n int) int {
	if ceil(n, 32)%2 == 1 {
		return 32
	}
	return 64
}

// rowsOf3 are the rows of a block, and the rows of images that they read.
func rowsOf3(op *ir.Op) (rows, slots int) {
	h, w := op.Shape[1], op.Shape[2]
	rows = stripsOf3 / (w / 8)
	between := (h + rows - 2) / h // examples that end before the last row of a block, at most
	switch {
	case h%rows == 0:
		between = 0
	case rows%h == 0:
		between = rows/h - 1
	}
	return rows, rows + 2*(1+between)
}

// ConvWeights lays weights out for ConvActivated, or turned for input gradients, where these take them otherwise than the op has them: count
// values. Else there are none to lay out.
func (m Math) ConvWeights(op *ir.Op, turned bool, w, to Ptr) (l Launch, count int) {
	if m.of(op).plain() || !m.windows() {
		return Launch{}, 0
	}
	lines, terms := op.Out[0], op.Shape[0]
	if turned {
		lines, terms = terms, lines
	}
	count = ceil(lines, linesOf3(lines)) * linesOf3(lines) * ceil(terms, 8) * 8 * 9
	return line("conv3_tf32", "conv3_weights", ceil(count, 256), 256, w, to, I(op.Shape[0]), I(op.Out[0]), I(linesOf3(lines)), flag(turned), I(count)), count
}

// sums3 launches sums of so many lines for every pixel.
func sums3(b Batch, op *ir.Op, name string, lines int, args []uint64) Launch {
	rows, slots := rowsOf3(op)
	block := linesOf3(lines)
	l := conv("conv3_tf32", fmt.Sprint(name, "_", block), [3]int{ceil(b.Capacity*op.Shape[1], rows), ceil(lines, block), 1}, tensorThreads,
		args, []uint64{I(slots)}, geometry(op))
	l.Shared = 4 * (2*8*(9*block+planeOf3) + 2*slots*op.Shape[2]/4)
	return l
}

// gradients3 is gradientsOf for conv3_tf32.cu, whose tiles are those in float32.
func gradients3(op *ir.Op) gradients {
	g, w := gradientsOf(op), op.Shape[2]
	plane := ceil((64/w+2)*(w+stencilMargin), 32)*32 + 4
	g.module, g.shared = "conv3_tf32", 4*windowSide*(2*(plane+64+4)+windowSide*9+4)
	return g
}
