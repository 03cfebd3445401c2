package trained

import (
	"bytes"
	"io"

	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/rundir"
)

// exportJoined puts three graphs into one file: what reads a record, the frozen part as its own file has it, and what was trained.
func (m *Model) exportJoined(w io.Writer) error {
	text, err := rundir.Dir(m.dir).ReadFrozen()
	if err != nil {
		return err
	}
	frozen, err := file.Decode(text, "")
	if err != nil {
		return err
	}
	before, err := m.part(func(g *onnx.Graph) error {
		x := m.recordGraph(g)
		if n := m.config.Normalization(); !n.Identity() {
			scale, shift := n.Affine()
			of := []int{1}
			if len(scale) > 1 {
				of = []int{len(scale), 1, 1}
			}
			x = g.Op("Add", []onnx.Value{g.Op("Mul", []onnx.Value{x, g.Floats("scale", of, scale)}), g.Floats("shift", of, shift)})
		}
		g.Output("record", x, m.shape[:]...)
		return nil
	})
	if err != nil {
		return err
	}
	out := m.front.Out()
	after, err := m.part(func(g *onnx.Graph) error {
		return m.outputGraph(g, kept(g, g.Input("row", onnx.Float32, out[:]...)))
	})
	if err != nil {
		return err
	}
	whole, err := file.Join(m.config.Model, before, frozen, after)
	if err != nil {
		return err
	}
	whole.Producer, whole.Metadata = "privgrad "+m.facts["privgrad_version"], m.facts
	text, err = whole.Encode()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// part is a graph as a model.
func (m *Model) part(build func(g *onnx.Graph) error) (*file.Model, error) {
	g := onnx.New(m.config.Model)
	if err := build(g); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := g.Write(&b, "privgrad", "", nil); err != nil {
		return nil, err
	}
	return file.Decode(b.Bytes(), "")
}
