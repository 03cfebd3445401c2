package nn

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// StandardConv is Conv with kernels by scaled weight standardization (De et al. 2022, section 3.1): each of the out
// kernels w, of fan-in = C·kernel·kernel weights with mean μ and variance v, is
//
//	(w − μ) · gain / √max(fan-in·v, 1e-4)
//
// with a gain of its own. It makes the nodes of Conv and name.gain (out, 1, 1, 1), all ones; init gives the weights before
// they are standardized. Gorgonia's machines run it forward; its gradient is left to this project.
func StandardConv(name string, out, kernel, stride, pad int, init Init) Layer {
	return convolution(name, kernels{out, kernel, stride, pad}, init, func(x, w *G.Node) (*G.Node, error) {
		if fanIn := w.Shape().TotalSize() / out; fanIn < 2 {
			return nil, fmt.Errorf("has kernels of one weight, which standardize to zero; use Conv")
		}
		gain, err := parameter(x, name+".gain", filled(out, 1), out, 1, 1, 1)
		if err != nil {
			return nil, err
		}
		return G.ApplyOp(newStandardize(), w, gain)
	})
}

// standardize is the op of the kernels of StandardConv: of the weight (out, C, kh, kw) and the gain (out, 1, 1, 1).
type standardize struct{ graph.Base }

func newStandardize() *standardize {
	return &standardize{graph.Base{Name: "Standardize", Axes: []int{4, 4, 4}}}
}

func (op *standardize) InferShape(operands ...G.DimSizer) (tensor.Shape, error) {
	shapes, err := G.DimSizersToShapes(operands)
	if err != nil {
		return nil, err
	}
	w, gain := shapes[0], shapes[1]
	if want := (tensor.Shape{w[0], 1, 1, 1}); !gain.Eq(want) {
		return nil, fmt.Errorf("the gain of a standardized weight has shape %v; give it %v, one value for each kernel of %v", gain, want, w)
	}
	return w.Clone(), nil
}

func (op *standardize) Do(operands ...G.Value) (G.Value, error) {
	return graph.Overwrite(operands, func(x [][]float64) {
		w, gain := x[0], x[1]
		fanIn := len(w) / len(gain)
		for o, g := range gain {
			kernel := w[o*fanIn:][:fanIn]
			mean, variance := graph.Moments(kernel)
			scale := g / math.Sqrt(max(float64(fanIn)*variance, ir.StandardFloor))
			for i, v := range kernel {
				kernel[i] = (v - mean) * scale
			}
		}
	})
}

func (op *standardize) Activations() int { return 0 }

func (op *standardize) lower(_ *lowerer, n *G.Node) (value, error) {
	return value{}, graph.Refuse(n, "it stands where an activation is expected, but it is a weight; %s", onlyFilters)
}

func (op *standardize) weight(l *lowerer, n, user *G.Node) (weight, error) {
	x := graph.Children(n)
	w, err := l.parameter(x[0], user)
	if err != nil {
		return weight{}, err
	}
	gain, err := l.parameter(x[1], user)
	if err != nil {
		return weight{}, err
	}
	if gain, err = gain.Reshape(w.Shape[0]); err != nil {
		return weight{}, graph.Refuse(user, "%v", err)
	}
	return weight{w, ir.Standardize, []given{{"gain", gain}}}, nil
}
