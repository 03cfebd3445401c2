package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

func open(t testing.TB, threads int) *cpu.Device {
	t.Helper()
	d, err := cpu.Open(threads)
	check(t, err)
	return d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) { conforms(t, 3) }

// TestLongConformance takes other numbers of threads, whose bits TestBitsDoNotDependOnThreads compares.
func TestLongConformance(t *testing.T) { conforms(t, 1, 8) }

func conforms(t *testing.T, numbers ...int) {
	for _, threads := range numbers {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device { return open(t, threads) })
		})
	}
}

func TestThreads(t *testing.T) {
	if _, err := cpu.Open(-1); err == nil {
		t.Error("a negative number of threads is accepted")
	}
	if n := open(t, 0).Info().Threads; n < 1 {
		t.Errorf("0 stands for %d threads", n)
	}
	if n := open(t, 3).Info().Threads; n != 3 {
		t.Errorf("3 threads are %d", n)
	}
}

// Choices for all convolutions of a program.
const gram, recompute perexample.Strategy = "gram", "recompute"

func schedule(t testing.TB, p *ir.Program, strategy perexample.Strategy) *ir.Schedule {
	t.Helper()
	if strategy == gram || strategy == recompute {
		choice := strategy
		strategy = perexample.Bookkeeping
		for _, op := range p.Ops {
			if op.Kind == ir.Conv && (choice != gram || op.Has(ir.NormGram)) {
				strategy += "," + perexample.Strategy(strings.TrimSuffix(p.Params[op.Weight].Name, ".weight")) + "=" + choice
			}
		}
	}
	s, err := perexample.Plain(p)
	if strategy != "" {
		s, err = perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
	}
	check(t, err)
	return s
}

// batchSum is the step that sums a batch, in integers or not.
func batchSum(t testing.TB, d device.Device, c *devicetest.Case, strategy perexample.Strategy, batch int, exact bool) device.Step {
	t.Helper()
	net, err := d.Compile(schedule(t, c.Program, strategy), device.Options{Capacity: batch, Exact: exact})
	check(t, err)
	t.Cleanup(func() { check(t, net.Close()) })
	data, err := d.Load(c.Rows, c.Features)
	check(t, err)
	t.Cleanup(func() { check(t, data.Close()) })
	check(t, net.Write(net.Params(), c.Params))
	sum, err := net.NewSum()
	check(t, err)
	step, err := net.Record(func(q device.Queue) { q.ClippedSum(sum, data) })
	check(t, err)
	return step
}

// oracle gives the reference's sums of a whole case by clip norm. Strategies move them by the rounding of
// float64 alone, which the reference's own tests show: two are made, with clipping and without.
func oracle(t testing.TB, c *devicetest.Case, clips ...float64) func(perexample.Strategy) map[float64][]float32 {
	t.Helper()
	sums := func(strategy perexample.Strategy) map[float64][]float32 {
		x, of := devicetest.Open(t, reference.Open(), schedule(t, c.Program, strategy), c, c.Rows.Count), map[float64][]float32{}
		for _, clip := range clips {
			of[clip] = x.Of(t, c.All(), clip)
		}
		return of
	}
	plain, private := sums(""), sums(perexample.Auto)
	return func(strategy perexample.Strategy) map[float64][]float32 {
		if strategy == "" {
			return plain
		}
		return private
	}
}

// TestBitsDoNotDependOnThreads trains for a few steps, with batches that fill
// several blocks of every kind, and compares all that leaves the device.
func TestBitsDoNotDependOnThreads(t *testing.T) { sameBits(t, 1, 8) }

// TestLongBitsDoNotDependOnThreads takes other numbers of threads.
func TestLongBitsDoNotDependOnThreads(t *testing.T) { sameBits(t, 1, 2, 3) }

