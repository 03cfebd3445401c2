package cpu

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// How many examples go through the network at a time changes no bit, whether units are shorter or longer, nor does the number of
// threads. The first convolution's outputs live for one example, and those behind it go by squares, several examples together.
func TestStretchesOfImages(t *testing.T) {
	const rows = 130 // of which the last stretch is shorter
	b := devicetest.NewBuilder("squares", ir.SoftmaxCrossEntropy, 3, 16, 16)
	x := b.Pool(ir.MaxPool, b.Conv(ir.Input, 16, ir.Square(3, 1, 1), true), ir.Square(2, 2, 0))
	x = b.Conv(b.Act(ir.ReLU, x), 64, ir.Square(3, 1, 1), true)
	b.Dense(b.Act(ir.ReLU, b.Conv(x, 64, ir.Square(3, 1, 1), true)), 3, true)
	p := b.Program()
	c := devicetest.NewCase(t, p, rows, 67)
	table, err := load(c.Rows, c.Features)
	check(t, err)
	defer func(large, parts int) { largeWeights, mostParts = large, parts }(largeWeights, mostParts)
	usual := mostParts
	for _, strategy := range []perexample.Strategy{"", perexample.Materialise, "materialise,conv2=recompute", "materialise,conv3=gram"} {
		schedule, err := perexample.Plain(p)
		if strategy != "" {
			schedule, err = perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
		}
		check(t, err)
		for _, exact := range []bool{false, true} {
			if exact && strategy != perexample.Materialise {
				continue
			}
			for _, mostParts = range []int{usual, 1} {
				sum := func(threads, large int) any {
					largeWeights = large
					n := compile(schedule, device.Options{Capacity: rows, Exact: exact}, threads)
					defer n.Close()
					if stretched := n.stretch > inCache; n.transformed() == 0 || stretched != (large == 0) || !slices.Contains(n.lives.values, forExample) {
						t.Fatal("the network goes another way: the test tries nothing")
					}
					if exact {
						integers := make([]int64, len(c.Params))
						n.GridSum(integers, c.Params, table, host.Batch{Rows: c.All()}, device.NewGrid(0.5))
						return integers
					}
					floats := make([]float32, len(c.Params))
					n.ClippedSum(floats, c.Params, table, host.Batch{Rows: c.All()}, 0.5)
					return floats
				}
				want := sum(1, math.MaxInt)
				for _, threads := range []int{1, 3} {
					if !reflect.DeepEqual(sum(threads, 0), want) {
						t.Errorf("strategy %q, exact %v, %d values in parts: on %d threads, stretches give other bits", strategy, exact, mostParts, threads)
					}
				}
			}
		}
	}
}

// After a gram norm the gradient has the bits of the kernel whose rounding that norm includes, also where the convolution
// itself goes by squares; after other norms it goes by squares.
func TestGramGradientGoesByTaps(t *testing.T) {
	b := devicetest.NewBuilder("gram", ir.SoftmaxCrossEntropy, 2, 8, 8)
	b.Dense(b.Act(ir.ReLU, b.Conv(b.Conv(ir.Input, 32, ir.Square(3, 1, 1), true), 32, ir.Square(3, 1, 1), true)), 3, true)
	p := b.Program()
	const op = 1
	for choice, taps := range map[perexample.Choice]bool{perexample.Gram: true, perexample.Recompute: false} {
		schedule, err := perexample.Private(p, perexample.Options{Strategy: perexample.Strategy("materialise,conv2=" + choice), Clipping: ir.Flat})
		check(t, err)
		n := compile(schedule, device.Options{Capacity: 1}, 1)
		defer n.Close()
		c := n.convs[op]
		if c.squares == nil {
			t.Fatal("the convolution does not go by squares: the test tries nothing")
		}
		r := rand.New(rand.NewPCG(61, 62))
		for _, x := range [][]float32{n.value(c.op.In[0], 0), n.delta(op+1, 0)} {
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
		}
		w := &n.workers.own
		got := n.instantiate(op)(0, w)
		out, k, positions := c.op.Columns()
		want := make([]float32, k*out)
		x := c.x.lay(n.valuesFrom(c.op.In[0], 0), w.images[op])
		gemm.Contract(gemm.RowMajor(want, k, out), x, c.taps, gemm.RowMajor(n.delta(op+1, 0), out, positions), false, new(gemm.PackedB))
		same := true
		for i := range want {
			same = same && math.Float32bits(got[i]) == math.Float32bits(want[i])
		}
		if same != taps {
			t.Errorf("after %s the gradient goes by taps: %v, want %v", choice, same, taps)
		}
	}
}

// Both convolutions of a LeNet take what was picked, but where a norm includes the rounding of another order.
func TestLeNetPicks(t *testing.T) {
	p := devicetest.LeNet("lenet", 28, 6, 16, 4, 4)
	for choice, picks := range map[perexample.Choice]bool{perexample.Gram: false, perexample.Recompute: true, perexample.Store: true} {
		schedule, err := perexample.Private(p, perexample.Options{Strategy: perexample.Strategy("materialise,conv1=" + choice + ",conv2=" + choice), Clipping: ir.Flat})
		check(t, err)
		n := compile(schedule, device.Options{Capacity: 1}, 1)
		defer n.Close()
		for _, op := range []int{0, 3} {
			if got := n.convs[op].picks != nil; got != picks {
				t.Errorf("%s: convolution %d takes what was picked: %v, want %v", choice, op, got, picks)
			}
		}
		if unread := n.deltas[1] == nil; unread != picks {
			t.Errorf("%s: the first outputs have no gradient: %v, want %v", choice, unread, picks)
		}
	}
}

// A unit of more examples than go through their layers at a time gives the same sum.
func TestLargeUnits(t *testing.T) {
	const rows, threads = 150, 2
	p := devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	c := devicetest.NewCase(t, p, rows, 63)
	schedule, err := perexample.Private(p, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
	check(t, err)
	sum := func(most, least int) []float32 {
		defer func(before int) { mostParts = before }(mostParts)
		mostParts = most
		n := compile(schedule, device.Options{Capacity: rows}, threads)
		defer n.Close()
		if n.unit < least || n.passed == 0 {
			t.Fatalf("units are of %d examples and %d values: the test tries nothing", n.unit, n.passed)
		}
		d, err := Open(threads)
		check(t, err)
		return devicetest.Open(t, d, schedule, c, rows).Of(t, c.All(), 0.5)
	}
	devicetest.Near(t, sum(1, 2*inCache), sum(mostParts, leastUnit), devicetest.Tolerance)
}
