package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// gradients says how the float32 kernels cut an op's gradient up.
type gradients struct {
	module  string
	kernels string // what their names end with
	threads int
	shared  int // dynamic, bytes
	sums    int // more of it, where examples are summed
	tiles   int
	cut     []uint64 // what the C side reads as Cut
}

// gradientsOf chooses the kernels by shape; the order of the sums over positions does not depend on it.
func gradientsOf(op *ir.Op) gradients {
	if rows := windowRows(op); rows > 0 {
		slab := windowSide * ((rows+2)*op.Out[2] + 4 + rows*op.Out[2] + 4)
		return gradients{
			module: "convgrad3", kernels: fmt.Sprint("3x3_", op.Out[2]), threads: 128, shared: 4 * (2*slab + windowSide*windowSide*9),
			tiles: ceil(op.Out[0], windowSide) * ceil(op.Shape[0], windowSide),
		}
	}
	if op.Out[0] <= 32 { // of more filters a tile would have few of the columns
		if g := ofImages(op); g.shared+g.sums <= mostShared {
			return g
		}
	}
	return ofColumns(op)
}

// ConvStore is gradients.store.
func ConvStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	return gradientsOf(op).store(b, op, x, dy, kept, stride, norm2)
}

// ConvNorms is the number of parts in which ConvStore and ConvNorm give a squared norm.
func ConvNorms(op *ir.Op) int { return gradientsOf(op).norms() }

// ConvNorm adds the squared norm as ConvStore does without keeping the gradient: the norm of what ConvStore keeps and ConvSum computes
// again.
func ConvNorm(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	return ConvStore(b, op, x, dy, 0, 0, norm2)
}

// ConvSum is gradients.sum, of the gradients that ConvStore keeps.
func ConvSum(b Batch, op *ir.Op, x, dy, factors Ptr, parts Ptr, stride int) Launch {
	return gradientsOf(op).sum(b, op, x, dy, factors, parts, stride)
}

// ConvParts is the number of partial sums that ConvSum writes.
func ConvParts(op *ir.Op, capacity int) int { return gradientsOf(op).parts(capacity) }

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
// where a column of an op with a bias has a further element of 1. See GramRounding for ω and γ. Where B is not at most half of the
// largest float32 it is NaN: a partial sum of the gradient might overflow, and the example counts as zero.
func NormGram(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	sum, gradient := GramRounding(op)
	return conv("gram", "norm_gram", [3]int{b.Capacity, 1, 1}, 256,
		b.args(x, dy, norm2, D(sum), D(gradient), flag(op.Bias != ir.None)), geometry(op))
}

// ofColumns is for all ops.
func ofColumns(op *ir.Op) gradients {
	return gradients{module: "convgrad", kernels: "64", threads: 64, tiles: gradientTiles(op, 64)}
}

// windowSide is the filters and the channels of a tile of the 3×3 kernels; of fewer than windowLeast most of it would idle.
const (
	windowSide  = 32
	windowLeast = 24
)

// windowRows is how many rows of positions the 3×3 kernel takes at a time that this op has, or 0.
func windowRows(op *ir.Op) int {
	w := op.Window
	if w.H != 3 || w.W != 3 || w.StrideH != 1 || w.StrideW != 1 || w.DilationH != 1 || w.DilationW != 1 || w.PadLeft != 1 ||
		op.Shape[2] != op.Out[2] || min(op.Out[0], op.Shape[0]) < windowLeast {
		return 0
	}
	switch op.Out[2] {
	case 8:
		return 8
	case 16:
		return 4
	case 32:
		return 1
	}
	return 0
}

// mostShared is what a block may have on every GPU, without what its kernel has of its own.
const mostShared = 96 << 10

