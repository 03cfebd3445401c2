package export

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx"
)

// operations has every kind of op that is written, as operations of set 17.
var operations = map[ir.Kind]func(c *call) onnx.Value{
	ir.Conv: func(c *call) onnx.Value {
		return c.Op("Conv", c.all(), append(window(c.op.Window), onnx.Ints("dilations", c.op.Window.DilationH, c.op.Window.DilationW))...)
	},
	ir.Dense: func(c *call) onnx.Value {
		if len(c.op.Shape) > 1 {
			c.x[0] = c.Reshape(c.x[0], ir.Size(c.op.Shape))
		}
		return c.Op("Gemm", c.all(), onnx.Int("transB", 1))
	},
	ir.ReLU:    plain("Relu"),
	ir.Tanh:    plain("Tanh"),
	ir.Sigmoid: plain("Sigmoid"),
	ir.Add:     plain("Add"),
	ir.LeakyReLU: func(c *call) onnx.Value {
		return c.Op("LeakyRelu", c.x, onnx.Float("alpha", c.op.Slope))
	},
	ir.GroupNorm: groupNorm,
	ir.LayerNorm: func(c *call) onnx.Value {
		return c.Op("LayerNormalization", c.all(), onnx.Int("axis", -1), onnx.Float("epsilon", float32(c.op.Epsilon)))
	},
	ir.GELU: func(c *call) onnx.Value {
		erf := c.do("Erf", c.do("Mul", c.x[0], c.Scalar(math.Sqrt2/2)))
		return c.do("Mul", c.do("Mul", c.x[0], c.Scalar(.5)), c.do("Add", erf, c.Scalar(1)))
	},
	ir.MaxPool: func(c *call) onnx.Value { return c.Op("MaxPool", c.x, window(c.op.Window)...) },
	ir.AvgPool: func(c *call) onnx.Value {
		return c.Op("AveragePool", c.x, append(window(c.op.Window), onnx.Int("count_include_pad", 1))...)
	},

	ir.Reflect: func(c *call) onnx.Value {
		w := c.op.Window
		return c.Op("Pad", []onnx.Value{c.x[0], c.Numbers(0, 0, w.PadTop, w.PadLeft, 0, 0, w.PadBottom, w.PadRight)}, onnx.String("mode", "reflect"))
	},
	ir.Planes:  planes,
	ir.Modulus: modulus,
	ir.Concat:  concat,
	ir.Pick: func(c *call) onnx.Value {
		index := make([]int, len(c.op.Index))
		for i, k := range c.op.Index {
			index[i] = int(k)
		}
		return c.Reshape(c.Gather(c.Reshape(c.x[0], ir.Size(c.op.Shape)), 1, index...), c.op.Out...)
	},
	ir.Affine: func(c *call) onnx.Value {
		x := c.x[0]
		if c.weight != "" {
			x = c.do("Mul", x, c.weight)
		}
		if c.bias != "" {
			x = c.do("Add", x, c.bias)
		}
		return x
	},
	ir.Contrast: contrast,
	ir.Divide: func(c *call) onnx.Value {
		plane := append([]int{1}, c.op.Shape[1:]...)
		return c.do("Div", c.x[0], c.Reshape(c.x[1], plane...))
	},
	ir.Unit:   unit,
	ir.Deskew: deskew,
}

// plain is an operation without settings.
func plain(kind string) func(c *call) onnx.Value {
	return func(c *call) onnx.Value { return c.Op(kind, c.x) }
}

func window(w ir.Window) []onnx.Attribute {
	return []onnx.Attribute{
		onnx.Ints("kernel_shape", w.H, w.W), onnx.Ints("strides", w.StrideH, w.StrideW),
		onnx.Ints("pads", w.PadTop, w.PadLeft, w.PadBottom, w.PadRight),
	}
}

// groupNorm normalizes each group as if it were a channel, since operator set 17 has no other: then
// come the channels' own weights.
func groupNorm(c *call) onnx.Value {
	op, all, channels := c.op, ir.Size(c.op.Shape), c.op.Shape[0]
	groups := c.Reshape(c.x[0], op.Groups, all/op.Groups)
	one, zero := slices.Repeat([]float32{1}, op.Groups), make([]float32, op.Groups)
	x := c.Op("InstanceNormalization", []onnx.Value{groups, c.Floats("", []int{op.Groups}, one), c.Floats("", []int{op.Groups}, zero)}, onnx.Float("epsilon", float32(op.Epsilon)))
	x = c.Reshape(x, channels, all/channels)
	for i, v := range c.all()[1:] {
		x = c.do([]string{"Mul", "Add"}[i], x, c.do("Unsqueeze", v, c.Numbers(1)))
	}
	return c.Reshape(x, op.Shape...)
}

