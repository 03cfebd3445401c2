package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Math chooses the kernels of matrix products by the precision of their factors. Float32 is what the functions of the same
// names launch; below it, tensor cores multiply, whose products are exact and whose sums PTX leaves open: fragment after
// fragment of 8 terms in tf32, 16 in bf16.
//
// Forward and input gradients round both factors to nearest, and chain the fragments. Gradients of weights cut both factors
// off, toward zero: what is multiplied is never larger than the float32 number, and finite if that is. Their fragments begin from zero
// and are added in float32, in order, so that a term is cut off by a tensor core once. See docs/proofs/rounding.md.
type Math device.Precision

// plain says whether products are those of float32.
func (m Math) plain() bool { return device.Precision(m) == device.Float32 }

// tensorThreads is the block of every kernel on tensor cores, in four warps.
const tensorThreads = 128

// tensor is a launch of the module with the suffix of the precision.
func (m Math) tensor(l Launch, name string, tile int) Launch {
	l.Module, l.Name, l.Block = fmt.Sprintf("%s_%s", l.Module, device.Precision(m)), fmt.Sprint(name, "_", tile), [3]int{tensorThreads, 1, 1}
	return l
}

// FusesForward is the function of this name. In tensor kernels every thread has many results.
func (m Math) FusesForward(op *ir.Op, act ir.Kind) bool {
	if m.of(op).plain() {
		return FusesForward(op, act)
	}
	return act == ir.ReLU && (op.Kind == ir.Dense || op.Kind == ir.Conv)
}

// FusesBackward reports whether the launch of an op's input gradient can take it on
// through the activation that gave the input. Pools are no products.
func (m Math) FusesBackward(op *ir.Op, act ir.Kind) bool {
	return m.FusesForward(op, act) || op.Kind == ir.MaxPool || op.Kind == ir.AvgPool
}

// denseTile is the larger side of a tile in the direction of a dense op's outputs.
func denseTile(op *ir.Op) int {
	if op.Out[0] <= 16 {
		return 16
	}
	return 64
}

// DenseForward is the function of this name, y[b][o] = (Σ_i x[b][i]·w[o][i]) + bias[o].
func (m Math) DenseForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return m.DenseActivated(b, op, noActivation, x, w, bias, y)
}

func (m Math) DenseActivated(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	if m.of(op).plain() {
		return DenseActivated(b, op, act, x, w, bias, y)
	}
	out, in, _ := op.Columns()
	tile := denseTile(op)
	l := Launch{Module: "gemm", Grid: [3]int{ceil(b.Capacity, 64), ceil(out, tile), 1}, Args: b.args(x, w, bias, y, I(in), I(out), I(int(act)))}
	return m.tensor(l, "dense_forward", tile)
}

// DenseInputGrad is the function of this name, dx[b][i] = Σ_o dy[b][o]·w[o][i].
func (m Math) DenseInputGrad(b Batch, op *ir.Op, dy, w, dx Ptr, add bool) Launch {
	if m.of(op).plain() {
		return DenseInputGrad(b, op, dy, w, dx, add)
	}
	return m.denseInputGrad(b, op, dy, w, dx, add, 0)
}

// DenseInputGradThrough takes the gradient on through the activation that gave the op's input x, to the
// activation's input, where FusesBackward says so.
func (m Math) DenseInputGradThrough(b Batch, op *ir.Op, act ir.Kind, x, dy, w, dx Ptr) Launch {
	if m.of(op).plain() {
		return denseInputGrad(b, op, dy, w, dx, false, act, x)
	}
	return m.denseInputGrad(b, op, dy, w, dx, false, x)
}

func (m Math) denseInputGrad(b Batch, op *ir.Op, dy, w, dx Ptr, add bool, x Ptr) Launch {
	out, in, _ := op.Columns()
	l := Launch{Module: "gemm", Grid: [3]int{ceil(b.Capacity, 64), ceil(in, 64), 1}, Args: b.args(dy, w, dx, I(in), I(out), flag(add), x)}
	return m.tensor(l, "dense_input_grad", 64)
}

// DenseSum is the function of this name. f·dy is rounded to float32, then it and x are cut off: an example's share is never longer
// than in float32, so that NormGhosts measures it as it is.
func (m Math) DenseSum(b Batch, op *ir.Op, x, dy, factors Ptr, sumW, sumB Ptr) Launch {
	if m.of(op).plain() {
		return DenseSum(b, op, x, dy, factors, sumW, sumB)
	}
	out, in, cols := productColumns(op)
	tile := denseTile(op)
	l := Launch{Module: "gemm", Grid: [3]int{ceil(cols, 64), ceil(out, tile), 1}, Args: b.args(x, dy, factors, sumW, sumB, I(in), I(cols), I(out))}
	return m.tensor(l, "dense_sum", tile)
}

// SumsTogether is the function of this name: DenseSums is of float32.
func (m Math) SumsTogether(op *ir.Op) bool { return m.of(op).plain() && SumsTogether(op) }

func (m Math) ConvForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return m.ConvActivated(b, op, noActivation, x, w, bias, y)
}

