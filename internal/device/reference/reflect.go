package reference

import "github.com/privgrad/privgrad/internal/ir"

var reflect = operation{forward: func(c *call) {
	h, w := c.op.Shape[1], c.op.Shape[2]
	rows, cols := c.op.Out[1], c.op.Out[2]
	for o := range c.y {
		y := ir.Reflected(o/cols%rows-c.op.Window.PadTop, h)
		x := ir.Reflected(o%cols-c.op.Window.PadLeft, w)
		c.y[o] = c.x[0][(o/(rows*cols)*h+y)*w+x]
	}
}}
