package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/plan"
)

// Weights lie (out, in) as the parameters do. x, y, dx and dy are values of the
// op's input and output and their gradients. A Ptr of 0 for a bias is none.

// DenseForward is y[b][o] = (Σ_i x[b][i]·w[o][i]) + bias[o]: fused operations in the
// order of i from zero, then the bias.
func DenseForward(b Batch, op *plan.Op, x, w, bias, y Ptr) Launch {
	out, in, _ := op.Columns()
	l := denseTiles("dense_forward", b.Capacity, out)
	if out <= 16 {
		l.Name, l.Grid[1] = "dense_forward_16", 1
	}
	l.Args = b.args(x, w, bias, y, I(in), I(out))
	return l
}

// DenseInputGrad is dx[b][i] = Σ_o dy[b][o]·w[o][i], fused in the order of o from zero;
// where add is set, the sum is added to what dx has.
func DenseInputGrad(b Batch, op *plan.Op, dy, w, dx Ptr, add bool) Launch {
	out, in, _ := op.Columns()
	l := denseTiles("dense_input_grad", b.Capacity, in)
	l.Args = b.args(dy, w, dx, I(in), I(out), flag(add))
	return l
}

// denseTiles chooses the tile; the order of a sum does not depend on it.
func denseTiles(name string, rows, cols int) Launch {
	l := Launch{Module: "gemm", Name: name + "_64", Grid: [3]int{ceil(rows, 64), ceil(cols, 64), 1}, Block: [3]int{64, 1, 1}}
	if rows >= 128 && cols >= 128 {
		l.Name, l.Grid, l.Block[0] = name+"_128", [3]int{ceil(rows, 128), ceil(cols, 128), 1}, 256
	}
	return l
}

// DenseSum adds Σ_b f_b·dy[b][o]·x[b][i] to the float64 values sumW[o][i], and, where the op has a bias,
// Σ_b f_b·dy[b][o] to sumB[o]. factors has one float32 an example; one that is not
// above zero leaves the example out, whatever its values are. f·dy is rounded to
// float32 first, and left out where it overflows, as it may under automatic clipping. Within blocks of ExampleBlock examples fused float32 operations add in
// order from zero; the blocks' sums are added up in float64 in order, from zero, and their total to the sum.
func DenseSum(b Batch, op *plan.Op, x, dy, factors Ptr, sumW, sumB Ptr) Launch {
	out, in, _ := op.Columns()
	cols := in
	if op.Bias != plan.None {
		cols++ // the bias's column is one of ones
	}
	rows, threads := 64, 128
	if out <= 16 {
		rows, threads = 16, 64
	}
	return Launch{
		Module: "gemm", Name: fmt.Sprint("dense_sum_", rows),
		Grid: [3]int{ceil(cols, 64), ceil(out, rows), 1}, Block: [3]int{threads, 1, 1},
		Args: b.args(x, dy, factors, sumW, sumB, I(in), I(cols), I(out)),
	}
}

// ExampleBlock is how many examples a float32 partial sum holds at most.
const ExampleBlock = 32

// DenseStore keeps each example's gradient, kept[b·stride + o·in + i] = dy[b][o]·x[b][i] rounded
// once, then dy itself where the op has a bias, and adds the squared norm of what it keeps, in float64, to norm2[b].
// A live example's stretch of kept is written in full; stride counts float32 values.
func DenseStore(b Batch, op *plan.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	out, in, _ := op.Columns()
	return Launch{
		Module: "gemm", Name: "dense_store",
		Grid: [3]int{b.Capacity, 1, 1}, Block: [3]int{256, 1, 1},
		Args: b.args(x, dy, kept, I(stride), norm2, I(in), I(out), flag(op.Bias != plan.None)),
	}
}
