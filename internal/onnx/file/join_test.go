package file

import (
	"slices"
	"testing"
)

// Names that parts share stay apart, and each reads what the one before gives.
func TestJoin(t *testing.T) {
	part := func(opset int, in, out string) *Model {
		return &Model{Opsets: map[string]int{"": opset}, Graph: Graph{
			Inputs: []Value{{Name: in, Type: Float32}}, Outputs: []Value{{Name: out, Type: Float32}},
			Constants: map[string]*Tensor{"c": FloatTensor("c", []int{1}, []float32{2})},
			Nodes: []Node{
				{Name: "n", Kind: "Mul", Inputs: []string{in, "c"}, Outputs: []string{"between"}},
				{Name: "m", Kind: "Clip", Inputs: []string{"between", "", "c"}, Outputs: []string{out}},
			},
		}}
	}
	m, err := Join("whole", part(17, "image", "x"), part(20, "x", "x2"), part(13, "y", "logits"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Encode(); err != nil {
		t.Fatal(err)
	}
	made, read := map[string]bool{"image": true}, []string{}
	for name := range m.Graph.Constants {
		made[name] = true
	}
	for _, n := range m.Graph.Nodes {
		for _, v := range n.Inputs {
			if read = append(read, v); v != "" && !made[v] {
				t.Errorf("node %s reads %q, which nothing before it makes", n.Name, v)
			}
		}
		for _, v := range n.Outputs {
			if made[v] {
				t.Errorf("%s is made twice", v)
			}
			made[v] = true
		}
	}
	if len(m.Graph.Constants) != 3 || !made["logits"] || m.Opsets[""] != 20 || !slices.Contains(read, "image") || m.Graph.Inputs[0].Name != "image" || m.Graph.Outputs[0].Name != "logits" {
		t.Errorf("it is %+v", m)
	}
	if _, err := Join("none", &Model{}); err == nil {
		t.Error("a part without an input was taken")
	}
}