func sameBits(t *testing.T, numbers ...int) {
	const capacity = 300
	for _, p := range devicetest.Programs() {
		c := devicetest.NewCase(t, p, 40, 31)
		for _, strategy := range []perexample.Strategy{"", perexample.Ghost, perexample.Materialise, gram, recompute} {
			t.Run(fmt.Sprintf("%s %s", p.Name, strategy), func(t *testing.T) {
				var want []result
				for _, threads := range numbers {
					got := train(t, open(t, threads), schedule(t, p, strategy), c, capacity)
					if want == nil {
						want = got
					}
					for step := range got {
						for what, pair := range map[string][2][]float32{
							"the released sum": {got[step].released, want[step].released},
							"the parameters":   {got[step].params, want[step].params},
						} {
							t.Run(fmt.Sprintf("%d threads, step %d, %s", threads, step, what), func(t *testing.T) { devicetest.Same(t, pair[0], pair[1]) })
						}
						if !reflect.DeepEqual(got[step].score, want[step].score) {
							t.Errorf("%d threads, step %d: the score is %+v, want %+v", threads, step, got[step].score, want[step].score)
						}
					}
				}
			})
		}
	}
}

// An LSTM's steps have the same bits on any number of threads, over several of its blocks and a part of one.
func TestProjectBitsDoNotDependOnThreads(t *testing.T) {
	b := devicetest.NewBuilder("learned", ir.Huber, 4001)
	b.Dense(ir.Input, 1, true)
	c := devicetest.NewCase(t, b.Program(), 1, 35)
	l := device.LSTM{Layers: 2, Hidden: 20, Context: 3}
	var want []float32
	for _, threads := range []int{1, 2, 3, 8} {
		x := devicetest.Open(t, open(t, threads), schedule(t, c.Program, perexample.Auto), c, 1)
		step, state := learned(t, x, l, len(c.Params))
		for range 3 {
			step()
		}
		got := make([]float32, len(c.Params)*(1+l.States()))
		check(t, x.Net.Read(x.Net.Params(), got[:len(c.Params)]))
		check(t, x.Net.Read(state, got[len(c.Params):]))
		if want == nil {
			want = got
		}
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) { devicetest.Same(t, got, want) })
	}
}

// learned is a step that an LSTM makes of a gradient.
func learned(t testing.TB, x *devicetest.Fixture, l device.LSTM, params int) (step func(), state device.Vector) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(36, 1))
	normals := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(0.3 * rnd.NormFloat64())
		}
		return v
	}
	weights, err := x.Net.NewScalars(l.Weights())
	check(t, err)
	check(t, x.Net.Write(weights, normals(l.Weights())))
	check(t, x.Net.Write(x.Out, normals(params)))
	state, err = x.Net.NewVector(l.States())
	check(t, err)
	s, err := x.Net.Record(func(q device.Queue) { q.Project(l, x.Net.Params(), x.Out, weights, state) })
	check(t, err)
	in := &device.Inputs{}
	for slot := range in.Scalars {
		in.Scalars[slot] = 0.5
	}
	return func() { check(t, s.Run(in)) }, state
}

type result struct {
	released, params []float32
	score            device.Score
}

func train(t *testing.T, d device.Device, s *ir.Schedule, c *devicetest.Case, capacity int) []result {
	t.Helper()
	x := devicetest.Open(t, d, s, c, capacity)
	var state []device.Vector
	for range device.Adam.States() {
		v, err := x.Net.NewVector(1)
		check(t, err)
		state = append(state, v)
	}
	finish, err := x.Net.Record(func(q device.Queue) {
		q.Update(device.Adam, x.Net.Params(), x.Out, state...)
		q.Score(x.Net.Params(), x.Data)
	})
	check(t, err)
	var list []result
	for step, n := range []int{capacity, 37, 1} {
		rows := make([]int32, n)
		for i := range rows {
			rows[i] = int32((i*7 + step) % c.Rows.Count)
		}
		x.Add(t, rows, 0.8)
		r := result{released: x.Release(t, 0.01), params: make([]float32, len(c.Params))}
		in := &device.Inputs{}
		in.Scalars = [device.Slots]float32{
			device.Scale: 1.0 / 300, device.Rate: 0.01, device.L2: 0.001, device.Beta1: 0.9, device.Beta2: 0.999,
			device.Bias1: float32(1 - math.Pow(0.9, float64(step+1))), device.Bias2: float32(1 - math.Pow(0.999, float64(step+1))), device.Epsilon: 1e-6,
		}
		check(t, finish.Run(in))
		out, err := finish.Wait()
		check(t, err)
		r.score = out.Scores[0]
		check(t, x.Net.Read(x.Net.Params(), r.params))
		list = append(list, r)
	}
	return list
}

