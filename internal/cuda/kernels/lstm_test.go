package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// learned is n parameters under a learned rule, on a machine and as the definition has them.
type learned struct {
	lstm                 device.LSTM
	weights, p, g, state []float32
	in                   inputs
}

func (x *learned) scalars() *[device.Slots]float32 {
	return (*[device.Slots]float32)(x.in.scalars[:device.Slots])
}

// run makes one step, in memory of exactly the length that it may touch, and keeps what it gives.
func (x *learned) run(t *testing.T) {
	t.Helper()
	m, n := newMachine(t), len(x.p)
	p, g, weights, state := put(m, x.p), put(m, x.g), put(m, x.weights), put(m, x.state)
	l, err := kernels.Project(m.alloc(x.in.bytes()), x.lstm, n, p, g, weights, state)
	if err != nil {
		t.Fatal(err)
	}
	m.run(l)
	allSame(t, "gradient", get[float32](m, g, n), x.g)
	allSame(t, "weights", get[float32](m, weights, len(x.weights)), x.weights)
	x.p, x.state = get[float32](m, p, n), get[float32](m, state, len(x.state))
}

// applied is the definition's step.
func (x *learned) applied() (p []float64, state []float64) {
	w, n, one := wide(x.weights), len(x.p), make([]float64, x.lstm.States())
	p, state = make([]float64, n), make([]float64, len(x.state))
	for i := range p {
		for k := range one {
			one[k] = float64(x.state[k*n+i])
		}
		p[i] = x.lstm.Apply(x.scalars(), w, float64(x.p[i]), float64(x.g[i]), one)
		for k, v := range one {
			state[k*n+i] = v
		}
	}
	return p, state
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func TestProject(t *testing.T) {
	for _, c := range []struct {
		lstm device.LSTM
		n    int
	}{
		{device.LSTM{Layers: 2, Hidden: 20, Context: 2}, 129},               // the usual
		{device.LSTM{Layers: 1, Hidden: 1}, 1},                              // the least
		{device.LSTM{Layers: 1, Hidden: 2, LogSign: true}, 300},             // a warp's worth of threads
		{device.LSTM{Layers: 3, Hidden: 5, Context: 4, LogSign: true}, 128}, // units for which there is room but no work
		{device.LSTM{Layers: 2, Hidden: 31, Context: 1}, 127},               // layers of several slabs
		{device.LSTM{Layers: 4, Hidden: 64, Context: 4, LogSign: true}, 3},  // the most
	} {
		t.Run(fmt.Sprintf("%+v of %d", c.lstm, c.n), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(17, uint64(c.n)))
			x := learned{lstm: c.lstm, weights: normals32(rnd, c.lstm.Weights(), 1/math.Sqrt(float64(c.lstm.Hidden)))}
			x.p, x.g, x.state = normals32(rnd, c.n, 1), make([]float32, c.n), normals32(rnd, c.n*c.lstm.States(), 0.5)
			for k := range 2 {
				x.in.scalars = [28]float32{
					device.Scale: 1.0 / 300, device.Rate: 0.5, device.L2: 0.25, device.Gain: 1.5 + float32(k),
					device.Context: 0.5, device.Context + 1: -1, device.Context + 2: 2, device.Context + 3: float32(-k),
				}
				for i := range x.g {
					// Of both signs and, for logarithms, below their range; never so that the two terms of what is read cancel.
					x.g[i] = float32(math.Copysign(300*math.Exp(-12*rnd.Float64()), float64(x.p[i])))
				}
				p, state := x.applied()
				x.run(t)
				// A gate adds at most K = 129 terms of root mean square 1/√Hidden, one chain: K·2⁻²⁴ of partial sums of order 1, and
				// their errors have both signs. A layer passes on what the one below is off, by sums with such weights.
				most := 2e-6 * float64(c.lstm.Layers)
				for i, v := range state {
					if !(math.Abs(float64(x.state[i])-v) <= most*(1+math.Abs(v))) {
						t.Fatalf("step %d: value %d of parameter %d's state is %v, want %v", k, i/c.n, i%c.n, x.state[i], v)
					}
				}
				for i, v := range p {
					if !(math.Abs(float64(x.p[i])-v) <= most*(1+math.Abs(v))) {
						t.Fatalf("step %d: parameter %d is %v, want %v", k, i, x.p[i], v)
					}
				}
			}
		})
	}
	for _, l := range []device.LSTM{{Layers: 1}, {Layers: 5, Hidden: 1}, {Layers: 1, Hidden: 65}, {Layers: 1, Hidden: 1, Context: 5}} {
		if _, err := kernels.Project(0, l, 1, 0, 0, 0, 0); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}

