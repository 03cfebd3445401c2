package nn

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// layerNormEpsilon is what LayerNorm adds to variances, PyTorch's default.
const layerNormEpsilon = 1e-5

// LayerNorm normalizes each line of the last axis of (N, …, n) by its own mean and variance (Ba, Kiros and Hinton 2016),
// multiplies by a weight and adds a bias of each of the n elements. It makes the nodes name.weight (n), all ones, and
// name.bias (n), all zeros. For (N, n) a line is an example; for images it is a row of pixels, and GroupNorm with one
// group normalizes the whole image. Gorgonia's machines run it forward; its gradient is left to this project.
func LayerNorm(name string) Layer {
	return layer(name, 0, func(x *G.Node, s tensor.Shape) (*G.Node, error) {
		n := s[len(s)-1]
		if n < 2 {
			return nil, fmt.Errorf("normalizes lines of one element, which have no variance; its input has shape %v, give it a longer last axis", s)
		}
		weight, err := parameter(x, name+".weight", filled(n, 1), n)
		if err != nil {
			return nil, err
		}
		bias, err := parameter(x, name+".bias", make([]float32, n), n)
		if err != nil {
			return nil, err
		}
		return G.ApplyOp(newLayerNorm(len(s), layerNormEpsilon), x, weight, bias)
	})
}

// layerNorm is the op of LayerNorm: of an activation, a weight (n) and a bias (n).
type layerNorm struct {
	graph.Base
	epsilon float64
}

func newLayerNorm(axes int, epsilon float64) *layerNorm {
	return &layerNorm{graph.Base{Name: fmt.Sprintf("LayerNorm{%v}", epsilon), Axes: []int{axes, 1, 1, axes}}, epsilon}
}

func (op *layerNorm) InferShape(operands ...G.DimSizer) (tensor.Shape, error) {
	shapes, err := G.DimSizersToShapes(operands)
	if err != nil {
		return nil, err
	}
	x := shapes[0]
	for i, what := range []string{"weight", "bias"} {
		if line := x[len(x)-1:]; !shapes[i+1].Eq(line) {
			return nil, fmt.Errorf("the %s of a layer normalization has shape %v; give it %v, that of the last axis of %v", what, shapes[i+1], line, x)
		}
	}
	return x.Clone(), nil
}

func (op *layerNorm) Do(operands ...G.Value) (G.Value, error) {
	return graph.Overwrite(operands, func(x [][]float64) {
		weight, bias := x[1], x[2]
		for lines := x[0]; len(lines) > 0; lines = lines[len(weight):] {
			line := lines[:len(weight)]
			mean, variance := graph.Moments(line)
			scale := 1 / math.Sqrt(variance+op.epsilon)
			for i, v := range line {
				line[i] = (v-mean)*scale*weight[i] + bias[i]
			}
		}
	})
}

func (op *layerNorm) lower(l *lowerer, n *G.Node) (value, error) {
	x := graph.Children(n)
	in, err := l.lower(x[0])
	if err != nil {
		return value{}, err
	}
	if len(in.shape) == 0 {
		return value{}, graph.Refuse(n, "it normalizes along the batch axis and so mixes examples; give it an input (N, n)")
	}
	weight, err := l.parameter(x[1], n)
	if err != nil {
		return value{}, err
	}
	bias, err := l.parameter(x[2], n)
	if err != nil {
		return value{}, err
	}
	v := l.emit(n, ir.Op{Kind: ir.LayerNorm, In: []ir.Value{in.v}, Shape: lines(in.shape), Epsilon: op.epsilon}, &weight)
	i := v.v - 1
	l.ops[i].Out, l.biases[i] = l.ops[i].Shape, &bias
	return v, nil
}

// lines is a shape in one of the plan's forms that keeps the last axis.
func lines(shape []int) []int {
	if len(shape) == 1 || len(shape) == 3 {
		return shape
	}
	n := shape[len(shape)-1]
	return []int{1, ir.Size(shape) / n, n}
}
