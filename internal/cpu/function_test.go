package cpu

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// faulty is weight standardization with something wrong on the way back.
type faulty struct {
	*standardize
	spoil func(s *standardize, g []float32, w *worker)
}

func (f faulty) back(g []float32, w *worker) { f.spoil(f.standardize, g, w) }

// Faults on the way back, each of which a comparison with the reference must see.
var backFaults = map[string]func(s *standardize, g []float32, w *worker){
	"not taken back": func(*standardize, []float32, *worker) {},
	"the gain has no gradient": func(s *standardize, g []float32, w *worker) {
		s.back(g, w)
		clear(g[s.out*s.taps+s.biases:])
	},
	"the mean stays": func(s *standardize, g []float32, w *worker) {
		means := make([]float32, s.out)
		for i, d := range g[:s.out*s.taps] {
			means[s.channelOf(i)] += d / float32(s.taps)
		}
		s.back(g, w)
		for i := range g[:s.out*s.taps] {
			g[i] += s.scale[s.channelOf(i)] * means[s.channelOf(i)]
		}
	},
	"projected below the floor": func(s *standardize, g []float32, w *worker) {
		follows := s.follows
		s.follows = make([]float32, s.out)
		for o := range s.follows {
			s.follows[o] = 1
		}
		s.back(g, w)
		s.follows = follows
	},
	"not projected above the floor": func(s *standardize, g []float32, w *worker) {
		follows := s.follows
		s.follows = make([]float32, s.out)
		s.back(g, w)
		s.follows = follows
	},
	"without the scale": func(s *standardize, g []float32, w *worker) {
		s.back(g, w)
		for i := range g[:s.out*s.taps] {
			g[i] /= s.scale[s.channelOf(i)]
		}
	},
}

// channelOf is the output channel of value i of a gradient as it is kept.
func (s *standardize) channelOf(i int) int {
	if s.turned {
		return i % s.out
	}
	return i / s.taps
}

// standardCase is a network that keeps gradients both ways: behind the first convolution a pool picks.
func standardCase(t *testing.T) *devicetest.Case {
	t.Helper()
	for _, p := range devicetest.Programs() {
		if p.Name == "standard-conv" {
			return devicetest.NewCase(t, p, 6, 77)
		}
	}
	t.Fatal("the program is gone")
	return nil
}

// sumsBy are the clipped sums of all rows on a device.
func sumBy(t *testing.T, d device.Device, c *devicetest.Case, strategy perexample.Strategy, clip float64) []float32 {
	t.Helper()
	s, err := perexample.Private(c.Program, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
	if err != nil {
		t.Fatal(err)
	}
	return devicetest.Open(t, d, s, c, c.Rows.Count).Of(t, c.All(), clip)
}

// TestPlantedInFunctions: a fault on a gradient's way back to parameters moves the sum by far more than rounding.
func TestPlantedInFunctions(t *testing.T) {
	c := standardCase(t)
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	want := sumBy(t, reference.Open(), c, perexample.Materialise, 1e6)
	correct := functions[ir.Standardize]
	defer func() { functions[ir.Standardize] = correct }()
	for _, strategy := range []perexample.Strategy{perexample.Materialise, "conv1=recompute,conv2=recompute"} {
		functions[ir.Standardize] = correct
		devicetest.Near(t, sumBy(t, d, c, strategy, 1e6), want, devicetest.Tolerance)
		for name, spoil := range backFaults {
			functions[ir.Standardize] = func(op *ir.Op, turned bool) weightFunction {
				return faulty{correct(op, turned).(*standardize), spoil}
			}
			got, off, norm := sumBy(t, d, c, strategy, 1e6), 0.0, vec.SumSquares(want)
			for i := range got {
				off += math.Pow(float64(got[i]-want[i]), 2)
			}
			if !(math.Sqrt(off/norm) > 100*devicetest.Tolerance) {
				t.Errorf("%s, %s: nobody sees it: off by %v of the norm", strategy, name, math.Sqrt(off/norm))
			}
		}
	}
}

// TestTakenBackAfterTheSum shows why a gradient is taken back before its norm: a record's share is clipped to C as the gradient of the
// weight, and taken back to the parameters afterwards it is longer, without end as the weights become short.
func TestTakenBackAfterTheSum(t *testing.T) {
	c := standardCase(t)
	op := &c.Program.Ops[0]
	w := c.Params[c.Program.Params[op.Weight].Offset:][:c.Program.Params[op.Weight].Size()]
	for i := range w {
		w[i] *= 1e-3 // below the floor, which still divides by 1/100
	}
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	correct := functions[ir.Standardize]
	defer func() { functions[ir.Standardize] = correct }()
	const clip = 1.0
	norm := func(x []float32) float64 { return math.Sqrt(vec.SumSquares(x)) }
	of := func() []float32 {
		s, err := perexample.Private(c.Program, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
		if err != nil {
			t.Fatal(err)
		}
		return devicetest.Open(t, d, s, c, 1).Of(t, c.All()[:1], clip)
	}
	if n := norm(of()); n > clip*(1+1e-6) {
		t.Errorf("a share taken back before its norm is %v long, want at most %v", n, clip)
	}
	functions[ir.Standardize] = func(op *ir.Op, turned bool) weightFunction {
		return faulty{correct(op, turned).(*standardize), backFaults["not taken back"]}
	}
	share := of()
	s := newStandardize(op, false).(*standardize)
	gains := c.Params[c.Program.Params[op.Given[0]].Offset:][:op.Out[0]]
	s.set(make([]float32, len(w)), w, [][]float32{gains})
	at := c.Program.Params[op.Weight].Offset
	g := append([]float32{}, share[at:at+s.out*s.taps+s.biases+s.out]...)
	s.back(g, new(worker))
	copy(share[at:], g)
	if n := norm(share); n < 2*clip {
		t.Errorf("taken back after the sum a share is %v long: the test no longer shows what it is for", n)
	}
}
