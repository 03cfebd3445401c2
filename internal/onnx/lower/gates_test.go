package lower

import (
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// Between the ends of a branch nothing can be frozen alone.
func TestGates(t *testing.T) {
	for cut, want := range map[string]string{
		"":    "c1 bn1 r1 bn2 sum r2 pool f d", // not c2 and bn3, beside which bn2 goes on to sum
		"bn3": "sum r2 pool f d",
	} {
		l := newLowerer(backbone(nil), Choices{}, trained)
		l.input, l.output = cut, "d"
		l.reach("d")
		var names []string
		for _, i := range l.gates() {
			names = append(names, nameOf(l.nodes[i]))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("behind %q: %s, want %s", cut, got, want)
		}
	}
	// What is advised can be done: where a refused node stands in a branch, the next behind it is named.
	m := backbone(nil)
	for i := range m.Graph.Nodes {
		if m.Graph.Nodes[i].Name == "bn3" {
			m.Graph.Nodes[i].Inputs[0] = "odd"
			odd := file.Node{Name: "odd", Kind: "Elu", Inputs: in("c2"), Outputs: in("odd")}
			m.Graph.Nodes = slices.Insert(m.Graph.Nodes, i, odd)
			break
		}
	}
	refused(t, "in a branch", m, Choices{BatchNorm: Grouped}, "node odd (Elu) is no activation that is trained here", "use Relu, LeakyRelu, Tanh, Sigmoid or Gelu", "--freeze sum --weights-are-public")
	lowered(t, m, Choices{Weights: OfFile, Freeze: "sum"})
	refused(t, "across", m, Choices{Weights: OfFile, Freeze: "odd", BatchNorm: Frozen}, "across the cut at odd; freeze up to a node through which all passes: --freeze sum")
}
