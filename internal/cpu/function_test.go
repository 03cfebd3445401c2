package cpu

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// faulty is a function with something wrong on the way back.
type faulty struct {
	weightFunction
	spoil wrong
}

func (f faulty) back(g []float32, w *worker) { f.spoil(f.weightFunction, g, w) }

// A wrong way to take a gradient back.
type wrong func(f weightFunction, g []float32, w *worker)

func notTakenBack(weightFunction, []float32, *worker) {}

// Faults on the way back of each function, with the program of the suite that has it: a comparison with the reference must see
// each.
var backFaults = map[ir.Function]struct {
	program string
	faults  map[string]wrong
}{
	ir.Standardize: {"standard-conv", standardizeFaults},
}

// ofStandardize is a fault of weight standardization.
func ofStandardize(spoil func(s *standardize, g []float32, w *worker)) wrong {
	return func(f weightFunction, g []float32, w *worker) { spoil(f.(*standardize), g, w) }
}

var standardizeFaults = map[string]wrong{
	"not taken back": notTakenBack,
	"the gain has no gradient": ofStandardize(func(s *standardize, g []float32, w *worker) {
		s.back(g, w)
		clear(g[s.out*s.taps+s.biases:])
	}),
	"the mean stays": ofStandardize(func(s *standardize, g []float32, w *worker) {
		means := make([]float32, s.out)
		for i, d := range g[:s.out*s.taps] {
			means[s.channelOf(i)] += d / float32(s.taps)
		}
		s.back(g, w)
		for i := range g[:s.out*s.taps] {
			g[i] += s.scale[s.channelOf(i)] * means[s.channelOf(i)]
		}
	}),
	"projected below the floor": ofStandardize(func(s *standardize, g []float32, w *worker) {
		follows := s.follows
		s.follows = make([]float32, s.out)
		for o := range s.follows {
			s.follows[o] = 1
		}
		s.back(g, w)
		s.follows = follows
	}),
	"not projected above the floor": ofStandardize(func(s *standardize, g []float32, w *worker) {
		follows := s.follows
		s.follows = make([]float32, s.out)
		s.back(g, w)
		s.follows = follows
	}),
	"without the scale": ofStandardize(func(s *standardize, g []float32, w *worker) {
		s.back(g, w)
		for i := range g[:s.out*s.taps] {
			g[i] /= s.scale[s.channelOf(i)]
		}
	}),
}

// channelOf is the output channel of value i of a gradient as it is kept.
func (s *standardize) channelOf(i int) int {
	if s.turned {
		return i % s.out
	}
	return i / s.taps
}

// caseOf is one of a program of the suite.
func caseOf(t *testing.T, program string) *devicetest.Case {
	t.Helper()
	for _, p := range devicetest.Programs() {
		if p.Name == program {
			return devicetest.NewCase(t, p, 6, 77)
		}
	}
	t.Fatalf("the program %s is gone", program)
	return nil
}

// plainly stands for no strategy: nothing is clipped, as nothing is at a clip norm of 1e6.
const plainly perexample.Strategy = "plain"

// sumBy is the clipped sum of all rows on a device.
func sumBy(t *testing.T, d device.Device, c *devicetest.Case, strategy perexample.Strategy, clip float64) []float32 {
	t.Helper()
	s, err := perexample.Plain(c.Program)
	if strategy != plainly {
		s, err = perexample.Private(c.Program, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
	}
	if err != nil {
		t.Fatal(err)
	}
	return devicetest.Open(t, d, s, c, c.Rows.Count).Of(t, c.All(), clip)
}

// TestPlantedInFunctions: a fault on a gradient's way back to parameters moves the sum by far more than rounding.
func TestPlantedInFunctions(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	for function, correct := range functions {
		planted := backFaults[function]
		if len(planted.faults) == 0 {
			t.Errorf("no fault is planted in %s", function)
			continue
		}
		c := caseOf(t, planted.program)
		want, recompute := sumBy(t, reference.Open(), c, perexample.Materialise, 1e6), perexample.Bookkeeping
		for _, op := range c.Program.Ops {
			if op.Function == function {
				recompute += perexample.Strategy("," + strings.TrimSuffix(c.Program.Params[op.Weight].Name, ".weight") + "=recompute")
			}
		}
		for _, strategy := range []perexample.Strategy{perexample.Materialise, recompute, plainly} {
			devicetest.Near(t, sumBy(t, d, c, strategy, 1e6), want, devicetest.Tolerance)
			for name, spoil := range planted.faults {
				functions[function] = func(op *ir.Op, turned bool) weightFunction { return faulty{correct(op, turned), spoil} }
				got, off, norm := sumBy(t, d, c, strategy, 1e6), 0.0, vec.SumSquares(want)
				functions[function] = correct
				for i := range got {
					off += math.Pow(float64(got[i]-want[i]), 2)
				}
				if !(math.Sqrt(off/norm) > 100*devicetest.Tolerance) {
					t.Errorf("%s, %s: nobody sees it: off by %v of the norm", strategy, name, math.Sqrt(off/norm))
				}
			}
		}
	}
}

// TestTakenBackAfterTheSum shows why a gradient is taken back before its norm: a record's share is clipped to C as the gradient of the
// weight, and taken back to the parameters afterwards it is longer, without end as the weights become short.
func TestTakenBackAfterTheSum(t *testing.T) {
	c := caseOf(t, "standard-conv")
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
		return faulty{correct(op, turned), notTakenBack}
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
