package reference

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// products visits every product of a convolution: output element o reads input
// element i through weight k.
func products(op *ir.Op, f func(o, i, k int)) {
	win := op.Window
	c, h, w := op.Shape[0], op.Shape[1], op.Shape[2]
	o := 0
	for oc := range op.Out[0] {
		for oy := range op.Out[1] {
			for ox := range op.Out[2] {
				for ic := range c {
					for ky := range win.H {
						y := oy*win.StrideH - win.PadTop + ky*win.DilationH
						if y < 0 || y >= h {
							continue
						}
						row, k := (ic*h+y)*w, ((oc*c+ic)*win.H+ky)*win.W
						for kx := range win.W {
							if x := ox*win.StrideW - win.PadLeft + kx*win.DilationW; x >= 0 && x < w {
								f(o, row+x, k+kx)
							}
						}
					}
				}
				o++
			}
		}
	}
}

// Windows of all kinds have the bits of the definition, product by product.
func TestConvolve(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 1))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = random.NormFloat64()
		}
		return x
	}
	for _, window := range []ir.Window{
		ir.Square(1, 1, 0), ir.Square(3, 1, 1), ir.Square(5, 2, 2), ir.Square(3, 1, 4), ir.Square(2, 3, 0),
		{H: 2, W: 3, StrideH: 3, StrideW: 2, PadTop: 1, PadBottom: 2, PadLeft: 3, PadRight: 0, DilationH: 2, DilationW: 3},
	} {
		op := &ir.Op{Kind: ir.Conv, Shape: []int{3, 9, 8}, Window: window}
		oh, ow := window.Out(9, 8)
		op.Out = []int{5, oh, ow} // of which correlate takes four together
		sizes := [...]int{5 * oh * ow, 3 * 9 * 8, 5 * 3 * window.H * window.W}
		y, x, w := draw(sizes[0]), draw(sizes[1]), draw(sizes[2])
		for name, run := range map[string]struct {
			size int
			got  func(sum []float64)
			want func(sum []float64, o, i, k int)
		}{
			"outputs":          {sizes[0], func(sum []float64) { convolve(op, sum, x, w) }, func(sum []float64, o, i, k int) { sum[o] += w[k] * x[i] }},
			"input gradients":  {sizes[1], func(sum []float64) { deconvolve(op, sum, y, w) }, func(sum []float64, o, i, k int) { sum[i] += w[k] * y[o] }},
			"weight gradients": {sizes[2], func(sum []float64) { correlate(op, sum, y, x) }, func(sum []float64, o, i, k int) { sum[k] += y[o] * x[i] }},
		} {
			got := draw(run.size)
			want := slices.Clone(got)
			products(op, func(o, i, k int) { run.want(want, o, i, k) })
			if run.got(got); !slices.Equal(got, want) {
				t.Errorf("window %+v, %s: other bits", window, name)
			}
		}
	}
}