// TestCells holds every function of a cell to the definition's, over all that float32 tells apart: each row of weights leaves one of
// them, of the gradient or of its logarithm, the others being 1 or 0 within 2⁻¹²⁵.
func TestCells(t *testing.T) {
	const open, shut = 200, -200
	var list []float32
	for _, v := range []float64{0, 1e-44, 1e-38, 1e-30, 1e-10, 1e-5, 4.53e-5, 4.539992e-5, 4.539994e-5, 4.55e-5, 1e-3, 0.3465, 0.3466, 0.5, 0.9999, 1, 5, 8.5, 9.1, 16, 17.5, 43.6, 80, 86.9, 87.1, 104, 1e4, 1e38} {
		list = append(list, float32(v), float32(-v))
	}
	rnd := rand.New(rand.NewPCG(18, 1))
	for range 300 {
		list = append(list, float32(math.Copysign(math.Exp(rnd.Float64()*math.Log(1e7)-math.Log(1e5)), rnd.Float64()-0.5)))
	}
	for _, c := range []struct {
		what    string
		logSign bool
		own     [4]float32 // weights of the input, forget, cell and output gate
		sign    float32    // weight of the cell gate, of the sign
		bias    [4]float32
	}{
		{"tanh", false, [4]float32{0, 0, 1, 0}, 0, [4]float32{open, shut, 0, open}},
		{"input gate", false, [4]float32{1, 0, 0, 0}, 0, [4]float32{0, shut, open, open}},
		{"forget gate", false, [4]float32{0, 1, 0, 0}, 0, [4]float32{shut, 0, 0, open}},
		{"output gate", false, [4]float32{0, 0, 0, 1}, 0, [4]float32{shut, open, 0, 0}},
		{"logarithm", true, [4]float32{0, 0, 1, 0}, 0, [4]float32{open, shut, 0, open}},
		{"sign", true, [4]float32{}, 1, [4]float32{open, shut, 0, open}},
	} {
		x := learned{lstm: device.LSTM{Layers: 1, Hidden: 1, LogSign: c.logSign}, p: make([]float32, len(list)), g: list}
		for gate, w := range c.own {
			x.weights = append(x.weights, w)
			if c.logSign {
				x.weights = append(x.weights, [4]float32{2: c.sign}[gate])
			}
		}
		x.weights = append(x.weights, 0, 0, 0, 0) // of the last output
		x.weights = append(append(x.weights, c.bias[:]...), 1, 0)
		x.state = append(filled(len(list), float32(9)), filled(len(list), float32(0.75))...)
		x.in.scalars[device.Scale], x.in.scalars[device.Gain], x.in.scalars[device.Rate] = 1, 1, 1
		p, state := x.applied()
		x.run(t)
		near := func(what string, i int, got float32, want float64) {
			// Six roundings, and of exp and of logarithms two units in the last place; 2⁻¹²⁵ of what is not quite shut.
			if !(math.Abs(float64(got)-want) <= 10*0x1p-24*math.Abs(want)+0x1p-124) {
				t.Errorf("%s of gradient %v: %s is %v, want %v, off by %.2g", c.what, list[i], what, got, want, float64(got)/want-1)
			}
		}
		for i := range list {
			near("the output", i, x.state[i], state[i])
			near("the cell", i, x.state[len(list)+i], state[len(list)+i])
			near("the parameter", i, x.p[i], p[i])
		}
	}
}

// What is not a number makes its own parameter none, and no other.
func TestProjectNaN(t *testing.T) {
	rnd := rand.New(rand.NewPCG(19, 1))
	l := device.LSTM{Layers: 2, Hidden: 3, LogSign: true}
	const n = 140
	x := learned{lstm: l, weights: normals32(rnd, l.Weights(), 1), p: normals32(rnd, n, 1), g: normals32(rnd, n, 1), state: normals32(rnd, n*l.States(), 1)}
	x.in.scalars[device.Scale], x.in.scalars[device.Gain], x.in.scalars[device.Rate] = 1, 1, 1
	y := x
	y.g, y.state = slices.Clone(x.g), slices.Clone(x.state)
	y.g[3], y.state[2*n+5], y.state[4*n+133] = nan32, nan32, nan32 // a gradient, an output and a cell
	x.run(t)
	y.run(t)
	for i := range n {
		if bad := i == 3 || i == 5 || i == 133; bad != (y.p[i] != y.p[i]) || !bad && y.p[i] != x.p[i] {
			t.Errorf("parameter %d is %v beside those that are none, %v without", i, y.p[i], x.p[i])
		}
	}
}
