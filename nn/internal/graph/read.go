// Package graph reads what lowering needs of Gorgonia's graphs, and has what an op of one's own needs beside its formula.
package graph

import (
	"fmt"
	"reflect"
	"strings"

	G "gorgonia.org/gorgonia"
)

// Gorgonia does not export its ops. Their types and fields can be read by
// reflection, and that is all that lowering needs.
const (
	Leaf      = "leaf"
	Constant  = "gorgonia.constantScalar"
	Reshape   = "gorgonia.reshapeOp"
	Transpose = "gorgonia.transposeOp"
	Repeat    = "*gorgonia.repeatOp"
	Size      = "gorgonia.sizeOp"
	LinAlg    = "gorgonia.linAlgBinOp"
	Binary    = "gorgonia.elemBinOp"
	Unary     = "gorgonia.elemUnaryOp"
	Im2col    = "gorgonia.im2colOp"
	MaxPool   = "*gorgonia.maxPoolOp"
	AvgPool   = "*gorgonia.avgPoolOp"
	GlobalAvg = "*gorgonia.globalAveragePoolOp"
	GroupNorm = "*gorgonia.GroupNormOp"
)

// Type is the type of a node's op, or Leaf.
func Type(n *G.Node) string {
	if n.Op() == nil {
		return Leaf
	}
	return reflect.TypeOf(n.Op()).String()
}

// Symbol is the sign of an element-wise op: +, ⊙, tanh, …
func Symbol(n *G.Node) string {
	s, _, _ := strings.Cut(n.Op().String(), " ")
	return s
}

// Children are a node's operands, in order.
func Children(n *G.Node) []*G.Node {
	var c []*G.Node
	for it := n.Graph().From(n.ID()); it.Next(); {
		c = append(c, it.Node().(*G.Node))
	}
	return c
}

// Scalar is the value of a Constant.
func Scalar(n *G.Node) float64 {
	return reflect.ValueOf(n.Value().Data()).Convert(reflect.TypeFor[float64]()).Float()
}

// Fields are those of an op.
type Fields struct{ v reflect.Value }

func FieldsOf(n *G.Node) Fields { return Fields{reflect.Indirect(reflect.ValueOf(n.Op()))} }

func (f Fields) Bool(name string) bool { return f.v.FieldByName(name).Bool() }

func (f Fields) Int(name string) int {
	v := f.v.FieldByName(name)
	if v.CanUint() {
		return int(v.Uint())
	}
	return int(v.Int())
}

func (f Fields) Float(name string) float64 { return f.v.FieldByName(name).Float() }

func (f Fields) Ints(name string) []int {
	v := f.v.FieldByName(name)
	list := make([]int, v.Len())
	for i := range list {
		list[i] = int(v.Index(i).Int())
	}
	return list
}

// Describe names a node for an error message. A constant's contents stay out
// of it: they may be data.
func Describe(n *G.Node) string {
	switch t := Type(n); {
	case strings.HasPrefix(t, "gorgonia.constant"):
		return fmt.Sprintf("a constant of shape %v", n.Shape())
	case t == Leaf || strings.HasPrefix(n.Name(), n.Op().String()):
		return fmt.Sprintf("node %q", n.Name())
	default:
		return fmt.Sprintf("node %q (%v)", n.Name(), n.Op())
	}
}

// Refuse is the error for a graph that cannot be lowered at node n.
func Refuse(n *G.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", Describe(n), fmt.Sprintf(format, args...))
}
