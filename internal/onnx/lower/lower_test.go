package lower

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// kinds lists the ops of a program.
func kinds(p *ir.Program) string {
	var list []string
	for i := range p.Ops {
		list = append(list, p.Ops[i].Kind.String())
	}
	return strings.Join(list, " ")
}

func TestPlainNetwork(t *testing.T) {
	g := records(1, 8, 8)
	x := g.conv("x", "c1", 1, 4)
	x = g.node("Relu", "r1", in(x))
	x = g.node("MaxPool", "p1", in(x), list("kernel_shape", 2, 2), list("strides", 2, 2))
	x = g.node("Flatten", "f", in(x))
	x = g.node("Relu", "r2", in(g.dense(x, "d1", 64, 10)))
	x = g.node("Softmax", "s", in(g.dense(x, "d2", 10, 3)))
	n := lowered(t, g.done(x), Choices{Seed: 1})
	if got, want := kinds(n.Program), "conv relu maxpool dense relu dense"; got != want {
		t.Fatalf("ops %s, want %s", got, want)
	}
	if len(n.Params) != n.Program.NumParams() || n.Program.Loss != ir.SoftmaxCrossEntropy {
		t.Errorf("%d parameters, loss %s", len(n.Params), n.Program.Loss)
	}
	var names []string
	for _, q := range n.Program.Params {
		names = append(names, q.Name+"="+q.Node)
	}
	if got, want := strings.Join(names, " "), "conv1.weight=c1.weight conv1.bias=c1.bias fc1.weight=d1.weight fc1.bias=d1.bias fc2.weight=d2.weight fc2.bias=d2.bias"; got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
}