// planes takes every channel for an image by itself.
func planes(c *call) onnx.Value {
	w := c.op.Window
	x := c.Op("Conv", []onnx.Value{c.Reshape(c.x[0], 1, c.op.Shape[1], c.op.Shape[2]), c.weight}, onnx.Ints("strides", w.StrideH, w.StrideW))
	return c.Reshape(x, c.op.Out...)
}

// modulus takes every group for an example by itself, with two values of each element.
func modulus(c *call) onnx.Value {
	parts := c.Reshape(c.x[0], 2, ir.Size(c.op.Out)/c.op.Groups)
	return c.Reshape(c.Op("ReduceL2", []onnx.Value{parts}, onnx.Ints("axes", 1), onnx.Int("keepdims", 0)), c.op.Out...)
}

// concat takes every group for an example by itself. Of one group, those are the examples.
func concat(c *call) onnx.Value {
	var parts []onnx.Value
	for i, x := range c.x {
		parts = append(parts, c.Reshape(x, c.sizes[i]/c.op.Groups))
	}
	return c.Reshape(c.Op("Concat", parts, onnx.Int("axis", 1)), c.op.Out...)
}

// contrast has means by convolutions.
func contrast(c *call) onnx.Value {
	w, x := c.op.Window, c.x[0]
	n := c.op.Shape[0] * w.H * w.W
	means := c.Floats("", []int{1, c.op.Shape[0], w.H, w.W}, slices.Repeat([]float32{1 / float32(n)}, n))
	mean := func(x onnx.Value) onnx.Value {
		return c.Op("Conv", []onnx.Value{x, means}, onnx.Ints("strides", w.StrideH, w.StrideW))
	}
	first, second := mean(x), mean(c.do("Mul", x, x))
	variance := c.do("Relu", c.do("Sub", second, c.do("Mul", first, first)))
	return c.do("Sqrt", c.do("Add", variance, c.Scalar(float32(c.op.Epsilon))))
}

// unit leaves a value of zeros as it is.
func unit(c *call) onnx.Value {
	const least = 1e-30 // of a square
	x := c.Reshape(c.x[0], ir.Size(c.op.Shape))
	square := c.Op("ReduceSumSquare", []onnx.Value{x}, onnx.Ints("axes", 1))
	length := c.do("Sqrt", c.do("Max", square, c.Scalar(least)))
	return c.Reshape(c.do("Mul", x, c.do("Div", c.Scalar(float32(c.op.Norm)), length)), c.op.Out...)
}

func deskew(c *call) onnx.Value {
	colors, height, width := c.op.Shape[0], c.op.Shape[1], c.op.Shape[2]
	plane := height * width
	sums := make([]float32, colors*plane*5)                             // from pixels to the sums of a slant
	places, heights := make([]float32, 2*plane), make([]float32, plane) // of GridSample: from −1 to 1, across and down
	for i := range colors * plane {
		y, x := float64(i/width%height)-float64(height-1)/2, float64(i%width)-float64(width-1)/2
		for k, v := range []float64{1, y, x, y * y, y * x} {
			sums[5*i+k] = float32(v)
		}
		if i < plane {
			places[2*i], places[2*i+1] = float32(2*x/float64(max(width-1, 1))), float32(2*y/float64(max(height-1, 1)))
			heights[i] = float32(y)
		}
	}
	all := c.do("MatMul", c.Reshape(c.x[0], colors*plane), c.Floats("", []int{colors * plane, 5}, sums))
	sum := func(k int) onnx.Value { return c.Reshape(c.Gather(all, 1, k), 1, 1, 1) }
	mass := c.do("Max", sum(0), c.Scalar(ir.DeskewLeast))
	middle := c.do("Div", sum(1), mass)
	covariance := c.do("Sub", sum(4), c.do("Mul", middle, sum(2)))
	variance := c.do("Add", c.do("Sub", sum(3), c.do("Mul", middle, sum(1))), c.do("Mul", mass, c.Scalar(ir.DeskewFloor)))
	by := c.do("Mul", c.do("Div", covariance, variance), c.do("Sub", c.Floats("", []int{height, width, 1}, heights), middle))
	grid := c.do("Add", c.Floats("", []int{height, width, 2}, places), c.do("Mul", by, c.Floats("", []int{2}, []float32{2 / float32(max(width-1, 1)), 0})))
	return c.Op("GridSample", []onnx.Value{c.x[0], grid}, onnx.Int("align_corners", 1))
}
