package nn

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// groupNormEpsilon is what GroupNorm adds to variances, PyTorch's default.
const groupNormEpsilon = 1e-5

// GroupNorm takes the place of batch normalization (Wu and He 2018): it divides the channels of (N, C, H, W), or the
// columns of (N, C), into groups of neighbours, and normalizes each group of each example by its own mean and variance.
// Then it multiplies every channel by a scale and adds a shift. No example sees another. One group is layer
// normalization of whole images, or of the columns; a group of 16 channels or so is usual. It makes the nodes name.weight, all ones, and name.bias, all
// zeros, of the shape (1, C, 1, 1) or (1, C).
//
// Gorgonia's own GroupNorm is wrong for groups of more than 256 elements; this layer's node is an op of its own, which
// Gorgonia's machines run forward. Its gradient is left to this project.
func GroupNorm(name string, groups int) Layer {
	return layer(name, 0, func(x *G.Node, s tensor.Shape) (*G.Node, error) {
		if len(s) != 4 && len(s) != 2 {
			return nil, fmt.Errorf("needs an input (N, C, H, W) or (N, C), has shape %v", s)
		}
		if groups < 1 || s[1]%groups != 0 {
			return nil, fmt.Errorf("cannot divide %d channels into %d groups; choose a divisor of the channels", s[1], groups)
		}
		shape, axes := []int{1, s[1], 1, 1}, []byte{0, 2, 3}
		if len(s) == 2 {
			shape, axes = shape[:2], axes[:1]
		}
		scale, err := parameter(x, name+".weight", filled(s[1], 1), shape...)
		if err != nil {
			return nil, err
		}
		shift, err := parameter(x, name+".bias", make([]float32, s[1]), shape...)
		if err != nil {
			return nil, err
		}
		h, err := G.ApplyOp(newNormalize(groups, groupNormEpsilon), x)
		if err != nil {
			return nil, err
		}
		if h, err = G.BroadcastHadamardProd(h, scale, nil, axes); err != nil {
			return nil, err
		}
		return G.BroadcastAdd(h, shift, nil, axes)
	})
}

// normalize is the op of GroupNorm before its scale and shift.
type normalize struct {
	graph.Base
	groups  int
	epsilon float64
}

func newNormalize(groups int, epsilon float64) *normalize {
	return &normalize{graph.Base{Name: fmt.Sprintf("Normalize{%d, %v}", groups, epsilon)}, groups, epsilon}
}

func (op *normalize) Do(operands ...G.Value) (G.Value, error) {
	return graph.Overwrite(operands, func(x [][]float64) {
		size := len(x[0]) / (operands[0].Shape()[0] * op.groups)
		for all := x[0]; len(all) > 0; all = all[size:] {
			group := all[:size]
			mean, variance := graph.Moments(group)
			scale := 1 / math.Sqrt(variance+op.epsilon)
			for i, v := range group {
				group[i] = (v - mean) * scale
			}
		}
	})
}

// lower is called where no scale follows; product lowers it with its scale.
func (op *normalize) lower(_ *lowerer, n *G.Node) (value, error) { return value{}, unscaled(n) }

func unscaled(n *G.Node) error {
	return graph.Refuse(n, "the normalization is not multiplied by a scale; multiply it by a parameter (1, channels, 1, 1), as nn.GroupNorm does")
}

// mostGroup is the largest group whose variance Gorgonia's GroupNorm gets right.
const mostGroup = 256

// isNorm reports whether n is a group normalization before its scale.
func isNorm(n *G.Node) bool {
	_, own := n.Op().(*normalize)
	return own || graph.Type(n) == graph.GroupNorm
}

// groupNorm lowers the normalization of node norm, multiplied by the parameter p in node out.
func (l *lowerer) groupNorm(norm, out, p *G.Node) (value, error) {
	in, err := l.lower(graph.Children(norm)[0])
	if err != nil {
		return value{}, err
	}
	if len(in.shape) != 3 && len(in.shape) != 1 {
		return value{}, graph.Refuse(norm, "it normalizes %v an example; make it channels, rows and columns, or a vector", in.shape)
	}
	op := ir.Op{Kind: ir.GroupNorm, In: []ir.Value{in.v}, Shape: in.shape}
	if own, ok := norm.Op().(*normalize); ok {
		op.Groups, op.Epsilon = own.groups, own.epsilon
	} else {
		f := graph.FieldsOf(norm)
		op.Groups, op.Epsilon = f.Int("numGroups"), f.Float("epsilon")
		if op.Groups > 0 && ir.Size(in.shape)/op.Groups > mostGroup {
			return value{}, graph.Refuse(norm, "gorgonia v0.9.18 computes a wrong variance for groups of more than %d elements, these have %d; use nn.GroupNorm", mostGroup, ir.Size(in.shape)/op.Groups)
		}
	}
	weight, err := l.parameter(p, out)
	if err != nil {
		return value{}, err
	}
	channels, err := l.channels("scale", weight, out, in.shape[0])
	if err != nil {
		return value{}, err
	}
	return l.emit(out, op, &channels), nil
}
