package file

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The numbers of scripts/onnx_format.py.
var (
	wantFloats = []float32{1.5, -2.25, 0, 65504, 1. / (1 << 24), -3.140625}
	wantInts   = map[string][]int64{
		"int8": {0, 1, 127, -128, 5, -1}, "uint8": {0, 1, 127, 128, 5, 1}, "bool": {0, 1, 1, 0, 1, 1},
		"int32": {0, 1 << 20, 127 << 20, -128 << 20, 5 << 20, -1 << 20},
		"int64": {0, 1 << 40, 127 << 40, -128 << 40, 5 << 40, -1 << 40},
	}
)

// checkConstants compares constants of every type with what was put into them.
func checkConstants(t *testing.T, g *Graph, form string) {
	t.Helper()
	for _, kind := range []string{"float", "float16", "bfloat16", "double"} {
		want := slices.Clone(wantFloats)
		if kind == "bfloat16" { // of eight bits
			want[3], want[5] = 65536, -3.140625
		}
		got, err := g.Constants[kind+form].Floats()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s%s: %v %v, want %v", kind, form, got, err, want)
		}
		if _, err := g.Constants[kind+form].Ints(); err == nil {
			t.Errorf("%s%s was read as whole numbers", kind, form)
		}
	}
	for kind, want := range wantInts {
		got, err := g.Constants[kind+form].Ints()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s%s: %v %v, want %v", kind, form, got, err, want)
		}
		if _, err := g.Constants[kind+form].Floats(); err == nil {
			t.Errorf("%s%s was read as floating-point numbers", kind, form)
		}
	}
}

// Files that the package onnx wrote are read as it was told to write them, and once more after this package wrote them.
func TestTypes(t *testing.T) {
	m, err := Read("testdata/types.onnx")
	if err != nil {
		t.Fatal(err)
	}
	checkTypes(t, m)
	// The attribute with a graph cannot be written.
	if _, err := m.Encode(); err == nil {
		t.Error("a graph within a graph was written")
	}
	delete(m.Graph.Nodes[0].Attributes, "graph")
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(b, "")
	if err != nil {
		t.Fatal(err)
	}
	again.Graph.Nodes[0].Attributes["graph"] = Attribute{}
	again.Graph.Outputs[1].Type = 0
	checkTypes(t, again)
}

func checkTypes(t *testing.T, m *Model) {
	t.Helper()
	checkConstants(t, &m.Graph, "_raw")
	checkConstants(t, &m.Graph, "_listed")
	if v, err := m.Graph.Constants["scalar"].Floats(); err != nil || !slices.Equal(v, []float32{7}) {
		t.Errorf("scalar: %v %v", v, err)
	}
	if v, err := m.Graph.Constants["empty"].Ints(); err != nil || len(v) != 0 {
		t.Errorf("empty: %v %v", v, err)
	}
	if m.Producer != "made by hand 1" || !maps.Equal(m.Opsets, map[string]int{"": 17, "ai.onnx.ml": 3}) {
		t.Errorf("%q %v", m.Producer, m.Opsets)
	}
	if len(m.Graph.Nodes) != 2 {
		t.Fatal(m.Graph.Nodes)
	}
	n := m.Graph.Nodes[0]
	tensor := n.Attributes["tensor"].Tensor
	if v, err := tensor.Ints(); err != nil || !slices.Equal(v, []int64{8, -9}) {
		t.Errorf("tensor: %v %v", v, err)
	}
	delete(n.Attributes, "tensor")
	got := fmt.Sprintf("%q %q %q %q %q", n.Name, n.Kind, n.Domain, n.Inputs, n.Outputs)
	if want := `"all" "All" "ai.onnx.ml" ["x" "" "scalar"] ["y" ""]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := map[string]Attribute{
		"a_float": {Type: IsFloat, Float: .5}, "an_int": {Type: IsInt, Int: -3}, "a_text": {Type: IsText, Text: "valid"},
		"floats": {Type: IsFloats, Floats: []float32{1, -2}}, "ints": {Type: IsInts, Ints: []int64{3, -4, 1 << 40}},
		"texts": {Type: IsTexts, Texts: []string{"a", "b"}}, "graph": {},
	}
	bare := maps.Clone(n.Attributes)
	graph := bare["graph"]
	graph.encoded = nil
	bare["graph"] = graph
	if d := cmp.Diff(want, bare, cmp.AllowUnexported(Attribute{})); d != "" {
		t.Error(d)
	}
	n.Attributes["tensor"] = Attribute{Type: IsTensor, Tensor: tensor}
	values := []Value{{"x", Float32, []Axis{{0, "N"}, {3, ""}, {}}}}
	if d := cmp.Diff(values, m.Graph.Inputs); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Value{{Name: "z", Type: Float32}, {Name: "y"}}, m.Graph.Outputs); d != "" {
		t.Error(d)
	}
}

func TestBeside(t *testing.T) {
	m, err := Read("testdata/beside.onnx")
	if err != nil {
		t.Fatal(err)
	}
	checkConstants(t, &m.Graph, "_raw")
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(b, "")
	if err != nil {
		t.Fatal(err)
	}
	checkConstants(t, &again.Graph, "_raw")
}
