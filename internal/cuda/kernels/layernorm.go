package kernels

import (
	"fmt"
	"math/bits"

	"github.com/privgrad/privgrad/internal/ir"
)

// layernorm.cu has the same.
const (
	layerThreads = 256 // forward, and back
	layerFew     = 64  // back, of small examples
	layerRun     = 16  // numbers that a thread adds up in float32, forward of a row, and back of an element
)

// Forward, a lane adds up at most layerRun numbers of a row in float32, in four sums, and such sums in float64. What lanes have is added in float64, in a tree of
// halves. Differences d from the first number of a lane's run are summed up, and their squares: so how large numbers are does not matter, only how far apart
// they lie. With u = 2⁻²⁴ a sum of d errs by at most 6u times the sum of |d|: the difference, three additions and two of the four sums. The sum of d² errs by 8u
// of it. With c the distance of a run's first number from the mean, the mean errs by 6u times the mean |d|, and the variance v by 8u times the mean d² and 12u
// times the mean |d|·c. The first number is one of its run, so that the mean d², and the mean |d|·c, is at most 16·v. What float64 rounds is a millionth of it.

// LayerNormMeanError and LayerNormError bound the error of a row's mean, as a share of its deviation √v, and the relative error of √v, whatever
// the numbers are, as long as float32 has their differences' squares: 6·√16·u, and half of (8+12)·16·u. They are for chosen numbers.
const (
	LayerNormMeanError = 24 * 0x1p-24
	LayerNormError     = 160 * 0x1p-24
)

// LayerNormMomentBytes is what LayerNorm leaves of an example for the way back: the mean of each row and 1/√(variance+ε), float64.
func LayerNormMomentBytes(op *ir.Op) int { rows, _ := op.Lines(); return 16 * rows }

// rowNorm is how a layer norm's rows are divided. Powers of two are given by their exponents.
type rowNorm struct {
	kernel     string // the end of its name
	rows, size int
	unit       int // elements that a thread reads at once
}

func rowsOf(op *ir.Op) rowNorm {
	n := rowNorm{kernel: "wide", unit: 4}
	if n.rows, n.size = op.Lines(); n.size%4 != 0 {
		n.kernel, n.unit = "single", 1
	}
	return n
}

// log2 is the least exponent whose power of two is at least n.
func log2(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

const (
	layerShare = 32768 // elements that a block has back, if there is a choice
	layerChunk = 8192  // elements that a block reads by rows before it reads them by columns, so that a cache has them
	layerNotes = 512   // rows of a chunk, at most
	layerLine  = 32    // elements side by side that blocks share no less of
	layerSums  = 2048  // elements of a row of which a block has sums, at most
)

// team is how many threads share a row: lanes of a warp have two units each, or as many numbers as a thread has at once. More threads share longer rows.
func (n rowNorm) team(atOnce int) int {
	return max(min(log2(ceil(n.size/n.unit, 2)), log2(warp)), min(log2(ceil(n.size, atOnce)), log2(layerThreads)))
}

// rowNormBack is how blocks, and their threads, share an example on the way back.
type rowNormBack struct {
	parts   int // blocks
	threads int
	team    int // threads that share a row: some lanes of a warp, or the block's
	chunk   int // rows that the blocks read together
	columns int // units of a row of which a block has sums
	across  int // threads side by side that have them
	shared  int // bytes
}

// back follows from the rows alone, so that no gradient depends on how many examples there are.
func (n rowNorm) back() (b rowNormBack) {
	b.parts = max(log2(ceil(n.size, layerSums)), min(log2(ceil(n.rows*n.size, layerShare)), log2(ceil(n.size, layerLine))))
	if b.threads = layerThreads; n.rows*n.size>>b.parts <= layerFew*layerRun {
		b.threads = layerFew
	}
	b.team = min(n.team(layerRun/2), log2(b.threads))
	if n.rows>>b.parts >= b.threads/warp { // every warp has rows
		b.team = min(b.team, log2(warp))
	}
	b.chunk = min(max(layerChunk/n.size, 1)<<b.parts, max(layerNotes, 1<<b.parts))
	b.columns = min(layerLine/n.unit*ceil(n.size, layerLine<<b.parts), n.size/n.unit)
	b.across = min(log2(b.columns), log2(b.threads))
	b.shared = 16*n.unit*ceil(b.columns, 1<<b.across)*(b.threads+4) + 12*min(b.chunk, n.rows)
	return b
}

// LayerNorm is y = (x−μ)/√(v+ε)·weight + bias with the mean μ and the variance v, of the population, of each row, a line of the op's last axis. It writes
// μ and 1/√(v+ε) to moments[example][row], float64. weight and bias have a value for each element of a row; bias 0 is none. Addresses of x and y are multiples of 16.
//
// Beside what μ and v err by, y errs by 3u of (|x̂|+s)·|weight| and u of itself, u = 2⁻²⁴, s being what the rounding of μ to float32 takes from x̂.
func LayerNorm(b Batch, op *ir.Op, x, weight, bias, y, moments Ptr) Launch {
	return LayerNormActivated(b, op, noActivation, x, weight, bias, y, moments)
}

// LayerNormActivated is LayerNorm and, unless act is none, the ReLU behind it.
func LayerNormActivated(b Batch, op *ir.Op, act ir.Kind, x, weight, bias, y, moments Ptr) Launch {
	n := rowsOf(op)
	team := n.team(layerRun)
	return line("layernorm", "layer_norm_"+n.kernel, ceil(b.Capacity*n.rows, layerThreads>>team), layerThreads,
		b.args(x, weight, bias, y, moments, I(int(act)), I(n.rows), I(n.size), I(team), D(1/float64(n.size)), D(op.Epsilon))...)
}

// LayerNormNorms is in how many parts LayerNormBackward gives an example's squared norm.
func LayerNormNorms(op *ir.Op) int { return 1 << rowsOf(op).back().parts }

// LayerNormBackward computes gradients of examples, of which each is read once from DRAM.
//
// Sums over a row take at most 8 numbers of a lane in float32, and over rows at most 16, and such sums in float64. With u = 2⁻²⁴, x̂ errs by 3u of x = |x̂|+s, as forward, where x̂ is
// what it is by the moments. So a gradient that is kept errs by 20u of Σ|dy|·x or of Σ|dy|: a run has 16 roundings, and the result one. That at the input errs by 16u of
// (|g| + mean|g| + x·mean(|g|·x))/√(v+ε): a run has four at most, the product g and the mean one each, and what is made of them five.
// With u = 2⁻⁵³ the relative error of the squared norm that is added to a part is below γ(n/16+16), n being the elements of a row.
func LayerNormBackward(b Batch, op *ir.Op, w NormBack) Launch {
	n := rowsOf(op)
	s := n.back()
	l := line("layernorm", fmt.Sprint("layer_norm_back_", n.kernel, "_", s.threads), b.Capacity<<s.parts, s.threads,
		b.args(w.X, w.Dy, w.Weight, w.Moments, w.Dx, flag(w.Add), I(int(w.Through)), w.Kept, I(w.Stride), w.Norm2, flag(op.Bias != ir.None),
			I(n.rows), I(n.size), I(s.parts), I(s.team), I(s.chunk), I(s.columns), I(s.across), D(1/float64(n.size)))...)
	l.Shared = s.shared
	return l
}
