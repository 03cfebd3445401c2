package lower

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// Numbers in front of the first layer are what the network reads of a value from 0 to 1, be it given as this value or as a byte.
func TestReading(t *testing.T) {
	logits := func(g *graph, x string) *file.Model {
		return g.done(g.dense(g.node("Flatten", "f", in(x)), "d", 144, 3))
	}
	for what, c := range map[string]struct {
		build func(g *graph) string
		bytes bool
		want  Reading
	}{
		"as it is": {func(g *graph) string { return "x" }, false, Reading{1, 0}},
		"a byte":   {func(g *graph) string { return g.node("Cast", "c", in("x"), number("to", 1)) }, true, Reading{255, 0}},
		"times":    {func(g *graph) string { return g.node("Mul", "s", in(g.scalar("k", 2), "x")) }, false, Reading{2, 0}},
		"less, over": {func(g *graph) string {
			return g.node("Div", "v", in(g.node("Sub", "s", in("x", g.scalar("k", .5))), g.scalar("l", .25)))
		}, false, Reading{4, -2}},
		"1 less": {func(g *graph) string { return g.node("Sub", "s", in(g.scalar("k", 1), "x")) }, false, Reading{-1, 1}},
		"of a byte": {func(g *graph) string {
			return g.node("Add", "a", in(g.node("Div", "s", in(g.node("Cast", "c", in("x"), number("to", 1)), g.scalar("k", 127.5))), g.scalar("l", -1)))
		}, true, Reading{2, -1}},
		"with a shape": {func(g *graph) string {
			return g.node("Reshape", "r", in(g.node("Mul", "s", in("x", g.scalar("k", 3))), g.vector("to", -1, 144)))
		}, false, Reading{3, 0}},
	} {
		g := records(4, 6, 6)
		m := logits(g, c.build(g))
		if c.bytes {
			m.Graph.Inputs[0].Type = file.Uint8
		}
		n, err := Lower(m, Choices{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if math.Abs(n.Reads.Scale-c.want.Scale) > 1e-12 || math.Abs(n.Reads.Shift-c.want.Shift) > 1e-12 || len(n.Program.Ops) != 1 {
			t.Errorf("%s: it reads %v with %d ops, want %v with one", what, n.Reads, len(n.Program.Ops), c.want)
		}
	}
}
