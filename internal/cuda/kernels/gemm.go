package kernels

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Weights lie (out, in) as the parameters do. x, y, dx and dy are values of the
// op's input and output and their gradients. A Ptr of 0 for a bias is none.

// DenseForward is y[b][o] = (Σ_i x[b][i]·w[o][i]) + bias[o].
//
// A sum is four, each of every fourth DEPTH = 16 terms, fused in order from zero, and added in order; then the bias is added. Its bits
// do not depend on the tile. Of an op with at most fewOutputs it is 128, the t-th of the terms 4t … 4t+3 and all that are a multiple of
// 512 behind, likewise; the even ones are added in order, the odd ones, and both.
func DenseForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return DenseActivated(b, op, noActivation, x, w, bias, y)
}

// DenseActivated is DenseForward and behind it an activation, where FusesForward says so.
func DenseActivated(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	out, in, _ := op.Columns()
	if out <= fewOutputs {
		l := Launch{Module: "dense", Name: "dense_forward_few", Grid: [3]int{ceil(b.Capacity, 4), 1, 1}, Block: [3]int{32 * denseWarps, 1, 1}}
		l.Shared, l.Args = 4*4*fewOutputs*(32*denseWarps+2), b.args(x, w, bias, y, I(in), I(out), I(int(act)))
		return l
	}
	return productTile(b.Capacity, out, in, false).launch("dense_forward", b, out, x, w, bias, y, I(in), I(out), I(int(act)))
}

// DenseInputGrad is dx[b][i] = Σ_o dy[b][o]·w[o][i], fused in order from zero where there are at most fewOutputs terms, else in the
// first order of DenseForward; where add is set, the sum is
// added to what dx has.
func DenseInputGrad(b Batch, op *ir.Op, dy, w, dx Ptr, add bool) Launch {
	return denseInputGrad(b, op, dy, w, dx, add, noActivation, 0)
}

// DenseInputGradThrough takes the gradient on through the activation that gave the op's input x, to the
// activation's input, where FusesBackward says so.
func DenseInputGradThrough(b Batch, op *ir.Op, act ir.Kind, x, dy, w, dx Ptr) Launch {
	return denseInputGrad(b, op, dy, w, dx, false, act, x)
}

func denseInputGrad(b Batch, op *ir.Op, dy, w, dx Ptr, add bool, act ir.Kind, x Ptr) Launch {
	out, in, _ := op.Columns()
	if out <= fewOutputs {
		l := Launch{Module: "dense", Name: "dense_input_grad_few", Grid: [3]int{ceil(b.Capacity, 8), ceil(in, 128), 1}, Block: [3]int{32 * denseWarps, 1, 1}}
		l.Shared, l.Args = 4*8*fewOutputs, b.args(dy, w, dx, I(in), I(out), flag(add), I(int(act)), x)
		return l
	}
	return productTile(b.Capacity, in, out, true).launch("dense_input_grad", b, in, dy, w, dx, I(in), I(out), flag(add), I(int(act)), x)
}

// tile is what a block of a dense product has of the results. A thread has rows/4 by cols/8 of a warp's.
type tile struct{ rows, cols, shared int }

var productTiles = []tile{{rows: 16, cols: 32}, {rows: 24, cols: 32}, {rows: 32, cols: 32}, {rows: 32, cols: 64}, {rows: 40, cols: 64}, {rows: 64, cols: 64}}

// processors are those of the GPU for which tiles are chosen. No bit of a result depends on it.
const processors = 132

// product is a tile with the shared memory of a product's slabs, or of what is exchanged.
func (t tile) product(lines bool) tile {
	const slab, pitch = 16 * denseWarps, 16*denseWarps + 4
	size, stages := t.rows*pitch+t.cols*pitch, 3
	if lines {
		size = t.rows*pitch + t.cols*slab
	}
	if t.rows*t.cols > 64*48 {
		stages = 2
	}
	t.shared = 4 * max(stages*size, denseWarps*t.rows*(t.cols+8))
	return t
}

// productTile is that of a product of so many results and terms by which the busiest multiprocessor has least to do. It counts cycles of the
// unit that is used most: of the products, or of accesses, one for every number that a thread loads for a term and two for 32 numbers that are
// copied to shared memory. Warps exchange all results once, by two accesses each.
func productTile(rows, cols, terms int, lines bool) tile {
	cost := func(t tile) float64 {
		r, c, blocks := float64(t.rows/4), float64(t.cols/8), ceil(rows, t.rows)*ceil(cols, t.cols)
		return float64(ceil(blocks, processors)*terms) * (max(r*c/4, r+c+(4*r+8*c)/16) + 2*r*c*denseWarps/float64(terms))
	}
	return slices.MinFunc(productTiles, func(a, b tile) int { return cmp.Compare(cost(a), cost(b)) }).product(lines)
}

// fewOutputs have kernels of their own.
const fewOutputs = 12

// denseWarps share the terms of a tile.
const denseWarps = 4

func (t tile) launch(name string, b Batch, cols int, args ...uint64) Launch {
	return Launch{
		Module: "dense", Name: fmt.Sprintf("%s_%dx%d", name, t.rows, t.cols), Grid: [3]int{ceil(b.Capacity, t.rows), ceil(cols, t.cols), 1},
		Block: [3]int{32 * denseWarps, 1, 1}, Shared: t.shared, Args: b.args(args...),
	}
}

// DenseTiles are launches with every tile that there is, for what they ask of a GPU.
func DenseTiles() (all []Launch) {
	var b Batch
	few := &ir.Op{Kind: ir.Dense, Shape: []int{1}, Out: []int{1}}
	all = append(all, DenseForward(b, few, 0, 0, 0, 0), DenseInputGrad(b, few, 0, 0, 0, false))
	last, _ := LossGradBehind(all[0], ir.Logistic, 1, 0, 0, 0)
	all = append(all, last)
	for _, t := range productTiles {
		all = append(all, t.product(false).launch("dense_forward", b, 0), t.product(true).launch("dense_input_grad", b, 0))
	}
	for _, t := range sumTiles {
		all = append(all, t.sum().launch("dense_sum", b, 0))
	}
	for _, p := range []device.Precision{device.TF32, device.BF16} {
		all = append(all, Math(p).denseSumTiles()...)
	}
	return append(all, addParts(b, 0, 0, nil))
}

// DenseStore keeps each example's gradient, kept[b·stride + o·in + i] = dy[b][o]·x[b][i] rounded
// once, then dy itself where the op has a bias, and adds the squared norm of what it keeps, in float64, to norm2[b].
// A live example's stretch of kept is written in full; stride counts float32 values.
func DenseStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	out, in, _ := op.Columns()
	return denseStore("dense_store", b, op, x, dy, kept, stride, norm2, in, out)
}

// DenseStore is the function of this name for values in pixels. It keeps float32.
func (m Math) DenseStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	name := "dense_store" // a word of tf32 is a float32
	if m.ElementBytes(Pixels) == 2 {
		name = "dense_store_bf16"
	}
	out, in, _ := op.Columns()
	return denseStore(name, b, op, x, dy, kept, stride, norm2, padded(in), padded(out))
}

// denseStore is of rows of wide and high elements.
func denseStore(name string, b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr, wide, high int) Launch {
	out, in, _ := op.Columns()
	return line("gemm", name, b.Capacity, 256, b.args(x, dy, kept, I(stride), norm2, I(in), I(out), flag(op.Bias != ir.None), I(wide), I(high))...)
}
