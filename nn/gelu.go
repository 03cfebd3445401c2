package nn

import (
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// GELU is x·Φ(x) of every element, with Φ the distribution function of the standard normal distribution (Hendrycks and
// Gimpel 2016): the exact function and not its approximation by tanh. Gorgonia's machines run it forward; its gradient is
// left to this project.
func GELU(x *G.Node) (*G.Node, error) {
	return layer("gelu", 0, func(x *G.Node, _ tensor.Shape) (*G.Node, error) { return G.ApplyOp(newGELU(), x) })(x)
}

type gelu struct{ graph.Base }

func newGELU() *gelu { return &gelu{graph.Base{Name: "GELU"}} }

func (op *gelu) Do(operands ...G.Value) (G.Value, error) {
	return graph.Overwrite(operands, func(x [][]float64) {
		for i, v := range x[0] {
			x[0][i] = v / 2 * math.Erfc(-v/math.Sqrt2)
		}
	})
}

func (op *gelu) lower(l *lowerer, n *G.Node) (value, error) {
	return l.pointwise(ir.Op{Kind: ir.GELU}, n, graph.Children(n)[0])
}
