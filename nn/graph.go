package nn

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	G "gorgonia.org/gorgonia"
)

// Gorgonia does not export its ops. Their types and fields can be read by
// reflection, and that is all that lowering needs.
const (
	opLeaf      = "leaf"
	opConstant  = "gorgonia.constantScalar"
	opReshape   = "gorgonia.reshapeOp"
	opTranspose = "gorgonia.transposeOp"
	opRepeat    = "*gorgonia.repeatOp"
	opSize      = "gorgonia.sizeOp"
	opLinAlg    = "gorgonia.linAlgBinOp"
	opBinary    = "gorgonia.elemBinOp"
	opUnary     = "gorgonia.elemUnaryOp"
	opIm2col    = "gorgonia.im2colOp"
	opMaxPool   = "*gorgonia.maxPoolOp"
	opAvgPool   = "*gorgonia.avgPoolOp"
	opGlobalAvg = "*gorgonia.globalAveragePoolOp"
	opGroupNorm = "*gorgonia.GroupNormOp"
)

func opType(n *G.Node) string {
	if n.Op() == nil {
		return opLeaf
	}
	return reflect.TypeOf(n.Op()).String()
}

// symbol is the sign of an element-wise op: +, ⊙, tanh, …
func symbol(n *G.Node) string {
	s, _, _ := strings.Cut(n.Op().String(), " ")
	return s
}

func children(n *G.Node) []*G.Node {
	var c []*G.Node
	for it := n.Graph().From(n.ID()); it.Next(); {
		c = append(c, it.Node().(*G.Node))
	}
	return c
}

func constant(n *G.Node) float64 {
	return reflect.ValueOf(n.Value().Data()).Convert(reflect.TypeFor[float64]()).Float()
}

type opFields struct{ v reflect.Value }

func fields(n *G.Node) opFields { return opFields{reflect.Indirect(reflect.ValueOf(n.Op()))} }

func (f opFields) bool(name string) bool { return f.v.FieldByName(name).Bool() }

func (f opFields) int(name string) int {
	v := f.v.FieldByName(name)
	if v.CanUint() {
		return int(v.Uint())
	}
	return int(v.Int())
}

func (f opFields) float(name string) float64 { return f.v.FieldByName(name).Float() }

func (f opFields) ints(name string) []int {
	v := f.v.FieldByName(name)
	list := make([]int, v.Len())
	for i := range list {
		list[i] = int(v.Index(i).Int())
	}
	return list
}

// describe names a node for an error message. A constant's contents stay out
// of it: they may be data.
func describe(n *G.Node) string {
	switch t := opType(n); {
	case strings.HasPrefix(t, "gorgonia.constant"):
		return fmt.Sprintf("a constant of shape %v", n.Shape())
	case t == opLeaf || strings.HasPrefix(n.Name(), n.Op().String()):
		return fmt.Sprintf("node %q", n.Name())
	default:
		return fmt.Sprintf("node %q (%v)", n.Name(), n.Op())
	}
}

// refuse is the error for a graph that cannot be lowered at node n.
func refuse(n *G.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", describe(n), fmt.Sprintf(format, args...))
}

// unsupported gives the reason for which ops of n's type never lower, or nil.
func unsupported(n *G.Node) error {
	if _, own := ownOf(n); own {
		return nil
	}
	switch t := opType(n); t {
	case opLeaf, opConstant, opReshape, opTranspose, opRepeat, opSize, opLinAlg, opBinary, opUnary, opIm2col, opMaxPool, opAvgPool, opGlobalAvg, opGroupNorm:
		return nil
	case "*gorgonia.BatchNormOp":
		return refuse(n, "batch normalization mixes the examples of a batch, so that no gradient belongs to one example; use nn.GroupNorm in its place, which normalizes each example by itself")
	case "*gorgonia.dropoutOp":
		return refuse(n, "dropout is not supported (gorgonia v0.9.18 also makes one node of two dropouts with different probabilities); leave it out, the noise of private training regularises too")
	case "*gorgonia.softmaxOp":
		if fields(n).int("axis") == 0 {
			return refuse(n, "a softmax along the batch axis mixes examples; pass the node before it, the logits, and choose the loss with WithLoss")
		}
		return refuse(n, "the loss takes the softmax itself; pass the node before it, the logits, and choose the loss with WithLoss (gorgonia v0.9.18 returns the SoftMax node for a LogSoftMax of the same input)")
	case "gorgonia.sumOp", "*gorgonia.sumOp", "gorgonia.maxOp", "*gorgonia.maxOp":
		if slices.Contains(fields(n).ints("along"), 0) {
			return refuse(n, "it reduces along the batch axis and so mixes examples; pass the logits, not the cost, and choose the loss with WithLoss")
		}
		return refuse(n, "reductions are not supported; use GlobalAveragePool2D for a mean over positions")
	case "gorgonia.constantTensor":
		return refuse(n, "constants are not supported; make it a parameter, or fold it into the data")
	default:
		return refuse(n, "this op is not supported; supported are Conv2d, Mul, BroadcastAdd, Add, Rectify, LeakyRelu, Tanh, Sigmoid, GroupNorm, MaxPool2D, AveragePool2D, GlobalAveragePool2D and Reshape, and the layers of package nn")
	}
}
