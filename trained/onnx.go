package trained

import (
	"io"
	"math"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/onnx/export"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// ExportONNX writes the model in the ONNX format, of operator set 17, with all that comes before the network.
// Its input is `image`, bytes of shape N, C, H, W; of a model of floating-point images these values; of a table it is `features`, values of
// shape N, columns. Its output is `logits`: a value for each class or, of a regression, the value in the units of its label. Features that are a Go function are refused.
// Where ONNX Runtime computes the frozen part of a network, the operator set is at least the one of its file.
func (m *Model) ExportONNX(w io.Writer) error {
	if m.file != nil && m.file.ByRuntime {
		return m.exportJoined(w)
	}
	g := onnx.New(m.config.Model)
	x, err := m.inputGraph(g)
	if err != nil {
		return err
	}
	if err := m.outputGraph(g, x); err != nil {
		return err
	}
	return g.Write(w, "privgrad", m.facts["privgrad_version"], m.facts)
}

// outputGraph has the network read x, and declares the output.
func (m *Model) outputGraph(g *onnx.Graph, x onnx.Value) error {
	p := m.network.Program
	if norm := m.config.Norm(); norm > 0 {
		x = bounded(g, g.Reshape(x, ir.Size(p.Shape)), float32(norm))
	}
	if flat := m.front != nil && m.file == nil || m.config.Norm() > 0; !flat || len(p.Shape) > 1 {
		x = g.Reshape(x, p.Shape...)
	}
	logits, err := export.Program(g, p, m.params, x)
	if err != nil {
		return err
	}
	out, err := m.unscaled(g, logits)
	if err != nil {
		return err
	}
	g.Output("logits", out, p.Outputs())
	return nil
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

// inputGraph declares the input and gives what the network reads, but for its norm.
func (m *Model) inputGraph(g *onnx.Graph) (onnx.Value, error) {
	x := m.recordGraph(g)
	if m.front == nil {
		return x, nil
	}
	p, constants := m.front.Program()
	if p == nil {
		return "", usage.Errorf("features %s are a Go function, which ONNX cannot hold; run the model by privgrad, or train with built-in features", m.front.Spec().Kind)
	}
	rows, err := export.Program(g, p, constants, x)
	return kept(g, rows), err
}

// kept are rows with the precision that they are kept in.
func kept(g *onnx.Graph, rows onnx.Value) onnx.Value {
	return g.Cast(g.Cast(rows, onnx.Float16), onnx.Float32)
}

// recordGraph declares the input and gives its values as a network or a front end reads them.
func (m *Model) recordGraph(g *onnx.Graph) onnx.Value {
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
	if r := m.imported(); r != nil && (r.Scale != 1 || r.Shift != 0) {
		x = g.Op("Add", []onnx.Value{g.Op("Mul", []onnx.Value{x, g.Scalar(r.Scale)}), g.Scalar(r.Shift)})
	}
	return x
}

// bounded scales rows down to a norm, as package tables does.
func bounded(g *onnx.Graph, x onnx.Value, norm float32) onnx.Value {
	square := g.Op("ReduceSum", []onnx.Value{g.Op("Mul", []onnx.Value{x, x}), g.Numbers(1)}, onnx.Int("keepdims", 1))
	length := g.Op("Sqrt", []onnx.Value{square})
	scale := g.Op("Div", []onnx.Value{g.Scalar(norm), g.Op("Max", []onnx.Value{length, g.Scalar(norm)})})
	return g.Op("Mul", []onnx.Value{x, scale})
}
