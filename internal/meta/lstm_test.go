package meta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

func normals(r *rand.Rand, n int, deviation float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = deviation * r.NormFloat64()
	}
	return x
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var shapes = []device.LSTM{
	{Layers: 1, Hidden: 1},
	{Layers: 2, Hidden: 3, Context: 3},
	{Layers: 3, Hidden: 4, Context: 1, LogSign: true},
	{Layers: 2, Hidden: 20, Context: 3},
}

// The batch form against the definition, over three steps. Sums are in another
// order, of fewer than 100 terms of order 1.
func TestForward(t *testing.T) {
	for _, shape := range shapes {
		r := rand.New(rand.NewPCG(1, 2))
		const n = 7
		weights := normals(r, shape.Weights(), 0.5)
		w := newNetwork(shape, weights)
		state := make([]float64, shape.States()*n)
		single := make([][]float64, n)
		for i := range single {
			single[i] = make([]float64, shape.States())
		}
		for step := range 3 {
			x, context, y := normals(r, n, 1), normals(r, shape.Context, 1), make([]float64, n)
			x[3] = 1e-6 // below the range of logarithms
			var s [device.Slots]float32
			s[device.Scale], s[device.Gain], s[device.Rate] = 1, 1, 1
			for k, v := range context {
				s[device.Context+device.Slot(k)] = float32(v)
				context[k] = float64(float32(v))
			}
			state = w.forward(x, context, state, y).state
			for i := range n {
				near(t, fmt.Sprintf("%+v step %d y[%d]", shape, step, i), y[i], shape.Apply(&s, weights, 0, x[i], single[i]), 1e-13)
				for k, v := range single[i] {
					near(t, fmt.Sprintf("%+v step %d state %d[%d]", shape, step, k, i), state[k*n+i], v, 1e-13)
				}
			}
		}
	}
}

// A loss of two steps: linear in outputs and last state, so that all kinds of gradients flow.
type probe struct {
	w            *network
	x            [2][]float64
	context      [2][]float64
	before       []float64
	toY, toState []float64
	shape        device.LSTM
	weights      []float64
}

func (p *probe) loss() float64 {
	y, state := make([]float64, len(p.x[0])), p.before
	total := 0.0
	for i := range 2 {
		state = p.w.forward(p.x[i], p.context[i], state, y).state
		total += dot(y, p.toY)
	}
	return total + dot(state, p.toState)
}

// The gradient with respect to every weight, input, figure of the context and
// value of the state, against central differences: their error is of order h² and ε/h.
func TestBackward(t *testing.T) {
	for _, shape := range shapes {
		r := rand.New(rand.NewPCG(3, 4))
		const n = 5
		p := &probe{shape: shape, weights: normals(r, shape.Weights(), 0.5)}
		p.w = newNetwork(shape, p.weights)
		for i := range 2 {
			p.x[i], p.context[i] = normals(r, n, 1), normals(r, shape.Context, 1)
		}
		p.x[1][2] = 1e-5
		p.before, p.toY, p.toState = normals(r, shape.States()*n, 0.5), normals(r, n, 1), normals(r, shape.States()*n, 1)

		y := make([]float64, n)
		first := p.w.forward(p.x[0], p.context[0], p.before, y)
		second := p.w.forward(p.x[1], p.context[1], first.state, y)
		grad := make([]float64, shape.Weights())
		into := newNetwork(shape, grad)
		state := append([]float64(nil), p.toState...)
		var dx, dc [2][]float64
		for i := range 2 {
			dx[i], dc[i] = make([]float64, n), make([]float64, shape.Context)
		}
		p.w.backward(second, p.x[1], p.toY, state, dx[1], dc[1], into)
		p.w.backward(first, p.x[0], p.toY, state, dx[0], dc[0], into)

		check := func(what string, at, grad []float64) {
			for i := range at {
				h := min(1e-5, 1e-3*math.Abs(at[i])) // logarithms bend at small values
				near(t, fmt.Sprintf("%+v %s %d", shape, what, i), grad[i], difference(&at[i], h, p.loss), 1e-6)
			}
		}
		check("weight", p.weights, grad)
		check("state", p.before, state)
		for i := range 2 {
			check("context", p.context[i], dc[i])
			check("x", p.x[i], dx[i])
		}
	}
}

func difference(at *float64, h float64, f func() float64) float64 {
	was := *at
	*at = was + h
	up := f()
	*at = was - h
	down := f()
	*at = was
	return (up - down) / (2 * h)
}
