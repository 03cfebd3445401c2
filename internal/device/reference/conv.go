package reference

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

var conv = operation{
	forward: func(c *call) {
		c.begin()
		convolve(c.op, c.y, c.x[0], c.weight)
	},
	back: func(c *call) { deconvolve(c.op, c.dx[0], c.dy, c.weight) },
	grad: func(c *call) []float64 {
		_, k, _ := c.op.Columns()
		g := make([]float64, c.op.Out[0]*k)
		correlate(c.op, g, c.dy, c.x[0])
		return append(g, c.biases()...)
	},
}

// The sums of a convolution run over lines of outputs, which is many times as fast as product by product. Each element
// gets its products in the order of the definition, outputs ascending and then weights, so that the bits are the same.

// convolve adds each weight times the input that an output reads through it to the output.
func convolve(op *ir.Op, y, x, weights []float64) {
	taps, image, stride := windowLines(op), op.Shape[1]*op.Shape[2], op.Window.StrideW
	for oc := range op.Out[0] {
		out := y[oc*op.Out[1]*op.Out[2]:]
		for ic := range op.Shape[0] {
			in := x[ic*image:][:image]
			for k, lines := range taps {
				weight := weights[(oc*op.Shape[0]+ic)*len(taps)+k]
				for _, l := range lines {
					axpy(out[l.o:][:l.n], weight, in[l.i:], stride)
				}
			}
		}
	}
}

func axpy(y []float64, a float64, x []float64, stride int) {
	if stride == 1 {
		for i, v := range x[:len(y)] {
			y[i] += a * v
		}
		return
	}
	for i := range y {
		y[i] += a * x[i*stride]
	}
}

// deconvolve adds each weight times the output's gradient to the gradient of the input that it reads. Of an output
// channel, a later weight takes an input to an earlier output.
func deconvolve(op *ir.Op, dx, dy, weights []float64) {
	taps, image, stride := windowLines(op), op.Shape[1]*op.Shape[2], op.Window.StrideW
	for oc := range op.Out[0] {
		out := dy[oc*op.Out[1]*op.Out[2]:]
		for ic := range op.Shape[0] {
			in := dx[ic*image:][:image]
			for k, lines := range slices.Backward(taps) {
				weight := weights[(oc*op.Shape[0]+ic)*len(taps)+k]
				for _, l := range lines {
					to := in[l.i:]
					for i, d := range out[l.o:][:l.n] {
						to[i*stride] += weight * d
					}
				}
			}
		}
	}
}

// correlate adds each output's gradient times the input that it reads to the gradient of the weight. Four output
// channels go together, since a sum waits for each of its products; the last of them stands in for those that are not there.
func correlate(op *ir.Op, g, dy, x []float64) {
	taps, image, positions, stride := windowLines(op), op.Shape[1]*op.Shape[2], op.Out[1]*op.Out[2], op.Window.StrideW
	for first := 0; first < op.Out[0]; first += 4 {
		var at [4]int
		var out [4][]float64
		for j := range at {
			oc := min(first+j, op.Out[0]-1)
			at[j], out[j] = oc*op.Shape[0]*len(taps), dy[oc*positions:][:positions]
		}
		for ic := range op.Shape[0] {
			in := x[ic*image:][:image]
			for k, lines := range taps {
				k += ic * len(taps)
				a, b, c, d := g[at[0]+k], g[at[1]+k], g[at[2]+k], g[at[3]+k]
				for _, l := range lines {
					from, n := in[l.i:], l.n
					da, db, dc, dd := out[0][l.o:][:n], out[1][l.o:][:n], out[2][l.o:][:n], out[3][l.o:][:n]
					for i := range n {
						v := from[i*stride]
						a += da[i] * v
						b += db[i] * v
						c += dc[i] * v
						d += dd[i] * v
					}
				}
				g[at[0]+k], g[at[1]+k], g[at[2]+k], g[at[3]+k] = a, b, c, d
			}
		}
	}
}

// line is n outputs of a channel from o on that read inputs of a channel from i on, StrideW apart.
type line struct{ o, i, n int }

// windowLines has the lines of each tap of a window. Padding is zero and visited by nobody.
func windowLines(op *ir.Op) [][]line {
	win, h, w := op.Window, op.Shape[1], op.Shape[2]
	taps := make([][]line, win.H*win.W)
	for k := range taps {
		ky, kx := k/win.W, k%win.W
		left := kx*win.DilationW - win.PadLeft // input that output 0 reads
		first := 0                             // output that reads an input
		if left < 0 {
			first = (-left + win.StrideW - 1) / win.StrideW
		}
		n := min(op.Out[2], (w-left+win.StrideW-1)/win.StrideW) - first
		for oy := range op.Out[1] {
			if row := oy*win.StrideH - win.PadTop + ky*win.DilationH; n > 0 && row >= 0 && row < h {
				taps[k] = append(taps[k], line{oy*op.Out[2] + first, row*w + first*win.StrideW + left, n})
			}
		}
	}
	return taps
}
