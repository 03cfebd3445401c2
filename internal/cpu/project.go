package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
)

// projectMemory is how many values a worker has at a time of the gates of one layer: they stay in its second-level cache.
const projectMemory = 1 << 16

// projecting is the learned rule in flight: its weights as the products want them.
type projecting struct {
	*host.Projection[float32]
	block    int // of parameters that a worker takes through all layers
	features int // of a gradient
	layers   [device.MostLayers]struct {
		weights gemm.PackedA // a row for every gate; a column for every input but the context, then for every output
		biases  []float32    // with the context's share
	}
	output []float32 // weights and bias
	matrix []float32
}

// Project applies a learned rule.
func (n *net) Project(u *host.Projection[float32]) {
	n.projecting.set(u)
	n.workers.do((len(u.P)+n.projecting.block-1)/n.projecting.block, n.project)
	n.projecting.Projection = nil
}

// set packs the weights. The context is the same for all parameters, so that it goes into the biases.
func (r *projecting) set(u *host.Projection[float32]) {
	r.Projection = u
	l, w, hidden := u.LSTM, u.W, u.LSTM.Hidden
	r.block = min(projectMemory/(4*hidden), flatBlock) &^ 31
	r.features = l.Inputs(0) - l.Context
	for k := range l.Layers {
		layer := &r.layers[k]
		in, context := l.Inputs(k), 0
		if k == 0 {
			context = l.Context
		}
		own, last, biases := w[:4*hidden*in], w[4*hidden*in:][:4*hidden*hidden], w[4*hidden*(in+hidden):][:4*hidden]
		r.matrix, layer.biases = r.matrix[:0], layer.biases[:0]
		for row, b := range biases {
			read, public := own[row*in:][:in-context], own[row*in+in-context:][:context]
			sum := float64(b)
			for j, x := range public {
				sum += float64(x) * float64(u.Scalars[device.Context+device.Slot(j)])
			}
			layer.biases = append(layer.biases, float32(sum))
			r.matrix = append(append(r.matrix, read...), last[row*hidden:][:hidden]...)
		}
		gemm.PackA(&layer.weights, gemm.RowMajor(r.matrix, 4*hidden, in-context+hidden))
		w = w[l.LayerWeights(k):]
	}
	r.output = w
}

func (n *net) projectBlock(tile int, w *worker) {
	r := &n.projecting
	l, params := r.LSTM, len(r.P)
	lo := tile * r.block
	size := min(r.block, params-lo)
	hidden := l.Hidden
	memory := w.scratch((4*hidden + 2) * r.block)
	row := func(rows []float32, k int) []float32 { return rows[k*r.block:][:size] }
	state := func(k int) []float32 { return r.State[k*params+lo:][:size] }
	rows := func(k, count int) gemm.Matrix { // of the state
		return gemm.Matrix{Data: r.State[k*params+lo:], Rows: count, Cols: size, RS: params, CS: 1}
	}

	p, gates := r.P[lo:][:size], memory[2*r.block:]
	r.read(memory, lo, size)
	input := gemm.Matrix{Data: memory, Rows: r.features, Cols: size, RS: r.block, CS: 1}
	for k := range l.Layers {
		layer := &r.layers[k]
		outputs, cells := 2*k*hidden, (2*k+1)*hidden
		h := rows(outputs, hidden)
		w.b.Resize(input.Rows+hidden, size)
		w.b.PackRows(0, input)
		w.b.PackRows(input.Rows, h)
		gemm.MulPacked(gemm.Matrix{Data: gates, Rows: 4 * hidden, Cols: size, RS: r.block, CS: 1}, &layer.weights, &w.b, false)
		for u := range hidden {
			i, f, x, o := u, hidden+u, 2*hidden+u, 3*hidden+u
			b, cell, taken := layer.biases, state(cells+u), row(gates, x)
			vec.Gated(taken, row(gates, i), b[i], taken, b[x])
			vec.Keep(cell, row(gates, f), b[f], taken)
			vec.Gated(state(outputs+u), row(gates, o), b[o], cell, 0)
		}
		input = h
	}
	y := memory[:size]
	for i := range y {
		y[i] = r.output[hidden]
	}
	for u := range hidden {
		vec.Axpy(y, r.output[u], state(2*(l.Layers-1)*hidden+u))
	}
	vec.Axpy(p, r.Scalars[device.Rate], y)
}

// read writes what the LSTM reads of each gradient, a row of a block for each feature. An infinite one would be no number
// where its weight is 0.
func (r *projecting) read(dst []float32, lo, size int) {
	scale, l2, gain := float64(r.Scalars[device.Scale]), float64(r.Scalars[device.L2]), float64(r.Scalars[device.Gain])
	var x [2]float64
	for i, p := range r.P[lo:][:size] {
		for k := range r.LSTM.Features(x[:], (float64(r.G[lo+i])*scale+l2*float64(p))*gain) {
			dst[k*r.block+i] = float32(max(-math.MaxFloat32, min(x[k], math.MaxFloat32)))
		}
	}
}