// ofImages is for images that fit into shared memory. A block has imageItems items: blocks of positions first, as they share columns.
func ofImages(op *ir.Op) gradients {
	const imageItems = 8
	out, k, positions := op.Columns()
	w, r, filters := op.Window, 16, 1
	switch {
	case out <= 8:
		r = 8
	case out > 16:
		filters = 2
	}
	blocks := 1
	for blocks*PositionBlock < positions && blocks < imageItems/filters {
		blocks *= 2
	}
	columns := imageItems / filters / blocks
	area, planes := w.H*w.W, 0
	for first := 0; first < k; first += 32 * columns {
		planes = max(planes, (min(first+32*columns, k)-1)/area+1-first/area)
	}
	width, height := (op.Out[2]-1)*w.StrideW+(w.W-1)*w.DilationW+1, (op.Out[1]-1)*w.StrideH+(w.H-1)*w.DilationH+1
	pixels := ceil(planes*width*height, 4) * 4
	values := r * filters * (32*columns + 1)
	slab := ceil(max(values, r*filters*(PositionBlock+4))*blocks, 4) * 4
	return gradients{
		module: "convgradimage", kernels: fmt.Sprint("image_", r), threads: 64, shared: 4 * (pixels + ceil(positions, 4)*4 + slab + values), sums: 4 * values,
		tiles: ceil(out, r*filters) * ceil(k, 32*columns), cut: []uint64{I(columns), I(filters), I(blocks), I(pixels)},
	}
}

// examples are those of a part: as many as there are tiles, so that all shapes have about one block for an example. A grid
// has at most 65,535 parts.
func (g gradients) examples(capacity int) int {
	return max(min(g.tiles, ExampleBlock), ceil(capacity, 65535))
}

func (g gradients) launch(name string, op *ir.Op, grid [3]int, args []uint64) Launch {
	l := conv(g.module, name+"_"+g.kernels, grid, g.threads, args, g.cut, geometry(op))
	l.Shared = g.shared
	return l
}

// store is ConvStore, which keeps each example's gradient at kept[b·stride…]: out×k values in the order of
// the weights, Σ_p dy[b][o][p]·column[b][k][p], then, where the op has a bias, Σ_p dy[b][o][p] for each filter.
// Sums over positions go in blocks of PositionBlock, fused in order from zero, and the blocks are added in order, all in
// float32. The squared norm of what is kept is added, in float64, to ConvNorms parts of it, norm2[part·capacity + b]: each
// belongs to a block of threads. stride counts float32 values.
func (g gradients) store(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	return g.launch("conv_store", op, [3]int{b.Capacity, g.norms(), 1},
		b.args(x, dy, kept, I(stride), norm2, flag(op.Bias != ir.None)))
}

// mostNorms bounds the blocks that share one example's gradient, and with them the parts of its squared norm.
const mostNorms = 16

// norms is the number of parts of a squared norm: the blocks that share the tiles of an example's gradient, so that few
// examples keep a GPU busy.
func (g gradients) norms() int { return min(g.tiles, mostNorms) }

// sum is ConvSum, which computes each example's gradient as ConvStore does, completes it, and adds
// it times its factor to a partial sum: fused float32 operations from zero over the examples of
// a part, at most ExampleBlock of them, in order. A factor that is not above zero leaves the example out. Part g's sums are written to
// parts[g·stride…], weights then bias, zeros where no example is live, for every part of the capacity. SumParts must follow.
// stride counts float32 values.
func (g gradients) sum(b Batch, op *ir.Op, x, dy, factors Ptr, parts Ptr, stride int) Launch {
	l := g.launch("conv_sum", op, [3]int{g.tiles, g.parts(b.Capacity), 1},
		b.args(x, dy, factors, parts, I(stride), I(g.examples(b.Capacity)), flag(op.Bias != ir.None)))
	l.Shared += g.sums
	return l
}

// parts is the number of partial sums. How many examples are in one depends on the op alone, up to a capacity of 65,535.
func (g gradients) parts(capacity int) int {
	return ceil(capacity, g.examples(capacity))
}

// sumGroups warps of a block of SumParts share the parts of sumLanes values.
const (
	sumGroups = 8
	sumLanes  = 32
)

// SumParts adds the n partial sums of ConvSum in float64 to the sums of weights and biases: part i belongs to group i mod 8, which
// adds its parts in order from zero; the groups are then added in order to what is there. sumB is 0 without a bias.
func SumParts(op *ir.Op, parts Ptr, stride, n int, sumW, sumB Ptr) Launch {
	out, k, _ := op.Columns()
	biases := 0
	if sumB != 0 {
		biases = out
	}
	return line("convgrad", "sum_parts", ceil(out*k+biases, sumLanes), sumLanes*sumGroups, parts, I(stride), I(n), I(out*k), I(biases), sumW, sumB)
}
