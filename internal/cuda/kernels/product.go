package kernels

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// A library's products are of whole buffers: it does not know which examples are
// live. These kernels are around them.

const productThreads = 256

// ProductBlock is how many examples one float32 product of a library adds at most.
const ProductBlock = 64

// Line is a row's length in the operands of such a product: what a row has, up to a
// multiple of 16 bytes.
func Line(values int) int { return ceil(values, 4) * 4 }

func productGrid(elements int) ([3]int, [3]int) {
	return [3]int{ceil(elements, productThreads), 1, 1}, [3]int{productThreads, 1, 1}
}

// ProductDeltas writes f_b·dy[b][o], rounded to float32, to row b of an operand of
// so many rows of Line(out) values. All else is written as 0: rows of examples that are dead
// or whose factor is not above zero, rows beyond the capacity, what fills a row up, and what overflows.
func ProductDeltas(b Batch, op *ir.Op, rows int, dy, factors, to Ptr) Launch {
	out, _, _ := op.Columns()
	l := Launch{Module: "product", Name: "product_deltas", Args: b.args(I(rows), dy, factors, I(out), to, I(Line(out)))}
	l.Grid, l.Block = productGrid(rows * Line(out))
	return l
}

// ProductInputs writes x[b], and 1 behind it where the op has a bias, to row b of an
// operand of so many rows of ProductLine(op) values; all else is 0 as in ProductDeltas, so that no
// row that is left out brings NaN into a sum.
func ProductInputs(b Batch, op *ir.Op, rows int, x, factors, to Ptr) Launch {
	_, in, cols := productColumns(op)
	l := Launch{Module: "product", Name: "product_inputs", Args: b.args(I(rows), x, factors, I(in), I(cols), to, I(Line(cols)))}
	l.Grid, l.Block = productGrid(rows * Line(cols))
	return l
}

// ProductLine is the row of a dense op's inputs, and of its gradient, in such products.
func ProductLine(op *ir.Op) int {
	_, _, cols := productColumns(op)
	return Line(cols)
}

func productColumns(op *ir.Op) (out, in, cols int) {
	out, in, _ = op.Columns()
	if op.Bias != ir.None {
		return out, in, in + 1
	}
	return out, in, in
}

// ProductSum adds the float32 gradients of blocks of examples, [block][out][ProductLine(op)],
// in float64, in order, from zero, and their total to the sums.
func ProductSum(op *ir.Op, products Ptr, blocks int, sumW, sumB Ptr) Launch {
	out, in, cols := productColumns(op)
	l := Launch{Module: "product", Name: "product_sum", Args: []uint64{products, I(blocks), I(out), I(in), I(cols), I(Line(cols)), sumW, sumB}}
	l.Grid, l.Block = productGrid(out * cols)
	return l
}

// ProductBias adds the bias to the live rows of y, one rounding each.
func ProductBias(b Batch, op *ir.Op, bias, y Ptr) Launch {
	out, _, _ := op.Columns()
	l := Launch{Module: "product", Name: "product_bias", Args: b.args(bias, y, I(out))}
	l.Grid, l.Block = productGrid(b.Capacity * out)
	return l
}

// ProductRoundings is SumRoundings where a library adds the examples of a block, in an
// order of its own for every element and with products that it may round. A sum of n
// terms is a binary tree with n leaves; a term passes one rounding for every level above it and one for its product. The
// sum of the squares of these numbers is largest for the tree that is a chain, where they are 2, 3 … n, n: of two sibling leaves of
// the lowest level d ≤ n−1, taking both away and making a leaf of their parent takes 2(d+1)² − d² = d²+4d+2 off, at most as
// much as in a chain, and leaves a tree of n−1.
func ProductRoundings(rows, blocks int) float64 {
	n := float64(min(rows, ProductBlock))
	return math.Sqrt((n*(n+1)*(2*n+1)/6-1+n*n)/n) + float64(blocks+1)*0x1p-29
}