func (m Math) ConvActivated(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	if m.of(op).plain() {
		return ConvActivated(b, op, act, x, w, bias, y)
	}
	if m.windows() {
		return sums3(b, op, "conv3_forward", op.Out[0], b.args(x, w, bias, y, I(int(act))))
	}
	return m.conv(columnsForward(b, op, act, x, w, bias, y), "conv_forward", op.Out[0])
}

func (m Math) ConvInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool) Launch {
	return m.convInputGrad(b, op, dy, weights, dx, add, 0)
}

// ConvInputGradThrough is beside DenseInputGradThrough.
func (m Math) ConvInputGradThrough(b Batch, op *ir.Op, x, dy, weights, dx Ptr) Launch {
	return m.convInputGrad(b, op, dy, weights, dx, false, x)
}

func (m Math) convInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool, x Ptr) Launch {
	if m.of(op).plain() {
		return convInputGrad(b, op, dy, weights, dx, add, x)
	}
	if m.windows() {
		return sums3(b, op, "conv3_input_grad", op.Shape[0], b.args(dy, weights, dx, flag(add), x))
	}
	return m.conv(columnsInputGrad(b, op, dy, weights, dx, add, x), "conv_input_grad", op.Shape[0])
}

// conv turns a launch for float32 into the one on tensor cores, which has the same tiles and arguments.
func (m Math) conv(l Launch, name string, rows int) Launch {
	l.Module = "conv"
	return m.tensor(l, name, tileRows(rows))
}

// gradients is how kernels with the arguments of float32's cut an op's gradient up. Those in bf16 have their own.
func (m Math) gradients(op *ir.Op) (gradients, bool) {
	switch {
	case m.of(op).plain():
		return gradientsOf(op), true
	case m.windows():
		return gradients3(op), true
	}
	return gradients{}, false
}

// ConvStore is gradients.store. On tensor cores sums over positions are fragments, added in order. The norm is of what is kept.
func (m Math) ConvStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	if g, ok := m.gradients(op); ok {
		return g.store(b, op, x, dy, kept, stride, norm2)
	}
	return m.convGradient("conv_store", op, [3]int{b.Capacity, m.ConvNorms(op), 1},
		b.args(x, dy, kept, I(stride), norm2, flag(op.Bias != ir.None)))
}

// ConvNorms is the number of parts in which ConvStore and ConvNorm give a squared norm.
func (m Math) ConvNorms(op *ir.Op) int {
	if g, ok := m.gradients(op); ok {
		return g.norms()
	}
	return min(gradientTiles(op, tileRows(op.Out[0])), mostNorms)
}

// ConvNorm adds the squared norm as ConvStore does without keeping the gradient: the norm of what ConvStore keeps and ConvSum computes again, fragment by fragment in
// the same lanes.
func (m Math) ConvNorm(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	return m.ConvStore(b, op, x, dy, 0, 0, norm2)
}

// ConvSum is gradients.sum, of the gradients that ConvStore keeps.
func (m Math) ConvSum(b Batch, op *ir.Op, x, dy, factors Ptr, parts Ptr, stride int) Launch {
	if g, ok := m.gradients(op); ok {
		return g.sum(b, op, x, dy, factors, parts, stride)
	}
	return m.convGradient("conv_sum", op, [3]int{gradientTiles(op, tileRows(op.Out[0])), m.ConvParts(op, b.Capacity), 1},
		b.args(x, dy, factors, parts, I(stride), flag(op.Bias != ir.None)))
}

// ConvParts is the number of partial sums that ConvSum writes.
func (m Math) ConvParts(op *ir.Op, capacity int) int {
	if g, ok := m.gradients(op); ok {
		return g.parts(capacity)
	}
	return ceil(capacity, ExampleBlock)
}

func (m Math) convGradient(name string, op *ir.Op, grid [3]int, args []uint64) Launch {
	return m.tensor(conv("conv", "", grid, 0, args, geometry(op)), name, tileRows(op.Out[0]))
}

// gradientTiles are those of a gradient of so many filters by 64 columns.
func gradientTiles(op *ir.Op, rows int) int {
	out, k, _ := op.Columns()
	if op.Bias != ir.None {
		k++
	}
	return ceil(k, 64) * ceil(out, rows)
}

// NormGram adds to norm2[b] an upper bound of the squared norm of the gradient that ConvSum computes, by
// the Gram matrices of columns and dy: (√(n² + ω·B²) + γ·B)², n² = Σ_st (AᵀA)_st (ΔᵀΔ)_st and B = Σ_t ‖a_t‖‖δ_t‖ in float64,
// where a column of an op with a bias has a further element of 1. See GramRounding for ω and γ. Columns and dy are cut off as ConvSum does it. Where B is not at most half of the
// largest float32 it is NaN: a partial sum of the gradient might overflow, and the example counts as zero.
func (m Math) NormGram(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	sum, gradient := m.GramRounding(op)
	return conv("gram", "norm_gram", [3]int{b.Capacity, 1, 1}, 256,
		b.args(x, dy, norm2, D(sum), D(gradient), uint64(m.of(op).kept()), flag(op.Bias != ir.None)), geometry(op))
}

// kept has the bits of a float32 number that gradients of weights are computed from.
func (m Math) kept() uint32 {
	switch device.Precision(m) {
	case device.TF32:
		return 0xffffe000
	case device.BF16:
		return 0xffff0000
	}
	return 0xffffffff
}
