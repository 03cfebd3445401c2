package trained

import (
	"io"
	"math"
	"slices"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// ExportONNX writes the model in the ONNX format, of operator set 17, with all that comes before the network.
// Its input is `image`, bytes of shape N, C, H, W; of a model of floating-point images these values; of a table it is `features`, values of
// shape N, columns. Its output is `logits`: a value for each class or, of a regression, the value in the units of its label. Features that are a Go function are refused.
func (m *Model) ExportONNX(w io.Writer) error {
	g := onnx.New(m.config.Model)
	x, err := m.inputGraph(g)
	if err != nil {
		return err
	}
	p := m.network.Program
	values, shapes := []onnx.Value{x}, [][]int{p.Shape}
	if flat := m.front != nil || m.config.Norm() > 0; !flat || len(p.Shape) > 1 {
		values[0] = g.Reshape(x, p.Shape...)
	}
	weights := make([]onnx.Value, len(p.Params))
	for i, q := range p.Params {
		weights[i] = g.Floats(q.Name, q.Shape, m.params[q.Offset:][:q.Size()])
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		var in []onnx.Value
		for _, v := range op.In {
			x := values[v]
			if !slices.Equal(shapes[v], op.Shape) {
				x = g.Reshape(x, op.Shape...)
			}
			in = append(in, x)
		}
		for _, q := range []int{op.Weight, op.Bias} {
			if q != ir.None {
				in = append(in, weights[q])
			}
		}
		write := operations[op.Kind]
		if write == nil {
			return usage.Errorf("model %s has an operation, %s, that the export does not know; run the model by privgrad", m.config.Model, op.Kind)
		}
		values, shapes = append(values, write(g, op, in)), append(shapes, op.Out)
	}
	out, err := m.unscaled(g, values[p.Logits()])
	if err != nil {
		return err
	}
	g.Output("logits", out, p.Outputs())
	return g.Write(w, "privgrad", m.facts["privgrad_version"], m.facts)
}

// unscaled brings the output of a regression to the units of its label.
func (m *Model) unscaled(g *onnx.Graph, z onnx.Value) (onnx.Value, error) {
	if m.bounds == (datasets.Bounds{}) {
		return z, nil
	}
	low, width := float32(m.bounds[0]), float32(m.bounds.Width())
	if low-low != 0 || width-width != 0 {
		return "", usage.Errorf("the labels of %s have bounds %v, and the ONNX file holds float32, which are at most %.2g: run the model by privgrad predict, or train on labels in another unit", m.dir, m.bounds, math.MaxFloat32)
	}
	return g.Op("Add", []onnx.Value{g.Op("Mul", []onnx.Value{z, g.Scalar(width)}), g.Scalar(low)}), nil
}

// inputGraph declares the input and gives what the network reads.
func (m *Model) inputGraph(g *onnx.Graph) (onnx.Value, error) {
	scaled := func(x onnx.Value, scale float32) onnx.Value {
		return g.Op("Mul", []onnx.Value{g.Cast(x, onnx.Float32), g.Scalar(scale)})
	}
	var x onnx.Value
	switch {
	case m.table():
		x = g.Input("features", onnx.Float32, m.shape[2])
	case m.reading == rundir.AsIs:
		x = g.Input("image", onnx.Float32, m.shape[:]...)
	default:
		x = g.Input("image", onnx.Uint8, m.shape[:]...)
		if m.reading == rundir.Fraction {
			x = scaled(x, 1.0/255)
		} else {
			x = g.Op("Add", []onnx.Value{scaled(x, 1/127.5), g.Scalar(-1)})
		}
	}
	if m.front != nil {
		var err error
		if x, err = m.front.ONNX(g, x); err != nil {
			return "", err
		}
	}
	if norm := m.config.Norm(); norm > 0 {
		x = bounded(g, g.Reshape(x, ir.Size(m.network.Program.Shape)), float32(norm))
	}
	return x, nil
}

// bounded scales rows down to a norm, as package tables does.
func bounded(g *onnx.Graph, x onnx.Value, norm float32) onnx.Value {
	length := g.Op("ReduceL2", []onnx.Value{x}, onnx.Ints("axes", 1), onnx.Int("keepdims", 1))
	scale := g.Op("Div", []onnx.Value{g.Scalar(norm), g.Op("Max", []onnx.Value{length, g.Scalar(norm)})})
	return g.Op("Mul", []onnx.Value{x, scale})
}

// operations has, for each kind of operation, the one of ONNX with its inputs: values, weight and bias.
var operations = map[ir.Kind]func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value{
	ir.Conv: func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
		return g.Op("Conv", in, append(window(op.Window), onnx.Ints("dilations", op.Window.DilationH, op.Window.DilationW))...)
	},
	ir.Dense: func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
		if len(op.Shape) > 1 {
			in[0] = g.Reshape(in[0], ir.Size(op.Shape))
		}
		return g.Op("Gemm", in, onnx.Int("transB", 1))
	},
	ir.ReLU:    plain("Relu"),
	ir.Tanh:    plain("Tanh"),
	ir.Sigmoid: plain("Sigmoid"),
	ir.Add:     plain("Add"),
	ir.LeakyReLU: func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
		return g.Op("LeakyRelu", in, onnx.Float("alpha", float32(op.Slope)))
	},
	ir.GroupNorm: groupNorm,
	ir.MaxPool: func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
		return g.Op("MaxPool", in, window(op.Window)...)
	},
	ir.AvgPool: func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
		return g.Op("AveragePool", in, append(window(op.Window), onnx.Int("count_include_pad", 1))...)
	},
}

// groupNorm normalizes each group as if it were a channel, since operator set 17 has no other: then
// come the channels' own weights.
func groupNorm(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
	all, channels := ir.Size(op.Shape), op.Shape[0]
	groups := g.Reshape(in[0], op.Groups, all/op.Groups)
	one, zero := slices.Repeat([]float32{1}, op.Groups), make([]float32, op.Groups)
	x := g.Op("InstanceNormalization", []onnx.Value{groups, g.Floats("", []int{op.Groups}, one), g.Floats("", []int{op.Groups}, zero)}, onnx.Float("epsilon", float32(op.Epsilon)))
	x = g.Reshape(x, channels, all/channels)
	for i, kind := range []string{"Mul", "Add"}[:len(in)-1] {
		x = g.Op(kind, []onnx.Value{x, g.Op("Unsqueeze", []onnx.Value{in[1+i], g.Numbers(1)})})
	}
	return g.Reshape(x, op.Shape...)
}

// plain is an operation without settings.
func plain(kind string) func(g *onnx.Graph, op *ir.Op, in []onnx.Value) onnx.Value {
	return func(g *onnx.Graph, _ *ir.Op, in []onnx.Value) onnx.Value { return g.Op(kind, in) }
}

func window(w ir.Window) []onnx.Attribute {
	return []onnx.Attribute{
		onnx.Ints("kernel_shape", w.H, w.W), onnx.Ints("strides", w.StrideH, w.StrideW),
		onnx.Ints("pads", w.PadTop, w.PadLeft, w.PadBottom, w.PadRight),
	}
}