// TestProfile checks that a clock at every step changes no bit and misses none.
func TestProfile(t *testing.T) {
	p := devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	c := devicetest.NewCase(t, p, 8, 33)
	for _, strategy := range []perexample.Strategy{perexample.Auto, gram, recompute} {
		s := schedule(t, p, strategy)
		x := devicetest.Open(t, open(t, 2), s, c, 8)
		want := x.Of(t, c.All(), 0.5)
		spent := x.Net.(device.Profiler).Profile()
		devicetest.Same(t, x.Of(t, c.All(), 0.5), want)
		times := spent()
		if len(times) != len(s.Steps) {
			t.Fatalf("%d steps have %d times", len(s.Steps), len(times))
		}
		for i, d := range times {
			// The first convolution takes what the pooling behind it picked, but for a Gram matrix.
			unpool := s.Steps[i].Kind == ir.InputGrad && s.Steps[i].Op == 1
			if skipped := unpool && strategy != gram; (d <= 0) != skipped {
				t.Errorf("%q: %s of %d took %v", strategy, s.Steps[i].Kind, s.Steps[i].Op, d)
			}
		}
	}
	// A ReLU on the way out of a convolution takes no time of its own.
	p = squares(t)
	x := devicetest.Open(t, open(t, 2), schedule(t, p, perexample.Materialise), devicetest.NewCase(t, p, 9, 34), 9)
	want := x.Of(t, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}, 0.5)
	x.Net.(device.Profiler).Profile()
	devicetest.Same(t, x.Of(t, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}, 0.5), want)
}

