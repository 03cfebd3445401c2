package kernels

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// Products in pixels, of convolutions and dense layers: products.cuh. x, y, dy and dx are values in pixels; weights are as Weights lays them
// out; bias has float32 as the parameters have it, and a Ptr of 0 is none. A sum is one chain over taps in order and channels in each,
// in the tensor core; its bits do not depend on the tile.

// mostTaps is how many taps a window has at most.
const mostTaps = 27

// Products reports whether tensor cores multiply an op's values in pixels.
func Products(op *ir.Op) bool {
	switch op.Kind {
	case ir.Dense:
		return true
	case ir.Conv:
		return op.Window.H*op.Window.W <= mostTaps
	}
	return false
}

// image is the op as a convolution: a dense layer is one of a pixel.
func image(op *ir.Op) *ir.Op {
	if op.Kind == ir.Conv {
		return op
	}
	out, in, _ := op.Columns()
	c := *op
	c.Kind, c.Shape, c.Out, c.Window = ir.Conv, []int{in, 1, 1}, []int{out, 1, 1}, ir.Square(1, 1, 0)
	return &c
}

// A sumsTile is a block of products.cuh: pixels by lines.
type sumsTile struct{ rows, lines int }

var sumsTiles = []sumsTile{{128, 128}, {128, 64}, {128, 32}, {64, 64}, {64, 32}}

// What products.cuh has: bytes of a line of a stage, and stages.
const (
	sumsLine, sumsStages = 128, 3
	mostLines            = 128 // of a tile: weights have multiples of them
)

func (t sumsTile) shared() int {
	stages := sumsStages * (t.rows + t.lines) * sumsLine
	return max(stages+8*t.rows+8*(mostTaps+1), 4*t.rows*(t.lines+8))
}

// tileOfSums is the tile by which the busiest multiprocessor has least to do. A stage costs a tile its products, of which tensor cores make
// two in three cycles, or its accesses to shared memory: two cycles a line that is copied and read by warps; and some cycles whatever its size.
func tileOfSums(rows, lines int) sumsTile {
	cost := func(t sumsTile) int {
		products := t.rows * t.lines / 128 * 4 * 3 / 2
		accesses := 2*(t.rows+t.lines) + 16*(t.rows/8+t.lines/8)
		return ceil(ceil(rows, t.rows)*ceil(lines, t.lines), processors) * (max(products, accesses) + 100)
	}
	return slices.MinFunc(sumsTiles, func(a, b sumsTile) int { return cmp.Compare(cost(a), cost(b)) })
}

// ProductTiles are launches with every tile that there is, for what they ask of a GPU.
func (m Math) ProductTiles() (all []Launch) {
	for _, t := range sumsTiles {
		for _, name := range []string{"forward", "input_grad"} {
			all = append(all, t.launch(m, name, &ir.Op{Shape: []int{1, 1, 1}, Out: []int{1, 1, 1}}, 1, 1, 1, nil))
		}
	}
	return all
}

func (m Math) sums(name string, op *ir.Op, pixels, lines, phases int, args []uint64) Launch {
	return tileOfSums(pixels, lines).launch(m, name, op, pixels, lines, phases, args)
}

func (t sumsTile) launch(m Math, name string, op *ir.Op, pixels, lines, phases int, args []uint64) Launch {
	l := conv(m.inPixels("products"), fmt.Sprintf("%s_%dx%d", name, t.rows, t.lines),
		[3]int{ceil(pixels, t.rows), phases * ceil(lines, t.lines), 1}, tensorThreads, args, geometry(op))
	l.Shared = t.shared()
	return l
}

// Forward is y = (Σ w·x) + bias, rounded, behind it ReLU where act is it.
func (m Math) Forward(b Batch, op *ir.Op, act ir.Kind, x, w, bias, y Ptr) Launch {
	op = image(op)
	pixels, lines := area(op.Out)
	return m.sums("forward", op, b.Capacity*pixels, lines, 1, b.args(x, w, bias, y, I(int(act))))
}

// InputGrad is the gradient at the input, dx = Σ w·dy, added to what dx has where add is set, rounded. Where x is not 0, dx is taken on
// through the ReLU that gave x.
func (m Math) InputGrad(b Batch, op *ir.Op, dy, w, dx Ptr, add bool, x Ptr) Launch {
	op = image(op)
	phases := op.Window.StrideH * op.Window.StrideW
	rows, cols, lines := ceil(op.Shape[1], op.Window.StrideH), ceil(op.Shape[2], op.Window.StrideW), op.Shape[0]
	return m.sums("input_grad", op, b.Capacity*rows*cols, lines, phases, b.args(dy, w, dx, flag(add), x))
}

// A Turn says what the lines of weights are that are laid out.
type Turn uint8

const (
	Filters  Turn = iota // for Forward: filters, with the channels of each tap
	Channels             // for InputGrad: channels, with the filters of each tap
)

// WeightElements is how many elements Weights writes.
func WeightElements(op *ir.Op, t Turn) int {
	out, in, taps := weightShape(op)
	if t == Channels {
		return ceil(in, mostLines) * mostLines * taps * padded(out)
	}
	return ceil(out, mostLines) * mostLines * taps * padded(in)
}

func weightShape(op *ir.Op) (out, in, taps int) {
	op = image(op)
	return op.Out[0], op.Shape[0], op.Window.H * op.Window.W
}

// Weights lays an op's float32 weights out and rounds them to nearest: lines, for each the taps in order, for each the terms,
// padded with zeros.
func (m Math) Weights(op *ir.Op, t Turn, w, to Ptr) Launch {
	out, in, taps := weightShape(op)
	if t == Filters {
		n := WeightElements(op, t) / eight
		return line(m.inPixels("products"), "weights", ceil(n, 256), 256, w, to, I(in), I(out), I(taps), I(n))
	}
	const square = 32
	lines := ceil(in, mostLines) * mostLines
	return Launch{
		Module: m.inPixels("products"), Name: "weights_turned", Grid: [3]int{ceil(lines*taps, square), ceil(padded(out), square), 1},
		Block: [3]int{256, 1, 1}, Args: []uint64{w, to, I(in), I(out), I(taps), I(lines)},
	}
}
