package reference

// planes is a convolution of one channel for each of them.
var planes = operation{forward: func(c *call) {
	channels, one := c.op.Shape[0], *c.op
	one.Shape = []int{1, c.op.Shape[1], c.op.Shape[2]}
	one.Out = []int{c.op.Out[0] / channels, c.op.Out[1], c.op.Out[2]}
	in, out := len(c.x[0])/channels, len(c.y)/channels
	for k := range channels {
		convolve(&one, c.y[k*out:(k+1)*out], c.x[0][k*in:(k+1)*in], c.weight)
	}
}}
