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

// gradientThreads is the block of the kernels of a gradient.
func gradientThreads(rows int) int { return min(4*rows, 128) }

func conv(module, name string, grid [3]int, threads int, args ...[]uint64) Launch {
	l := Launch{Module: module, Name: name, Grid: grid, Block: [3]int{threads, 1, 1}}
	for _, a := range args {
		l.Args = append(l.Args, a...)
	}
	return l
}

// ConvForward is y[b][o][p] = (Σ_k w[o][k]·column[b][k][p]) + bias[o]: fused operations
// in the order of the taps k from zero, then the bias; bias 0 is none. Taps that read padding may be left out.
func ConvForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return ConvActivated(b, op, noActivation, x, w, bias, y)
}

// ConvActivated is ConvForward and behind it an activation, where FusesForward says so.
func ConvActivated(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	if stencils(op) {
		return stencil(b, op, "forward", op.Shape, op.Out, b.args(x, w, bias, y, I(int(act))))
	}
	return columnsForward(b, op, act, x, w, bias, y)
}

// columnsForward is ConvActivated of any window, and on tensor cores.
func columnsForward(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	out, _, positions := op.Columns()
	rows := tileRows(out)
	return conv("conv", fmt.Sprint("conv_forward_", rows), [3]int{ceil(b.Capacity*positions, 64), ceil(out, rows), 1}, 64,
		b.args(x, w, bias, y, I(int(act))), geometry(op))
}

// ConvInputGrad is the gradient at the input, dx[b][c][i][j] = Σ weights[o][c][u][v]·dy[b][o][p], over the
// filters o in order and for each over its taps (u, v) in row-major order where a position p exists that reads
// (i, j) through the tap: fused from zero. Where add is set, the sum is added to what dx has.
func ConvInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool) Launch {
	return convInputGrad(b, op, dy, weights, dx, add, 0)
}

// ConvInputGradThrough takes the gradient on through the activation that gave the op's input x, to the
// activation's input, where FusesBackward says so.
func ConvInputGradThrough(b Batch, op *ir.Op, x, dy, weights, dx Ptr) Launch {
	return convInputGrad(b, op, dy, weights, dx, false, x)
}

func convInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool, x Ptr) Launch {
	if stencils(op) {
		return stencil(b, op, "input_grad", op.Out, op.Shape, b.args(dy, weights, dx, flag(add), x))
	}
	return columnsInputGrad(b, op, dy, weights, dx, add, x)
}

// columnsInputGrad is convInputGrad of any window, and on tensor cores.
func columnsInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool, x Ptr) Launch {
	rows := tileRows(op.Shape[0])
	w := op.Window
	// Pixels that lie a stride apart are read through the same taps: a block has pixels of one such phase. The first is the largest.
	pixels := ceil(op.Shape[1], w.StrideH) * ceil(op.Shape[2], w.StrideW)
	grid := [3]int{ceil(b.Capacity*pixels, 64), ceil(op.Shape[0], rows) * w.StrideH * w.StrideW, 1}
	return conv("conv", fmt.Sprint("conv_input_grad_", rows), grid, 64, b.args(dy, weights, dx, flag(add), x), geometry(op))
}

// ConvStore keeps each example's gradient at kept[b·stride…]: out×k values in the order of
// the weights, Σ_p dy[b][o][p]·column[b][k][p], then, where the op has a bias, Σ_p dy[b][o][p] for each filter.
// Sums over positions go in blocks of PositionBlock, fused in order from zero, and the blocks are added in order, all in
// float32. The squared norm of what is kept is added, in float64, to ConvNorms parts of it, norm2[part·capacity + b]: each
// belongs to a block of threads. stride counts float32 values.
func ConvStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	rows := tileRows(op.Out[0])
	return conv("convgrad", fmt.Sprint("conv_store_", rows), [3]int{b.Capacity, ConvNorms(op), 1}, gradientThreads(rows),
		b.args(x, dy, kept, I(stride), norm2, flag(op.Bias != ir.None)), geometry(op))
}

// mostNorms bounds the blocks that share one example's gradient, and with them the parts of its squared norm.
const mostNorms = 8

// ConvNorms is the number of parts in which ConvStore and ConvNorm give a squared norm: the blocks that share the tiles of
// an example's gradient, so that few examples keep a GPU busy.
func ConvNorms(op *ir.Op) int {
	out, k, _ := op.Columns()
	if op.Bias != ir.None {
		k++
	}
	return min(ceil(k, 64)*ceil(out, tileRows(out)), mostNorms)
}

// ConvNorm adds the squared norm to norm2 as ConvStore does without keeping the gradient. It is
// of the very values that ConvStore keeps and that ConvSum computes again.
func ConvNorm(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	return ConvStore(b, op, x, dy, 0, 0, norm2)
}

// ConvSum computes each example's gradient as ConvStore does, completes it, and adds
// it times its factor to a partial sum: fused float32 operations from zero over the examples of
// a block of ExampleBlock, in order. A factor that is not above zero leaves the example out. Block g's sums are written to
// parts[g·stride…], weights then bias, zeros where no example is live, for every block of the capacity. SumParts must follow.
// stride counts float32 values.
func ConvSum(b Batch, op *ir.Op, x, dy, factors Ptr, parts Ptr, stride int) Launch {
	out, k, _ := op.Columns()
	cols := k
	if op.Bias != ir.None {
		cols++
	}
	rows := tileRows(out)
	return conv("convgrad", fmt.Sprint("conv_sum_", rows), [3]int{ceil(cols, 64) * ceil(out, rows), ceil(b.Capacity, ExampleBlock), 1}, gradientThreads(rows),
		b.args(x, dy, factors, parts, I(stride), flag(op.Bias != ir.None)), geometry(op))
}

// ConvParts is the number of partial sums that ConvSum writes.
func ConvParts(capacity int) int { return ceil(capacity, ExampleBlock) }

// SumParts adds n partial sums of size values each, in order and in float64, to the float64 values sum[j].
// The caller calls it for the weights and for the bias, which lie after them in a part (parts + 4·out·k).
func SumParts(parts Ptr, stride, n, size int, sum Ptr) Launch {
	return Launch{
		Module: "convgrad", Name: "sum_parts",
		Grid: [3]int{ceil(size, 256), 1, 1}, Block: [3]int{256, 1, 1},
		Args: []uint64{parts, I(stride), I(n), I(size), sum},
	}
}