// Gradients from what a max pooling picked, in the first layer, where nobody else needs that pooling's gradient, and in a
// second one. Windows leave out outputs, overlap or stand apart; images are padded; a bias is missing.
func TestPicks(t *testing.T) {
	for _, test := range []struct {
		conv, pool ir.Window
		bias       bool
	}{
		{ir.Square(5, 1, 0), ir.Square(2, 2, 0), true},
		{ir.Square(5, 1, 2), ir.Square(2, 2, 0), false},
		{ir.Square(4, 1, 1), ir.Square(3, 3, 0), true},
		{ir.Square(7, 1, 0), ir.Square(3, 2, 0), true},
		{ir.Window{H: 2, W: 8, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, ir.Square(2, 3, 0), false},
		{ir.Window{H: 3, W: 6, StrideH: 2, StrideW: 1, DilationH: 2, DilationW: 1}, ir.Square(2, 2, 0), true},
	} {
		b := devicetest.NewBuilder("picks", ir.SoftmaxCrossEntropy, 2, 21, 24)
		x := b.Pool(ir.MaxPool, b.Act(ir.Tanh, b.Conv(ir.Input, 5, test.conv, test.bias)), test.pool)
		x = b.Pool(ir.MaxPool, b.Conv(x, 3, ir.Window{H: 1, W: 4, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, test.bias), ir.Square(2, 2, 0))
		b.Dense(x, 3, true)
		p := b.Program()
		const rows = 11
		c := devicetest.NewCase(t, p, rows, 52)
		want := oracle(t, c, 0.05, 5)
		for _, strategy := range []perexample.Strategy{"", perexample.Auto, perexample.Materialise, recompute} {
			s := schedule(t, p, strategy)
			got := devicetest.Open(t, open(t, 2), s, c, rows)
			for clip, want := range want(strategy) {
				devicetest.Near(t, got.Of(t, c.All(), clip), want, devicetest.Tolerance)
			}
			spent := got.Net.(device.Profiler).Profile()
			got.Of(t, c.All(), 1)
			for i, d := range spent() {
				if unpool := s.Steps[i].Kind == ir.InputGrad && s.Steps[i].Op == 1; unpool && d != 0 {
					t.Errorf("%q: the gradient of the first pooling took %v", strategy, d)
				}
			}
			if t.Failed() {
				t.Fatalf("%q on %+v under %+v", strategy, test.conv, test.pool)
			}
		}
	}
}

// A value that overflows makes its layer's gradient no number, though no window of the pooling behind picked an output that
// read it.
func TestOverflowBesidePicks(t *testing.T) {
	b := devicetest.NewBuilder("overflow", ir.SoftmaxCrossEntropy, 1, 16, 16)
	pooled := func(v ir.Value, out int) ir.Value {
		return b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(v, out, ir.Square(5, 1, 0), true)), ir.Square(2, 2, 0))
	}
	b.Dense(pooled(pooled(ir.Input, 1), 8), 3, true)
	p := b.Program()
	const taps, pixels = 25, 16 * 16
	// The last pixel meets a layer's last tap in the last output alone, which is the lowest of its window.
	last := func(c *devicetest.Case, op, channel int) *float32 {
		return &c.Params[p.Params[p.Ops[op].Weight].Offset+(channel+1)*taps-1]
	}
	for name, prepare := range map[string]func(c *devicetest.Case) (pixel uint8){
		"input": func(c *devicetest.Case) uint8 {
			c.Rows.Gather = ir.Gather{ir.ScaledBy(3e38, 0)}
			*last(c, 0, 0) = -1
			return 2
		},
		"activation": func(c *devicetest.Case) uint8 {
			c.Rows.Gather = ir.Gather{ir.ScaledBy(c.Rows.Gather[0].Scale, 0)}
			*last(c, 0, 0) = math.MaxFloat32
			for channel := range 8 {
				*last(c, 3, channel) = -1
			}
			return 255
		},
	} {
		c := devicetest.NewCase(t, p, 2, 51)
		row := c.Features[pixels:]
		clear(row)
		pixel := prepare(c)
		for _, overflows := range []bool{false, true} {
			if overflows {
				row[pixels-1] = pixel
			}
			for _, strategy := range []perexample.Strategy{perexample.Auto, perexample.Materialise, gram, recompute} {
				x := devicetest.Open(t, open(t, 2), schedule(t, p, strategy), c, 2)
				if sum := x.Of(t, []int32{1}, 1); (devicetest.Norm(sum) == 0) != overflows {
					t.Errorf("%q: overflow of the %s %v, and the row's gradient has the norm %v", strategy, name, overflows, devicetest.Norm(sum))
				}
			}
		}
	}
}

// Two layers that take several examples together, one behind the other, and nobody else reads what lies between. Two
// batches, so that nothing of one may be left for the next.
func TestSmallImagesTogether(t *testing.T) {
	b := devicetest.NewBuilder("small images", ir.SoftmaxCrossEntropy, 1, 8, 8)
	x := b.Act(ir.ReLU, b.Conv(ir.Input, 32, ir.Square(1, 1, 0), true))
	x = b.Act(ir.ReLU, b.Conv(x, 32, ir.Square(3, 1, 1), true))
	x = b.Act(ir.ReLU, b.Conv(x, 32, ir.Square(3, 1, 1), true))
	b.Dense(x, 3, true)
	p := b.Program()
	for i, need := 1, p.NeedsGrad(); i < len(p.Ops); i++ {
		if op := &p.Ops[i]; op.Kind == ir.Conv && !cpu.BySquares(op, need[op.In[0]]) {
			t.Fatal("a convolution does not go by squares: the test tries nothing")
		}
	}
	const rows = 10
	c := devicetest.NewCase(t, p, rows, 41)
	want := oracle(t, c, 0.05, 0.5)
	for _, strategy := range []perexample.Strategy{"", perexample.Auto, perexample.Materialise, gram, recompute} {
		s := schedule(t, p, strategy)
		for _, capacity := range []int{5, rows} {
			got := devicetest.Open(t, open(t, 2), s, c, capacity)
			for clip, want := range want(strategy) {
				devicetest.Near(t, got.Of(t, c.All(), clip), want, devicetest.Tolerance)
			}
			if t.Failed() {
				t.Fatalf("%q, %d at a time", strategy, capacity)
			}
		}
	}
}

