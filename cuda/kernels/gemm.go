package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Weights lie (out, in) as the parameters do. x, y, dx and dy are values of the
// op's input and output and their gradients. A Ptr of 0 for a bias is none.

// DenseForward is y[b][o] = (Σ_i x[b][i]·w[o][i]) + bias[o].
//
// Sums of layers with many inputs and outputs are fused operations in the order of i from zero, then the bias. Those of the others
// are four, each of every fourth DEPTH = 16 terms, fused in order from zero, and added in order.
func DenseForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return DenseActivated(b, op, noActivation, x, w, bias, y)
}

// DenseActivated is DenseForward and behind it an activation, where FusesForward says so.
func DenseActivated(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	out, in, _ := op.Columns()
	l := denseTiles("dense_forward", op, b.Capacity, out)
	l.Args = b.args(x, w, bias, y, I(in), I(out))
	if !large(op) {
		l.Args = append(l.Args, I(int(act)))
	}
	return l
}

// DenseInputGrad is dx[b][i] = Σ_o dy[b][o]·w[o][i], in the order of DenseForward; where add is set, the sum is
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
	l := denseTiles("dense_input_grad", op, b.Capacity, in)
	l.Args = b.args(dy, w, dx, I(in), I(out), flag(add))
	if !large(op) {
		l.Args = append(l.Args, I(int(act)), x)
	}
	return l
}

// large says of a dense op that tiles of 128×128 results keep a GPU busy.
func large(op *ir.Op) bool {
	out, in, _ := op.Columns()
	return in >= 2048 && out >= 2048
}

// denseTiles chooses the tile by the op alone: the order of a sum depends on it.
func denseTiles(name string, op *ir.Op, rows, cols int) Launch {
	if large(op) {
		return Launch{Module: "gemm", Name: name + "_128", Grid: [3]int{ceil(rows, 128), ceil(cols, 128), 1}, Block: [3]int{256, 1, 1}}
	}
	return splitTiles(name, rows, cols)
}

// splitTiles is of kernels whose blocks have 32×32 results.
func splitTiles(name string, rows, cols int) Launch {
	return Launch{Module: "dense", Name: name + "_split", Grid: [3]int{ceil(rows, 32), ceil(cols, 32), 1}, Block: [3]int{256, 1, 1}}
}

// DenseSum adds Σ_b f_b·dy[b][o]·x[b][i] to the float64 values sumW[o][i], and, where the op has a bias,
// Σ_b f_b·dy[b][o] to sumB[o]. factors has one float32 an example; one that is not
// above zero leaves the example out, whatever its values are. f·dy is rounded to
// float32 first, and left out where it overflows, as it may under automatic clipping. Within blocks of ExampleBlock examples fused float32 operations add in
// order from zero; the blocks' sums are added up in float64, from zero, and their total to the sum: in order, or, where the op has few
// parameters, every fourth block in order, and the four sums in order.
func DenseSum(b Batch, op *ir.Op, x, dy, factors Ptr, sumW, sumB Ptr) Launch {
	s := Sum{op, x, dy, factors, sumW, sumB}
	if SumsTogether(op) {
		return DenseSums(b, s)
	}
	return Launch{
		Module: "gemm", Name: "dense_sum_64",
		Grid: s.tiles(64, 64), Block: [3]int{128, 1, 1}, Args: b.args(s.args()...),
	}
}

// Sum is what DenseSum takes.
type Sum struct {
	Op             *ir.Op
	X, Dy, Factors Ptr
	SumW, SumB     Ptr
}

// columns are the inputs, and one of ones for the bias.
func (s *Sum) columns() int {
	_, in, _ := s.Op.Columns()
	if s.Op.Bias != ir.None {
		return in + 1
	}
	return in
}

func (s *Sum) tiles(rows, cols int) [3]int {
	return [3]int{ceil(s.columns(), cols), ceil(s.Op.Out[0], rows), 1}
}

func (s *Sum) args() []uint64 {
	out, in, _ := s.Op.Columns()
	return []uint64{s.X, s.Dy, s.Factors, s.SumW, s.SumB, I(in), I(s.columns()), I(out)}
}

// SumsTogether says of a dense op that DenseSums takes it: its own tiles would not keep a large GPU busy.
func SumsTogether(op *ir.Op) bool {
	tiles := (&Sum{Op: op}).tiles(64, 64)
	return tiles[0]*tiles[1] < manyBlocks
}

// MostSums is how many ops DenseSums takes.
const MostSums = 4

// DenseSums is DenseSum of a few ops that go together, in one launch.
func DenseSums(b Batch, sums ...Sum) Launch {
	l := Launch{Module: "dense", Name: "dense_sum_split", Grid: [3]int{0, 1, 1}, Block: [3]int{256, 1, 1}, Args: b.args()}
	for i := range MostSums {
		l.Args = append(l.Args, I(l.Grid[0])) // the first block
		if i >= len(sums) {
			l.Args = append(l.Args, make([]uint64, 8)...)
			continue
		}
		tiles := sums[i].tiles(32, 32)
		l.Args = append(l.Args, sums[i].args()...)
		l.Grid[0] += tiles[0] * tiles[1]
	}
	return l
}

// manyBlocks keep a large GPU busy.
const manyBlocks = 256

// ExampleBlock is how many examples a float32 partial sum holds at most.
const ExampleBlock = 32

// DenseStore keeps each example's gradient, kept[b·stride + o·in + i] = dy[b][o]·x[b][i] rounded
// once, then dy itself where the op has a bias, and adds the squared norm of what it keeps, in float64, to norm2[b].
// A live example's stretch of kept is written in full; stride counts float32 values.
func DenseStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	out, in, _ := op.Columns()
	return Launch{
		Module: "gemm", Name: "dense_store",
		Grid: [3]int{b.Capacity, 1, 1}, Block: [3]int{256, 1, 1},
		Args: b.args(x, dy, kept, I(stride), norm2, I(in), I(out), flag(op.Bias != ir.None)),
	}
}
