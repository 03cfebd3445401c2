package lower

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// attends is a network of attention over the pixels of an image; change may move what it reads.
func attends(change func(g *graph, x string) string) *file.Model {
	g := records(4, 2, 3)
	x := g.node("Reshape", "tokens", in("x", g.vector("s", -1, 6, 4)))
	if change != nil {
		x = change(g, x)
	}
	each := func(name string) string {
		return g.node("Add", name+".add", in(g.node("MatMul", name, in(x, g.param(name+".weight", 4, 4))), g.param(name+".bias", 4)))
	}
	k := g.node("Transpose", "kt", in(each("k")), list("perm", 0, 2, 1))
	scores := g.node("Div", "scaled", in(g.node("MatMul", "scores", in(each("q"), k)), g.scalar("two", 2)))
	x = g.node("MatMul", "mixed", in(g.node("Softmax", "p", in(scores), number("axis", -1)), each("v")))
	x = g.node("ReduceMean", "mean", in(x), list("axes", 1), number("keepdims", 0))
	return g.done(g.dense(x, "d", 4, 3))
}

// Of attention one thing is said, which can be done.
func TestTokens(t *testing.T) {
	m := attends(nil)
	refused(t, "attention", m, Choices{}, "the network cannot be trained: the network works on a sequence of tokens (attention, at node mixed)",
		"--freeze mean --weights-are-public --new-head", "convolutional")
	if r := Inspect(m, Choices{}).Refusals; len(r) != 1 {
		t.Errorf("more is said: %v", r)
	}
	n := lowered(t, m, Choices{Weights: OfFile, Freeze: "mean", NewHead: true, Classes: 2})
	if kinds(n.Program) != "dense" || n.Program.Outputs() != 2 {
		t.Errorf("behind it: %s", kinds(n.Program))
	}

	// Records that meet are still refused, and nothing is advised that would be refused.
	crossed := attends(func(g *graph, x string) string { return g.node("Transpose", "moved", in(x), list("perm", 1, 0, 2)) })
	_, err := Lower(crossed, Choices{})
	if err == nil || !strings.Contains(err.Error(), "node moved (Transpose) moves axes") || !strings.Contains(err.Error(), crossing) || strings.Contains(err.Error(), "--freeze") {
		t.Errorf("attention across records: %v", err)
	}
	if r := Inspect(crossed, Choices{}).Refusals; len(r) != 2 || r[1].Node != "moved" {
		t.Errorf("attention across records: %v", r)
	}

	// A softmax and a product with a weight are none.
	g := records(4)
	x := g.node("MatMul", "mm", in(g.node("Softmax", "s", in(g.dense("x", "d1", 4, 4))), g.param("w", 4, 4)))
	refused(t, "no attention", g.done(x), Choices{}, "node s (Softmax)", "only at the end")
}
