package kernels

import (
	"cmp"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// SumPart is how many examples are added in float32 at most, sumBlock how many of them one after the other.
const (
	SumPart  = 256
	sumBlock = 16
)

// Sum is what DenseSums adds up for an op.
type Sum struct {
	Op             *ir.Op
	X, Dy, Factors Ptr
	SumW, SumB     Ptr
}

// DenseSums adds Σ_b f_b·dy[b][o]·x[b][i] to the float64 values SumW[o][i] of each of at most MostSums ops, and, where the op has a bias,
// Σ_b f_b·dy[b][o] to SumB[o]. Factors has one float32 an example; one that is not
// above zero leaves the example out, whatever its values are. f·dy is rounded to
// float32 first, and left out where it overflows, as it may under automatic clipping.
//
// Examples go in parts of SumPart and these in blocks of 16. Within a block fused float32 operations add in order from zero; the blocks' sums
// are added in float32, in order from zero; and the parts are added to the sum in float64, in order. So the bits depend on the live
// examples alone.
//
// Of few examples one launch adds parts one after the other. Where parts is not 0, a launch computes all parts at once, and a second one adds
// them: there PartBytes of the ops are needed.
func DenseSums(b Batch, parts Ptr, sums ...Sum) []Launch {
	return denseSums("dense", b, parts, sums, func(parts int) tile { return sumTile(parts, sums) })
}

// denseSums are the launches of a module whose tiles are chosen for so many parts at once.
func denseSums(module string, b Batch, parts Ptr, sums []Sum, choose func(parts int) tile) []Launch {
	most := ceil(b.Capacity, SumPart)
	if parts == 0 {
		most = 1
	}
	t := choose(most)
	blocks, stride := 0, 0
	var args []uint64
	for i := range MostSums {
		args = append(args, I(blocks)) // the first
		if i >= len(sums) {
			args = append(args, make([]uint64, 8)...)
			continue
		}
		s := &sums[i]
		out, in, _ := s.Op.Columns()
		args = append(args, s.X, s.Dy, s.Factors, s.SumW, s.SumB, I(in), I(out), I(stride))
		blocks += t.over(s.Op) + s.biases()
		stride += partStride(s.Op)
	}
	l := t.launch("dense_sum", b, 0, append([]uint64{parts, I(stride)}, args...)...)
	l.Module, l.Grid = module, [3]int{blocks, most, 1}
	if parts == 0 {
		return []Launch{l}
	}
	return []Launch{l, addParts(b, parts, stride, sums)}
}

// DenseSum is DenseSums of one op, in one launch.
func DenseSum(b Batch, op *ir.Op, x, dy, factors Ptr, sumW, sumB Ptr) Launch {
	return DenseSums(b, 0, Sum{op, x, dy, factors, sumW, sumB})[0]
}

// addParts adds the parts of some ops to their sums.
func addParts(b Batch, parts Ptr, stride int, sums []Sum) Launch {
	args := []uint64{parts, I(stride)}
	place := 0
	for i := range MostSums {
		if i >= len(sums) {
			args = append(args, 0, 0, 0, 0, I(math.MaxInt32))
			continue
		}
		s := &sums[i]
		out, in, _ := s.Op.Columns()
		args = append(args, I(place+params(s.Op)), s.SumW, s.SumB, I(out*in), I(place))
		place += partStride(s.Op)
	}
	return line("dense", "dense_parts", ceil(stride, 32*denseWarps), 32*denseWarps, b.args(args...)...)
}

func params(op *ir.Op) int {
	out, in, _ := op.Columns()
	if op.Bias != ir.None {
		in++
	}
	return out * in
}

// partStride is the float32 values that a part has of an op: the next op's are at 16 aligned bytes.
func partStride(op *ir.Op) int { return ceil(params(op), 4) * 4 }

// PartBytes is what DenseSums needs for parts of some ops; none where it gains nothing by them.
func PartBytes(capacity int, ops ...*ir.Op) (bytes int) {
	if capacity <= 2*SumPart {
		return 0
	}
	for _, op := range ops {
		bytes += 4 * ceil(capacity, SumPart) * partStride(op)
	}
	return bytes
}

// SumsTogether says of a dense op that it would not keep a large GPU busy: DenseSums takes it with others, and in parts.
func SumsTogether(op *ir.Op) bool {
	s := &Sum{Op: op}
	return tile{rows: 64, cols: 64}.over(op)+s.biases() < 256
}

// MostSums is how many ops DenseSums takes.
const MostSums = 4

// over counts the tiles of an op's weights.
func (t tile) over(op *ir.Op) int {
	out, in, _ := op.Columns()
	return ceil(in, t.cols) * ceil(out, t.rows)
}

// blocks counts those of all tiles and biases of a part.
func (t tile) blocks(sums []Sum) (n int) {
	for i := range sums {
		n += t.over(sums[i].Op) + sums[i].biases()
	}
	return n
}

// biases counts the blocks of an op's bias.
func (s *Sum) biases() int {
	if s.Op.Bias == ir.None {
		return 0
	}
	return ceil(s.Op.Out[0], 32*denseWarps)
}

var sumTiles = []tile{{rows: 32, cols: 32}, {rows: 32, cols: 64}, {rows: 64, cols: 64}, {rows: 128, cols: 64}}

// sum is a tile with the shared memory of two slabs of examples and of their factors.
func (t tile) sum() tile {
	slab := 2 * sumBlock
	if t.rows > 64 {
		slab = sumBlock
	}
	t.shared = 4 * 2 * slab * (1 + t.rows + t.cols)
	return t
}

// sumTile is the tile by which the busiest multiprocessor has least to do, by the mean of the blocks. A multiprocessor with one block takes twice
// as long for it: on an H200, blocks of 32×32 took 33 cycles an example, and 78 where each was alone; of 64×64, 103 and 175.
func sumTile(parts int, sums []Sum) tile {
	cost := func(t tile) float64 {
		work, blocks := 0, 0
		for i := range sums {
			n := t.over(sums[i].Op)
			work += n * t.of(sums[i].Op).example()
			blocks += n + sums[i].biases()
		}
		return float64(max(ceil(parts*blocks, processors), 2)*work) / float64(blocks)
	}
	return slices.MinFunc(sumTiles, func(a, b tile) int { return cmp.Compare(cost(a), cost(b)) }).sum()
}

// of is what a block does of an op: those of large tiles have lower ones for few outputs.
func (t tile) of(op *ir.Op) tile {
	if t.rows >= 64 && op.Out[0] <= 16 {
		t.rows = 16
	}
	return t
}

// example counts a block's cycles: of the products, of accesses to shared memory, one for every number that a warp loads, and of copies, as
// if none went on beside another.
func (t tile) example() int {
	results, wide := t.rows*t.cols/(32*denseWarps), 4
	if t.rows > 64 {
		wide = 8
	}
	return results + denseWarps*(results/wide+wide) + (t.rows+t.cols)/16
}
