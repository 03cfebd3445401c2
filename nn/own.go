package nn

import (
	"slices"

	G "gorgonia.org/gorgonia"

	"github.com/privgrad/privgrad/nn/internal/graph"
)

// ownOp is an op of this package's, which Gorgonia lacks or gets wrong. Gorgonia's machines run it forward; its gradient is
// left to this project's devices. Lowering asks the op and has no list of them: a file with one needs no line elsewhere.
type ownOp interface {
	graph.Op
	// lower gives the value of node n, whose op it is, or says why n cannot stand where an activation is expected.
	lower(l *lowerer, n *G.Node) (value, error)
}

// A weightOp computes a weight from parameters alone.
type weightOp interface {
	ownOp
	// weight gives the weight of node n, whose parameters it claims for node user.
	weight(l *lowerer, n, user *G.Node) (weight, error)
}

func ownOf(n *G.Node) (op ownOp, ok bool) {
	op, ok = n.Op().(ownOp)
	return op, ok
}

func filled(n int, x float32) []float32 { return slices.Repeat([]float32{x}, n) }
