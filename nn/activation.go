package nn

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
)

// ReLU is max(x, 0) of every element.
func ReLU(x *G.Node) (*G.Node, error) { return elementwise("relu", x, G.Rectify) }

// Tanh is tanh(x) of every element.
func Tanh(x *G.Node) (*G.Node, error) { return elementwise("tanh", x, G.Tanh) }

// Sigmoid is 1/(1+exp(−x)) of every element.
func Sigmoid(x *G.Node) (*G.Node, error) { return elementwise("sigmoid", x, G.Sigmoid) }

func elementwise(name string, x *G.Node, f func(*G.Node) (*G.Node, error)) (*G.Node, error) {
	return layer(name, 0, func(x *G.Node, _ tensor.Shape) (*G.Node, error) { return f(x) })(x)
}

func (l *lowerer) unary(n *G.Node) (value, error) {
	kind, ok := map[string]ir.Kind{"tanh": ir.Tanh, "sigmoid": ir.Sigmoid}[symbol(n)]
	if !ok {
		return value{}, refuse(n, "the element-wise function %s is not supported; use Rectify, Tanh or Sigmoid", symbol(n))
	}
	return l.pointwise(kind, n, children(n)[0])
}

// product lowers x ⊙ (x ≥ 0), which is how Gorgonia writes Rectify, its twin
// with >, and the corrected average pool.
func (l *lowerer) product(n *G.Node) (value, error) {
	a, b := children(n)[0], children(n)[1]
	switch {
	case isSign(b, a):
		return l.pointwise(ir.ReLU, n, a)
	case isSign(a, b):
		return l.pointwise(ir.ReLU, n, b)
	case opType(a) == opAvgPool && opType(b) == opConstant:
		return l.avgPool(a, n, constant(b))
	case opType(b) == opAvgPool && opType(a) == opConstant:
		return l.avgPool(b, n, constant(a))
	case opType(a) == opConstant || opType(b) == opConstant:
		return value{}, refuse(n, "scaling by a constant is not supported; fold it into the weights or the data")
	case l.isParam(a) || l.isParam(b):
		return value{}, refuse(n, "it multiplies element by element with a parameter; use gorgonia.Mul for a dense layer")
	}
	return value{}, refuse(n, "it multiplies two activations; only Rectify's own product is supported")
}

// isSign reports whether n is x ≥ 0 or x > 0.
func isSign(n, x *G.Node) bool {
	if opType(n) != opBinary || symbol(n) != ">=" && symbol(n) != ">" {
		return false
	}
	c := children(n)
	return c[0] == x && opType(c[1]) == opConstant && constant(c[1]) == 0
}

func (l *lowerer) pointwise(kind ir.Kind, n, x *G.Node) (value, error) {
	in, err := l.lower(x)
	if err != nil {
		return value{}, err
	}
	return l.emit(n, ir.Op{Kind: kind, In: []ir.Value{in.v}, Shape: planShape(in.shape)}, nil), nil
}
