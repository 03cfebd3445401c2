package meta

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/privgrad/privgrad/internal/device"
)

// A network is device.LSTM over many parameters at once, with its gradient. Values are
// matrices with a row for each unit and a column for each parameter.
type network struct {
	device.LSTM
	layers []layer
	output []float64 // Hidden weights, then the bias
}

// A layer has views of a network's weights, or of a gradient with respect to them.
type layer struct {
	own, last blas64.General // 4·Hidden rows
	bias      []float64
}

// newNetwork puts a shape on weights in the order of device.LSTM.
func newNetwork(l device.LSTM, weights []float64) *network {
	w := &network{LSTM: l}
	rows := 4 * l.Hidden
	for k := range l.Layers {
		in := l.Inputs(k)
		w.layers = append(w.layers, layer{
			own:  matrix(rows, in, weights[:rows*in]),
			last: matrix(rows, l.Hidden, weights[rows*in:]),
			bias: weights[rows*(in+l.Hidden):][:rows],
		})
		weights = weights[l.LayerWeights(k):]
	}
	w.output = weights
	return w
}

func matrix(rows, cols int, data []float64) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: data[:rows*cols]}
}

// features is how many inputs of the first layer depend on the parameter; the rest are the context.
func (w *network) features() int { return w.Inputs(0) - w.Context }

// A pass is what one step of a network over n parameters leaves for its gradient.
type pass struct {
	n        int
	context  []float64
	features []float64 // of the first layer, without the context
	before   []float64 // the state before the step
	state    []float64 // and after it
	gates    [][]float64
	squashed [][]float64 // tanh of the cells
}

// hidden and cells are parts of a state.
func (w *network) hidden(state []float64, layer, n int) []float64 {
	return state[2*layer*w.Hidden*n:][:w.Hidden*n]
}

func (w *network) cells(state []float64, layer, n int) []float64 {
	return state[(2*layer+1)*w.Hidden*n:][:w.Hidden*n]
}

// forward takes n parameters a step further: x has what device.LSTM.Features reads of
// each, already in its unit, and y gets the outputs.
func (w *network) forward(x, context, before, y []float64) *pass {
	n, h := len(x), w.Hidden
	p := &pass{n: n, context: context, before: before, state: make([]float64, w.States()*n)}
	p.features = make([]float64, w.features()*n)
	var f [2]float64
	for i, v := range x {
		for k := range w.Features(f[:], v) {
			p.features[k*n+i] = f[k]
		}
	}
	for k, l := range w.layers {
		pre := make([]float64, 4*h*n)
		for r := range 4 * h {
			sum := l.bias[r]
			if k == 0 {
				for j, v := range context {
					sum += l.own.Data[r*l.own.Cols+w.features()+j] * v
				}
			}
			fill(pre[r*n:][:n], sum)
		}
		out := matrix(4*h, n, pre)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, w.fromBelow(k), matrix(w.below(k), n, w.input(p, k)), 1, out)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, l.last, matrix(h, n, w.hidden(before, k, n)), 1, out)
		size := h * n
		in, forget, cell, open := pre[:size], pre[size:2*size], pre[2*size:3*size], pre[3*size:]
		old, cells, hidden := w.cells(before, k, n), w.cells(p.state, k, n), w.hidden(p.state, k, n)
		squashed := make([]float64, size)
		for i := range size {
			in[i], forget[i], cell[i], open[i] = sigmoid(in[i]), sigmoid(forget[i]), tanh(cell[i]), sigmoid(open[i])
			c := forget[i]*old[i] + in[i]*cell[i]
			s := tanh(c)
			cells[i], squashed[i], hidden[i] = c, s, open[i]*s
		}
		p.gates, p.squashed = append(p.gates, pre), append(p.squashed, squashed)
	}
	fill(y, w.output[h])
	top := w.hidden(p.state, w.Layers-1, n)
	for u := range h {
		axpy(w.output[u], top[u*n:][:n], y)
	}
	return p
}

