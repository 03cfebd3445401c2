package reference

import "github.com/privgrad/privgrad/internal/ir"

var maxPool = operation{
	forward: func(c *call) {
		for o := range c.y {
			c.y[o] = c.x[0][argmax(c.op, c.x[0], o)]
		}
	},
	back: func(c *call) {
		for o, d := range c.dy {
			c.dx[0][argmax(c.op, c.x[0], o)] += d
		}
	},
}

var avgPool = operation{
	forward: func(c *call) {
		area := float64(c.op.Window.H * c.op.Window.W)
		for o := range c.y {
			window(c.op, o, func(i int) { c.y[o] += c.x[0][i] / area })
		}
	},
	back: func(c *call) {
		area := float64(c.op.Window.H * c.op.Window.W)
		for o, d := range c.dy {
			window(c.op, o, func(i int) { c.dx[0][i] += d / area })
		}
	},
}

// window visits the input elements of pool output o in row-major order.
func window(op *ir.Op, o int, f func(i int)) {
	win := op.Window
	h, w := op.Shape[1], op.Shape[2]
	c, oy, ox := o/(op.Out[1]*op.Out[2]), o/op.Out[2]%op.Out[1], o%op.Out[2]
	for ky := range win.H {
		for kx := range win.W {
			y, x := oy*win.StrideH-win.PadTop+ky*win.DilationH, ox*win.StrideW-win.PadLeft+kx*win.DilationW
			if y >= 0 && y < h && x >= 0 && x < w {
				f((c*h+y)*w + x)
			}
		}
	}
}

// argmax is the first input element, in row-major order, that no other of its
// window exceeds.
func argmax(op *ir.Op, x []float64, o int) int {
	best := -1
	window(op, o, func(i int) {
		if best < 0 || x[i] > x[best] {
			best = i
		}
	})
	return best
}
