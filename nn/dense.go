package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// Dense is x·W + b over (N, in). It makes the nodes name.weight, stored
// (in, out), and name.bias (1, out), the bias zero. The initial weights are
// drawn in PyTorch's order (out, in).
func Dense(name string, out int, init Init) Layer {
	return layer(name, 2, func(x *G.Node, s tensor.Shape) (*G.Node, error) {
		if out < 1 {
			return nil, fmt.Errorf("needs at least one output, has %d", out)
		}
		in := s[1]
		drawn := make([]float32, out*in)
		init(name+".weight", in, out, drawn)
		values := make([]float32, len(drawn))
		for o := range out {
			for i := range in {
				values[i*out+o] = drawn[o*in+i]
			}
		}
		w, err := parameter(x, name+".weight", values, in, out)
		if err != nil {
			return nil, err
		}
		b, err := parameter(x, name+".bias", make([]float32, out), 1, out)
		if err != nil {
			return nil, err
		}
		h, err := G.Mul(x, w)
		if err != nil {
			return nil, err
		}
		return G.BroadcastAdd(h, b, nil, []byte{0})
	})
}

// Kinds of linAlgBinOp.
const (
	matMul = iota
	matVec
)

// dense lowers x·W with x (N, in) and a parameter W (in, out), however W is
// stored, and x·w with a parameter vector w (in), which gives (N).
func (l *lowerer) dense(n *G.Node) (value, error) {
	f := graph.FieldsOf(n)
	a, b := graph.Children(n)[0], graph.Children(n)[1]
	kind := f.Int("āBinaryOperator")
	switch {
	case kind != matMul && kind != matVec:
		return value{}, graph.Refuse(n, "only the product of a matrix of activations with a weight is supported; use gorgonia.Mul(x, w) with x (N, in) and w (in, out)")
	case l.isParam(a) && !l.isParam(b) || graph.Root(b) == l.input:
		return value{}, graph.Refuse(n, "the batch is on the wrong side of the product; write gorgonia.Mul(x, w) with x (N, in) and w (in, out)")
	case !l.isParam(b):
		return value{}, graph.Refuse(n, "it multiplies two activations; only products with a parameter are supported")
	case f.Bool("transA"):
		return value{}, graph.Refuse(n, "it transposes the activations and so moves the batch axis; keep the batch as axis 0 and transpose the weight instead")
	}
	in, err := l.lower(a)
	if err != nil {
		return value{}, err
	}
	w, err := l.parameter(b, n)
	if err != nil {
		return value{}, err
	}
	if kind == matVec {
		if w, err = w.Reshape(1, ir.Size(w.Shape)); err != nil {
			return value{}, graph.Refuse(n, "%v", err)
		}
	} else if !f.Bool("transB") {
		w = w.Permute(1, 0)
	}
	return l.emit(n, ir.Op{Kind: ir.Dense, In: []ir.Value{in.v}, Shape: in.shape}, &w), nil
}
