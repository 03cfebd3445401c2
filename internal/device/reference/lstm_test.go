package reference_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TestGorgoniaLSTM runs the definition of a learned update beside a graph of the textbook cell, written in matrices by
// gates, in float64, over some steps: values of every state and output, and the gradients of the last output with respect to
// every weight, the first gradient read and the first state.
func TestGorgoniaLSTM(t *testing.T) {
	for _, l := range []device.LSTM{{Layers: 1, Hidden: 3, Context: 2}, {Layers: 2, Hidden: 4, Context: 1}, {Layers: 3, Hidden: 2, Context: 3}} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			const steps = 3
			rnd := rand.New(rand.NewPCG(71, uint64(l.Layers)))
			w, state := make([]float64, l.Weights()), make([]float64, l.States())
			for i := range w {
				w[i] = 0.6 * rnd.NormFloat64()
			}
			for i := range state {
				state[i] = 0.5 * rnd.NormFloat64()
			}
			inputs := make([][]float64, steps)
			for k := range inputs {
				for range l.Inputs(0) {
					inputs[k] = append(inputs[k], float64(float32(rnd.NormFloat64())))
				}
			}
			run := func(w, state []float64, first float64) (y float64, states []float64) {
				states = append(states, state...)
				for k, in := range inputs {
					var s [device.Slots]float32
					s[device.Scale], s[device.Gain], s[device.Rate] = 1, 1, 1
					for j, v := range in[1:] {
						s[device.Context+device.Slot(j)] = float32(v)
					}
					x := in[0]
					if k == 0 {
						x = first
					}
					y = l.Apply(&s, w, 0, x, states)
				}
				return y, states
			}

			g := unroll(t, l, w, state, inputs)
			y, states := run(w, state, inputs[0][0])
			near(t, "the output", g.y, y, 1e-12)
			for i, v := range states {
				near(t, fmt.Sprintf("state %d", i), g.last[i], v, 1e-12)
			}
			// Central differences of the definition: off by h² of a third derivative, of order 1, and 1e-16/h.
			const h = 1e-5
			slope := func(at *float64, f func() float64) float64 {
				was := *at
				*at = was + h
				high := f()
				*at = was - h
				low := f()
				*at = was
				return (high - low) / (2 * h)
			}
			output := func() float64 { y, _ := run(w, state, inputs[0][0]); return y }
			moved := 0
			for i := range w {
				d := g.weights[i]
				near(t, fmt.Sprintf("the gradient of weight %d", i), d, slope(&w[i], output), 1e-7)
				if d != 0 {
					moved++
				}
			}
			if moved < len(w) {
				t.Errorf("%d of %d weights have a gradient", moved, len(w))
			}
			for i := range state {
				near(t, fmt.Sprintf("the gradient of state %d", i), g.first[i], slope(&state[i], output), 1e-7)
			}
			x := inputs[0][0]
			near(t, "the gradient of the input", g.input, slope(&x, func() float64 { y, _ := run(w, state, x); return y }), 1e-7)
		})
	}
}

// unrolled is what Gorgonia finds over some steps: the last output and state, and the gradients of that output.
type unrolled struct {
	y              float64
	last           []float64 // state
	weights, first []float64 // gradients of all weights and of the first state
	input          float64   // gradient of the first value read
}

func unroll(t *testing.T, l device.LSTM, w, state []float64, inputs [][]float64) *unrolled {
	t.Helper()
	must, graph, n := must(t), G.NewGraph(), l.Hidden
	var leaves G.Nodes // all weights in order, then the first state, then the first input
	leaf := func(values []float64, rows, cols int) *G.Node {
		x := G.NewMatrix(graph, tensor.Float64, G.WithShape(rows, cols), G.WithName(fmt.Sprint("leaf", len(leaves))),
			G.WithValue(tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(append([]float64(nil), values...)))))
		leaves = append(leaves, x)
		return x
	}
	take := func(rows, cols int) *G.Node {
		x := leaf(w[:rows*cols], rows, cols)
		w = w[rows*cols:]
		return x
	}
	type layer struct{ own, last, bias [4]*G.Node }
	layers := make([]layer, l.Layers)
	for k := range layers {
		for q := range 4 {
			layers[k].own[q] = take(n, l.Inputs(k))
		}
		for q := range 4 {
			layers[k].last[q] = take(n, n)
		}
		for q := range 4 {
			layers[k].bias[q] = take(n, 1)
		}
	}
	out, bias := take(n, 1), G.NewScalar(graph, tensor.Float64, G.WithName("bias"), G.WithValue(w[0]))
	leaves = append(leaves, bias)
	weights := len(leaves)
	h, c := make(G.Nodes, l.Layers), make(G.Nodes, l.Layers)
	for k := range layers {
		h[k], c[k] = leaf(state[2*k*n:][:n], n, 1), leaf(state[(2*k+1)*n:][:n], n, 1)
	}
	states := len(leaves)
	var top *G.Node
	for _, values := range inputs {
		x := leaf(values, len(values), 1)
		for k, y := range layers {
			var gate [4]*G.Node // input, forget, cell, output
			for q := range gate {
				gate[q] = must(G.Add(must(G.Add(must(G.Mul(y.own[q], x)), must(G.Mul(y.last[q], h[k])))), y.bias[q]))
			}
			taken := must(G.HadamardProd(must(G.Sigmoid(gate[0])), must(G.Tanh(gate[2]))))
			c[k] = must(G.Add(must(G.HadamardProd(must(G.Sigmoid(gate[1])), c[k])), taken))
			h[k] = must(G.HadamardProd(must(G.Sigmoid(gate[3])), must(G.Tanh(c[k]))))
			x = h[k]
		}
		top = x
	}
	y := must(G.Add(must(G.Sum(must(G.HadamardProd(out, top)))), bias))
	values := make([]G.Value, 2*l.Layers+1)
	G.Read(y, &values[2*l.Layers])
	for k := range layers {
		G.Read(h[k], &values[2*k])
		G.Read(c[k], &values[2*k+1])
	}
	_, err := G.Grad(y, leaves[:states+1]...)
	check(t, err)
	machine := G.NewTapeMachine(graph, G.BindDualValues(leaves[:states+1]...))
	defer machine.Close()
	check(t, machine.RunAll())

	numbers := func(v G.Value) []float64 {
		if x, ok := v.Data().(float64); ok {
			return []float64{x}
		}
		return v.Data().([]float64)
	}
	u := &unrolled{y: numbers(values[2*l.Layers])[0]}
	for _, v := range values[:2*l.Layers] {
		u.last = append(u.last, numbers(v)...)
	}
	for i, x := range leaves[:states+1] {
		d, err := x.Grad()
		check(t, err)
		switch {
		case i < weights:
			u.weights = append(u.weights, numbers(d)...)
		case i < states:
			u.first = append(u.first, numbers(d)...)
		default:
			u.input = numbers(d)[0]
		}
	}
	return u
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*(1+math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