// below is the number of a layer's inputs that have a value for each parameter, input
// those values, and fromBelow their weights.
func (w *network) below(k int) int {
	if k == 0 {
		return w.features()
	}
	return w.Hidden
}

func (w *network) input(p *pass, k int) []float64 {
	if k == 0 {
		return p.features
	}
	return w.hidden(p.state, k-1, p.n)
}

func (w *network) fromBelow(k int) blas64.General {
	g := w.layers[k].own
	g.Cols = w.below(k)
	return g
}

// backward is given dy, the gradient with respect to the outputs, and state, that with
// respect to the state after the step, which it replaces by that with respect to the
// state before it. It adds to the gradients of the weights and of the context, and
// writes that of x.
func (w *network) backward(p *pass, x, dy, state, dx, context []float64, weights *network) {
	n, h := p.n, w.Hidden
	size := h * n
	top := w.hidden(p.state, w.Layers-1, n)
	above := make([]float64, size) // with respect to what the layer puts out
	for u := range h {
		weights.output[u] += dot(dy, top[u*n:][:n])
		axpy(w.output[u], dy, above[u*n:][:n])
	}
	weights.output[h] += sum(dy)
	pre := make([]float64, 4*size)
	for k := w.Layers - 1; k >= 0; k-- {
		g := p.gates[k]
		in, forget, cell, open := g[:size], g[size:2*size], g[2*size:3*size], g[3*size:]
		din, dforget, dcell, dopen := pre[:size], pre[size:2*size], pre[2*size:3*size], pre[3*size:]
		hidden, cells := w.hidden(state, k, n), w.cells(state, k, n)
		old, squashed := w.cells(p.before, k, n), p.squashed[k]
		for i := range size {
			dh, s := above[i]+hidden[i], squashed[i]
			dc := cells[i] + dh*open[i]*(1-s*s)
			dopen[i] = dh * s * open[i] * (1 - open[i])
			din[i] = dc * cell[i] * in[i] * (1 - in[i])
			dforget[i] = dc * old[i] * forget[i] * (1 - forget[i])
			dcell[i] = dc * in[i] * (1 - cell[i]*cell[i])
			cells[i] = dc * forget[i]
		}
		dpre := matrix(4*h, n, pre)
		l, d := w.layers[k], weights.layers[k]
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, l.last, dpre, 0, matrix(h, n, hidden))
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, dpre, matrix(h, n, w.hidden(p.before, k, n)), 1, d.last)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, dpre, matrix(w.below(k), n, w.input(p, k)), 1, weights.fromBelow(k))
		for r := range 4 * h {
			s := sum(pre[r*n:][:n])
			d.bias[r] += s
			if k == 0 {
				for j, v := range p.context {
					at := r*l.own.Cols + w.features() + j
					d.own.Data[at] += s * v
					context[j] += s * l.own.Data[at]
				}
			}
		}
		if k > 0 {
			blas64.Gemm(blas.Trans, blas.NoTrans, 1, w.fromBelow(k), dpre, 0, matrix(h, n, above))
			continue
		}
		dfeatures := make([]float64, w.features()*n)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, w.fromBelow(0), dpre, 0, matrix(w.features(), n, dfeatures))
		for i, v := range x {
			switch small := math.Exp(-logRange); {
			case !w.LogSign:
				dx[i] = dfeatures[i]
			case math.Abs(v) >= small:
				dx[i] = dfeatures[i] / (logRange * v)
			default:
				dx[i] = dfeatures[n+i] / small
			}
		}
	}
}

// logRange is p of device.LSTM.Features; a test compares.
const logRange = 10

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// tanh is math.Tanh within 3·10⁻¹⁶, in a third of the time.
func tanh(x float64) float64 { return 1 - 2/(1+math.Exp(2*x)) }

func fill(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }

func axpy(a float64, x, y []float64) { blas64.Axpy(a, vector(x), vector(y)) }

func dot(x, y []float64) float64 { return blas64.Dot(vector(x), vector(y)) }