// FuzzGeometry compares random convolutions and pools with the reference. The
// corpus below is fixed; go test -fuzz looks further.
func FuzzGeometry(f *testing.F) {
	for seed := range uint64(150) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		p := randomProgram(rand.New(rand.NewPCG(seed, 32)))
		if p == nil {
			return
		}
		c := devicetest.NewCase(t, p, 3, seed)
		rows := c.All()
		for _, strategy := range []perexample.Strategy{"", perexample.Auto, gram, recompute} {
			s := schedule(t, p, strategy)
			want := devicetest.Open(t, reference.Open(), s, c, 3).Of(t, rows, 0.5)
			got := devicetest.Open(t, open(t, 2), s, c, 3).Of(t, rows, 0.5)
			devicetest.Near(t, got, want, devicetest.Tolerance)
			if t.Failed() {
				t.Fatalf("%q on\n%s%+v", strategy, p, p.Ops)
			}
		}
	})
}

// randomProgram is a convolution, an activation, a pool, a second convolution
// and a dense layer; nil where a window does not fit.
func randomProgram(r *rand.Rand) *ir.Program {
	between := func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }
	window := func() ir.Window {
		return ir.Window{
			H: between(1, 5), W: between(1, 5), StrideH: between(1, 3), StrideW: between(1, 3),
			PadTop: r.IntN(5), PadBottom: r.IntN(5), PadLeft: r.IntN(5), PadRight: r.IntN(5),
			DilationH: between(1, 3), DilationW: between(1, 3),
		}
	}
	shape := []int{between(1, 3), between(1, 11), between(1, 19)}
	b := devicetest.NewBuilder("random", ir.SoftmaxCrossEntropy, shape...)
	h, w := shape[1], shape[2]
	fits := func(win ir.Window) bool {
		h, w = win.Out(h, w)
		return min(h, w) > 0
	}
	x := ir.Input
	conv := func() bool {
		win := window()
		if !fits(win) {
			return false
		}
		x = b.Conv(x, between(1, 9), win, r.IntN(2) == 0)
		return true
	}
	if !conv() {
		return nil
	}
	x = b.Act([]ir.Kind{ir.Tanh, ir.Sigmoid}[r.IntN(2)], x)
	if kind := []ir.Kind{ir.MaxPool, ir.AvgPool, ir.ReLU}[r.IntN(3)]; kind != ir.ReLU {
		win := window()
		win.PadTop, win.PadBottom = win.PadTop%win.H, win.PadBottom%win.H
		win.PadLeft, win.PadRight = win.PadLeft%win.W, win.PadRight%win.W
		win.DilationH, win.DilationW = 1, 1
		if first := b.Program().Ops[0].Window; first.PadTop+first.PadBottom+first.PadLeft+first.PadRight > 0 {
			kind = ir.AvgPool // windows in the padding alone give the same value, and would tie
		}
		if !fits(win) {
			return nil
		}
		x = b.Pool(kind, x, win)
	}
	if !conv() {
		return nil
	}
	b.Dense(x, between(2, 5), true)
	return b.Program()
}
