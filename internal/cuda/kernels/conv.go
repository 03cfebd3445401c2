package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// Images lie channels, rows, columns; weights (out, channels, window rows, window
// columns), a row of which is a filter's k taps in order. P is the number of output
// positions, in row-major order. Padding counts as zeros.

// geometry is what the C side reads as Geometry.
func geometry(op *ir.Op) []uint64 {
	w := op.Window
	var args []uint64
	for _, n := range []int{
		op.Shape[0], op.Shape[1], op.Shape[2], op.Out[0], op.Out[1], op.Out[2],
		w.H, w.W, w.StrideH, w.StrideW, w.PadTop, w.PadLeft, w.DilationH, w.DilationW,
	} {
		args = append(args, I(n))
	}
	return args
}

// tileRows chooses the rows of the tile for so many filters or channels; the order of a sum does not depend on it.
func tileRows(n int) int {
	switch {
	case n <= 16:
		return 16
	case n <= 32:
		return 32
	default:
		return 64
	}
}

func conv(module, name string, grid [3]int, threads int, args ...[]uint64) Launch {
	l := Launch{Module: module, Name: name, Grid: grid, Block: [3]int{threads, 1, 1}}
	for _, a := range args {
		l.Args = append(l.Args, a...)
	}
	return l
}

// ConvForward is ConvActivated without an activation.
func ConvForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return ConvActivated(b, op, noActivation, x, w, bias, y)
}

// ConvActivated is y[b][o][p] = (Σ_k w[o][k]·column[b][k][p]) + bias[o]: fused operations
// in the order of the taps k from zero, then the bias; bias 0 is none. Taps that read padding may be left out. Behind it
// is an activation, where FusesForward says so.
func ConvActivated(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	if stencils(op) {
		return stencil(b, op, "forward", op.Shape, op.Out, b.args(x, w, bias, y, I(int(act))))
	}
	return columnsForward(b, op, act, x, w, bias, y)
}

// columnsForward is ConvActivated of any window.
func columnsForward(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	out, _, positions := op.Columns()
	rows := tileRows(out)
	return conv("conv", fmt.Sprint("conv_forward_", rows), [3]int{ceil(b.Capacity*positions, 64), ceil(out, rows), 1}, 64,
		b.args(x, w, bias, y, I(int(act))), geometry(op))
}

// ConvInputGrad is convInputGrad through no activation, ConvInputGradThrough that through the ReLU that gave x.
func ConvInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool) Launch {
	return convInputGrad(b, op, dy, weights, dx, add, 0)
}
func ConvInputGradThrough(b Batch, op *ir.Op, x, dy, weights, dx Ptr) Launch {
	return convInputGrad(b, op, dy, weights, dx, false, x)
}

// convInputGrad is the gradient at the input, dx[b][c][i][j] = Σ weights[o][c][u][v]·dy[b][o][p], over the
// filters o in order and for each over its taps (u, v) in row-major order where a position p exists that reads
// (i, j) through the tap: fused from zero. Where add is set, the sum is added to what dx has. It takes the gradient on
// through the ReLU that gave x, 0 for none.
func convInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool, x Ptr) Launch {
	if stencils(op) {
		return stencil(b, op, "input_grad", op.Out, op.Shape, b.args(dy, weights, dx, flag(add), x))
	}
	return columnsInputGrad(b, op, dy, weights, dx, add, x)
}

// columnsInputGrad is convInputGrad of any window.
func columnsInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool, x Ptr) Launch {
	rows := tileRows(op.Shape[0])
	w := op.Window
	// Pixels that lie a stride apart are read through the same taps: a block has pixels of one such phase. The first is the largest.
	pixels := ceil(op.Shape[1], w.StrideH) * ceil(op.Shape[2], w.StrideW)
	grid := [3]int{ceil(b.Capacity*pixels, 64), ceil(op.Shape[0], rows) * w.StrideH * w.StrideW, 1}
	return conv("conv", fmt.Sprint("conv_input_grad_", rows), grid, 64, b.args(dy, weights, dx, flag(add), x), geometry(op))
}
