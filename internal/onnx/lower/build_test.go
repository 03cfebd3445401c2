package lower

import (
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// A graph is a file in the making: nodes of one output each, named as their node is.
type graph struct {
	m      file.Model
	random *rand.Rand
}

// records begins a graph of records of a shape, of an open number.
func records(shape ...int) *graph {
	in := file.Value{Name: "x", Type: file.Float32, Shape: []file.Axis{{Name: "N"}}}
	for _, n := range shape {
		in.Shape = append(in.Shape, file.Axis{Length: n})
	}
	return &graph{file.Model{Opsets: map[string]int{"": 17}, Graph: file.Graph{Name: "test", Constants: map[string]*file.Tensor{}, Inputs: []file.Value{in}}}, rand.New(rand.NewPCG(1, 2))}
}

// fixedAt says that the file was exported for so many records.
func (g *graph) fixedAt(n int) *graph {
	g.m.Graph.Inputs[0].Shape[0] = file.Axis{Length: n}
	return g
}

func (g *graph) set(version int) *graph { g.m.Opsets[""] = version; return g }

// param is an initializer of random numbers, all above 0.
func (g *graph) param(name string, shape ...int) string {
	n := 1
	for _, d := range shape {
		n *= d
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(.1 + g.random.Float64())
	}
	return g.floats(name, list, shape...)
}

func (g *graph) floats(name string, list []float32, shape ...int) string {
	if shape == nil {
		shape = []int{}
	}
	g.m.Graph.Constants[name] = file.FloatTensor(name, shape, list)
	return name
}

// scalar and vector are constants in numbers.
func (g *graph) scalar(name string, v float32) string { return g.floats(name, []float32{v}) }

func (g *graph) vector(name string, list ...int64) string {
	g.m.Graph.Constants[name] = file.IntTensor(name, []int{len(list)}, list)
	return name
}

// A setting is an attribute.
type setting struct {
	name string
	a    file.Attribute
}

func number(name string, v int) setting {
	return setting{name, file.Attribute{Type: file.IsInt, Int: int64(v)}}
}

func float(name string, v float32) setting {
	return setting{name, file.Attribute{Type: file.IsFloat, Float: v}}
}

func text(name, v string) setting {
	return setting{name, file.Attribute{Type: file.IsText, Text: v}}
}

func list(name string, v ...int64) setting {
	return setting{name, file.Attribute{Type: file.IsInts, Ints: v}}
}

// node adds a node, and gives its output.
func (g *graph) node(kind, name string, in []string, settings ...setting) string {
	n := file.Node{Name: name, Kind: kind, Inputs: in, Outputs: []string{name}, Attributes: map[string]file.Attribute{}}
	for _, s := range settings {
		n.Attributes[s.name] = s.a
	}
	g.m.Graph.Nodes = append(g.m.Graph.Nodes, n)
	return name
}

func in(names ...string) []string { return names }

// dense adds a layer with a bias.
func (g *graph) dense(x, name string, from, to int) string {
	return g.node("Gemm", name, in(x, g.param(name+".weight", to, from), g.param(name+".bias", to)), number("transB", 1))
}

// conv adds a 3×3 convolution that keeps the image's sides.
func (g *graph) conv(x, name string, from, to int) string {
	return g.node("Conv", name, in(x, g.param(name+".weight", to, from, 3, 3), g.param(name+".bias", to)), list("pads", 1, 1, 1, 1))
}

// done declares outputs.
func (g *graph) done(names ...string) *file.Model {
	for _, name := range names {
		g.m.Graph.Outputs = append(g.m.Graph.Outputs, file.Value{Name: name, Type: file.Float32})
	}
	return &g.m
}

// lowered lowers a file that must lower.
func lowered(t *testing.T, m *file.Model, c Choices) *Network {
	t.Helper()
	n, err := Lower(m, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
