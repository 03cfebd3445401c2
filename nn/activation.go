package nn

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// ReLU is max(x, 0) of every element.
func ReLU(x *G.Node) (*G.Node, error) { return elementwise("relu", x, G.Rectify) }

func Tanh(x *G.Node) (*G.Node, error) { return elementwise("tanh", x, G.Tanh) }

// Sigmoid is 1/(1+exp(−x)) of every element.
func Sigmoid(x *G.Node) (*G.Node, error) { return elementwise("sigmoid", x, G.Sigmoid) }

// LeakyReLU is x of every element above zero, and slope·x of the others. The slope lies between 0 and 1; 0.01 is usual.
func LeakyReLU(slope float64) Layer {
	return layer("leaky relu", 0, func(x *G.Node, _ tensor.Shape) (*G.Node, error) {
		if !isSlope(slope) {
			return nil, fmt.Errorf("has the slope %v; choose one between 0 and 1 (ReLU has 0)", slope)
		}
		return G.LeakyRelu(x, slope)
	})
}

// isSlope says of a number that it is one in float32, too.
func isSlope(x float64) bool { return float32(x) > 0 && float32(x) < 1 }

func elementwise(name string, x *G.Node, f func(*G.Node) (*G.Node, error)) (*G.Node, error) {
	return layer(name, 0, func(x *G.Node, _ tensor.Shape) (*G.Node, error) { return f(x) })(x)
}

func (l *lowerer) unary(n *G.Node) (value, error) {
	kind, ok := map[string]ir.Kind{"tanh": ir.Tanh, "sigmoid": ir.Sigmoid}[graph.Symbol(n)]
	if !ok {
		return value{}, graph.Refuse(n, "the element-wise function %s is not supported; use Rectify, LeakyRelu, Tanh, Sigmoid or nn.GELU", graph.Symbol(n))
	}
	return l.pointwise(ir.Op{Kind: kind}, n, graph.Children(n)[0])
}

// product lowers x ⊙ (x ≥ 0), which is how Gorgonia writes Rectify, its twin
// with >, and the corrected average pool.
func (l *lowerer) product(n *G.Node) (value, error) {
	a, b := graph.Children(n)[0], graph.Children(n)[1]
	switch {
	case rectified(n) != nil:
		return l.pointwise(ir.Op{Kind: ir.ReLU}, n, rectified(n))
	case isNorm(a) && l.isParam(b):
		return l.groupNorm(a, n, b)
	case isNorm(b) && l.isParam(a):
		return l.groupNorm(b, n, a)
	case graph.Type(a) == graph.AvgPool && graph.Type(b) == graph.Constant:
		return l.avgPool(a, n, graph.Scalar(b))
	case graph.Type(b) == graph.AvgPool && graph.Type(a) == graph.Constant:
		return l.avgPool(b, n, graph.Scalar(a))
	case graph.Type(a) == graph.Constant || graph.Type(b) == graph.Constant:
		return value{}, graph.Refuse(n, "scaling by a constant is not supported; fold it into the weights or the data")
	case l.isParam(a) || l.isParam(b):
		return value{}, graph.Refuse(n, "it multiplies element by element with a parameter; use gorgonia.Mul for a dense layer")
	}
	return value{}, graph.Refuse(n, "it multiplies two activations; only Rectify's own product is supported")
}

// rectified is x of a node x ⊙ (x ≥ 0) or x ⊙ (x > 0), or nil.
func rectified(n *G.Node) *G.Node { return selected(n, ">=", ">") }

// selected is x of a node that multiplies x by one of these comparisons of x with zero, on either side, or nil.
func selected(n *G.Node, comparisons ...string) *G.Node {
	if graph.Type(n) != graph.Binary || graph.Symbol(n) != "⊙" {
		return nil
	}
	isSign := func(n, x *G.Node) bool {
		if graph.Type(n) != graph.Binary || !slices.Contains(comparisons, graph.Symbol(n)) {
			return false
		}
		c := graph.Children(n)
		return c[0] == x && graph.Type(c[1]) == graph.Constant && graph.Scalar(c[1]) == 0
	}
	switch c := graph.Children(n); {
	case isSign(c[1], c[0]):
		return c[0]
	case isSign(c[0], c[1]):
		return c[1]
	}
	return nil
}

// leaky is x and the slope a of a sum of x ⊙ (x ≥ 0) and a ⊙ (x ⊙ (x < 0)), which is how Gorgonia writes LeakyRelu; x is
// nil for any other.
func leaky(positive, scaled *G.Node) (x *G.Node, slope float64) {
	x = rectified(positive)
	if x == nil || graph.Type(scaled) != graph.Binary || graph.Symbol(scaled) != "⊙" {
		return nil, 0
	}
	negative, factor := graph.Children(scaled)[0], graph.Children(scaled)[1]
	if graph.Type(negative) == graph.Constant {
		negative, factor = factor, negative
	}
	if graph.Type(factor) != graph.Constant || selected(negative, "<", "<=") != x {
		return nil, 0
	}
	return x, graph.Scalar(factor)
}

// leakyReLU lowers node n, which is one over x.
func (l *lowerer) leakyReLU(n, x *G.Node, slope float64) (value, error) {
	if !isSlope(slope) {
		return value{}, graph.Refuse(n, "a leaky ReLU with the slope %v is not supported; choose one between 0 and 1, or Rectify", slope)
	}
	return l.pointwise(ir.Op{Kind: ir.LeakyReLU, Slope: float32(slope)}, n, x)
}

func (l *lowerer) pointwise(op ir.Op, n, x *G.Node) (value, error) {
	in, err := l.lower(x)
	if err != nil {
		return value{}, err
	}
	op.In, op.Shape = []ir.Value{in.v}, planShape(in.shape)
	return l.emit(n, op, nil), nil
}
