package device

import (
	"fmt"
	"math"
)

// LSTM is the shape of a learned update rule (Andrychowicz et al. 2016, section
// 2.1; Hong et al. 2021, appendix B.7): layers of long short-term memory that run
// over every parameter by itself, with one set of weights for all and a state for
// each. Apply defines it; Queue.Project runs it on a device.
type LSTM struct {
	Layers, Hidden int  // 1…MostLayers, 1…MostHidden
	Context        int  // how many of a run's public figures it reads, 0…Contexts, beside the gradient
	LogSign        bool // it reads the gradient as logarithm and sign
}

// Bounds of an LSTM's shape.
const (
	MostLayers = 4
	MostHidden = 64
)

// logRange is p of Andrychowicz et al. 2016, appendix A.
const logRange = 10

// Check finds what no device runs.
func (l LSTM) Check() error {
	switch {
	case l.Layers < 1 || l.Layers > MostLayers:
		return fmt.Errorf("an LSTM of %d layers: must be 1 to %d", l.Layers, MostLayers)
	case l.Hidden < 1 || l.Hidden > MostHidden:
		return fmt.Errorf("an LSTM of %d hidden units: must be 1 to %d", l.Hidden, MostHidden)
	case l.Context < 0 || l.Context > Contexts:
		return fmt.Errorf("an LSTM of %d public figures: must be 0 to %d", l.Context, Contexts)
	}
	return nil
}

// Inputs is the number of values that a layer reads beside its own last output:
// the gradient, or its logarithm and sign, then the context; or what the layer
// below puts out.
func (l LSTM) Inputs(layer int) int {
	switch {
	case layer > 0:
		return l.Hidden
	case l.LogSign:
		return 2 + l.Context
	default:
		return 1 + l.Context
	}
}

// Weights is the number of weights, in this order: of each layer the matrix of its
// inputs (4·Hidden rows), the matrix of its last output (4·Hidden rows of Hidden),
// both by rows, and 4·Hidden biases, the rows being those of the input, the forget,
// the cell and the output gate, as PyTorch has them; then the weights of the
// output, Hidden, and its bias.
func (l LSTM) Weights() int {
	n := l.Hidden + 1
	for k := range l.Layers {
		n += l.LayerWeights(k)
	}
	return n
}

// LayerWeights is how many of them are a layer's.
func (l LSTM) LayerWeights(layer int) int { return 4 * l.Hidden * (l.Inputs(layer) + l.Hidden + 1) }

// States is the number of values that the state of one parameter has: of each layer
// the outputs h, then the cells c, Hidden of each. The state is a vector of that
// width in which value number k of all parameters stands before value k+1 of any.
func (l LSTM) States() int { return 2 * l.Layers * l.Hidden }

// Features writes what the first layer reads of a gradient x that has its unit
// already, and gives how many values that is.
func (l LSTM) Features(dst []float64, x float64) int {
	if !l.LogSign {
		dst[0] = x
		return 1
	}
	if a := math.Abs(x); a >= math.Exp(-logRange) {
		dst[0], dst[1] = math.Log(a)/logRange, math.Copysign(1, x)
	} else {
		dst[0], dst[1] = -1, math.Exp(logRange)*x
	}
	return 2
}

// Apply gives the new value of one parameter, p + Rate·y, and updates its state. The
// LSTM, with weights w, reads the gradient g as (g·Scale + L2·p)·Gain and the
// run's context; y is its output. A cell is that of Gers, Schmidhuber and Cummins
// 2000 without peepholes: c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c).
func (l LSTM) Apply(s *[Slots]float32, w []float64, p, g float64, state []float64) float64 {
	var x, pre [4 * MostHidden]float64
	n := l.Features(x[:], (g*float64(s[Scale])+float64(s[L2])*p)*float64(s[Gain]))
	for k := range l.Context {
		x[n+k] = float64(s[Context+Slot(k)])
	}
	hidden := l.Hidden
	for k := range l.Layers {
		in := l.Inputs(k)
		own, last := w[:4*hidden*in], w[4*hidden*in:]
		bias := last[4*hidden*hidden:]
		h, c := state[:hidden], state[hidden:2*hidden]
		for r := range 4 * hidden {
			sum := bias[r]
			for j := range in {
				sum += own[r*in+j] * x[j]
			}
			for j, v := range h {
				sum += last[r*hidden+j] * v
			}
			pre[r] = sum
		}
		for u := range hidden {
			c[u] = sigmoid(pre[hidden+u])*c[u] + sigmoid(pre[u])*math.Tanh(pre[2*hidden+u])
			h[u] = sigmoid(pre[3*hidden+u]) * math.Tanh(c[u])
			x[u] = h[u]
		}
		w, state = w[l.LayerWeights(k):], state[2*hidden:]
	}
	y := w[hidden]
	for u := range hidden {
		y += w[u] * x[u]
	}
	return p + float64(s[Rate])*y
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
