package reference

import "github.com/privgrad/privgrad/internal/ir"

// operation is an op's formula for one example.
type operation struct {
	forward func(c *call) // writes y, which is zero
	back    func(c *call) // adds to dx what the op passes on of dy; nil for an op without a gradient
	// grad is the gradient of the weight, then of the bias; nil for an op without parameters.
	grad func(c *call) []float64
}

// call is an op at one example. What an op has not is nil.
type call struct {
	program      *ir.Program
	op           *ir.Op
	x            [][]float64 // the values that it reads
	y, dy        []float64   // its output, and the loss gradient there
	dx           [][]float64 // the loss gradients at the values that it reads
	weight, bias []float64
}

// operations has every op of this device.
var operations = map[ir.Kind]operation{
	ir.Conv:      conv,
	ir.Dense:     dense,
	ir.ReLU:      relu,
	ir.Tanh:      tanh,
	ir.Sigmoid:   sigmoid,
	ir.MaxPool:   maxPool,
	ir.AvgPool:   avgPool,
	ir.Add:       sum,
	ir.LeakyReLU: leakyReLU,
	ir.GroupNorm: groupNorm,
	ir.LayerNorm: layerNorm,
	ir.GELU:      gelu,
	ir.Reflect:   reflect,
	ir.Planes:    planes,
	ir.Modulus:   modulus,
	ir.Concat:    concat,
	ir.Pick:      pick,
	ir.Affine:    affine,
	ir.Contrast:  contrast,
	ir.Divide:    divide,
	ir.Unit:      toNorm,
	ir.Deskew:    deskew,
}

// biases are the gradient of a bias, one value a channel, that was added to every position.
func (c *call) biases() []float64 {
	if c.op.Bias == ir.None {
		return nil
	}
	g := make([]float64, c.op.Out[0])
	for o, d := range c.dy {
		g[o*len(g)/len(c.dy)] += d
	}
	return g
}

// begin writes the bias, one value a channel, to every position of the output.
func (c *call) begin() {
	if c.bias == nil {
		return
	}
	for o := range c.y {
		c.y[o] = c.bias[o*len(c.bias)/len(c.y)]
	}
}
