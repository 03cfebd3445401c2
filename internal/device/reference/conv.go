package reference

import "github.com/privgrad/privgrad/internal/ir"

var conv = operation{
	forward: func(c *call) {
		c.begin()
		convolve(c.op, c.y, c.x[0], c.weight)
	},
	back: func(c *call) {
		taps(c.op, func(o, i, k int) { c.dx[0][i] += c.weight[k] * c.dy[o] })
	},
	grad: func(c *call) []float64 {
		_, k, _ := c.op.Columns()
		g := make([]float64, c.op.Out[0]*k)
		taps(c.op, func(o, i, k int) { g[k] += c.dy[o] * c.x[0][i] })
		return append(g, c.biases()...)
	},
}

// convolve adds every product that taps visits to y, in its order for each output: the bits are the same, and lines of
// outputs go together, which is many times as fast.
func convolve(op *ir.Op, y, x, weights []float64) {
	win := op.Window
	c, h, w := op.Shape[0], op.Shape[1], op.Shape[2]
	oh, ow := op.Out[1], op.Out[2]
	for oc := range op.Out[0] {
		for k := range c * win.H * win.W {
			ic, ky, kx := k/(win.H*win.W), k/win.W%win.H, k%win.W
			weight := weights[oc*c*win.H*win.W+k]
			left := kx*win.DilationW - win.PadLeft
			first := 0 // output that reads a pixel
			if left < 0 {
				first = (-left + win.StrideW - 1) / win.StrideW
			}
			for oy := range oh {
				row := oy*win.StrideH - win.PadTop + ky*win.DilationH
				if row < 0 || row >= h {
					continue
				}
				in, out := x[(ic*h+row)*w:][:w], y[(oc*oh+oy)*ow:][:ow]
				for ox, at := first, first*win.StrideW+left; ox < ow && at < w; ox, at = ox+1, at+win.StrideW {
					out[ox] += weight * in[at]
				}
			}
		}
	}
}

// taps visits every product of a convolution: output element o reads input
// element i through weight k. Padding is zero and visited by nobody.
func taps(op *ir.Op, f func(o, i, k int)) {
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
