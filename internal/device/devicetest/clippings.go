package devicetest

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// byHand clips one gradient by the definition of a clipping, in float64, from
// the gradient's own elements.
func byHand(p *ir.Program, c ir.Clipping, g []float32, clip float64) []float32 {
	norm := func(parts [][]float32) float64 {
		sum := 0.0
		for _, part := range parts {
			for _, v := range part {
				sum += float64(v) * float64(v)
			}
		}
		return math.Sqrt(sum)
	}
	if c == ir.Automatic {
		return scaled(g, clip/(norm([][]float32{g})+0.01))
	}
	share := make([]float32, len(g))
	var layers [][][]int // by layer its parameters, each from and to
	for _, op := range p.Ops {
		var layer [][]int
		for _, q := range []int{op.Weight, op.Bias} {
			if q != ir.None {
				layer = append(layer, []int{p.Params[q].Offset, p.Params[q].Offset + p.Params[q].Size()})
			}
		}
		if layer != nil {
			layers = append(layers, layer)
		}
	}
	for _, layer := range layers {
		var parts [][]float32
		for _, at := range layer {
			parts = append(parts, g[at[0]:at[1]])
		}
		bound := clip / math.Sqrt(float64(len(layers)))
		factor := 1.0
		if n := norm(parts); n > bound {
			factor = bound / n
		}
		for _, at := range layer {
			copy(share[at[0]:at[1]], scaled(g[at[0]:at[1]], factor))
		}
	}
	return share
}

// testClippings checks the clippings other than the flat one: that an example's
// share follows the definition and never exceeds C, and that sums are the
// shares'.
func testClippings(t *testing.T, d device.Device) {
	for _, kind := range []ir.Clipping{ir.PerLayer, ir.Automatic} {
		for _, p := range some(d, Programs()) {
			c := newCase(t, d, p, 9, 31)
			grads := gradients(t, c)
			for _, s := range some(d, clipped(t, p, kind)) {
				t.Run(kind.String()+" "+p.Name+" "+s.name, func(t *testing.T) {
					tolerance := tolerance(d)
					if s.name == string(perexample.Gram) {
						tolerance *= 2 // its norm is longer by a bound on the rounding of the gradient
					}
					x := Open(t, d, s.Schedule, c, 5)
					for _, norm := range clipNorms(t, c) {
						sum := make([]float64, x.size)
						for row, g := range grads {
							want := byHand(p, kind, g, norm.norm)
							share := x.Of(t, []int32{int32(row)}, norm.norm)
							bounded(t, share, norm.norm)
							Near(t, share, want, tolerance)
							for i, v := range want {
								sum[i] += float64(v)
							}
						}
						want := make([]float32, x.size)
						for i, v := range sum {
							want[i] = float32(v)
						}
						whole := x.Of(t, c.All(), norm.norm) // in two runs
						Near(t, whole, want, tolerance)
						Same(t, x.Of(t, c.All(), norm.norm), whole)
					}
				})
			}
		}
		t.Run(kind.String()+" after broken numbers", func(t *testing.T) {
			c := newCase(t, d, program("thrice"), 8, 32)
			for _, s := range some(d, clipped(t, c.Program, kind)) {
				x := Open(t, d, s.Schedule, c, 8)
				want := x.Of(t, c.All()[:5], 0.5)
				must(t, x.Net.Write(x.Net.Params(), constant(x.size, float32(math.NaN()))))
				Same(t, x.Of(t, c.All(), 0.5), make([]float32, x.size))
				must(t, x.Net.Write(x.Net.Params(), c.Params))
				Same(t, x.Of(t, c.All()[:5], 0.5), want)
			}
		})
	}

	// Behind a saturated tanh an infinite feature leaves all layers but the
	// first a finite gradient, and the first 0·∞.
	t.Run("one layer not finite", func(t *testing.T) {
		b := NewBuilder("saturated", ce, 1)
		b.Dense(b.Act(ir.Tanh, b.Dense(ir.Input, 2, true)), 2, true)
		c := &Case{
			Program: b.Program(), Params: []float32{1, 2, 0, 0, 0.5, -0.25, 1, 0.75, 0, 0},
			Rows: device.Rows{Count: 2, Width: 1, Scale: 3e38, Offset: 0.4, Targets: []float32{0, 1}}, Features: []uint8{0, 9},
		}
		for _, s := range clipped(t, c.Program, ir.PerLayer) {
			x := Open(t, d, s.Schedule, c, 2)
			good := x.Of(t, []int32{0}, 1)
			if Norm(good) == 0 {
				t.Fatal("the finite row has no gradient")
			}
			Same(t, x.Of(t, []int32{1}, 1), make([]float32, x.size))
			Near(t, x.Of(t, []int32{1, 0, 1}, 1), good, tolerance(d))
		}
	})

	// A gradient of zero stays zero where small ones are scaled up.
	t.Run("automatic of nothing", func(t *testing.T) {
		b := NewBuilder("flat hinge", ir.Hinge, 2)
		b.Dense(ir.Input, 1, true)
		c := &Case{
			Program: b.Program(), Params: []float32{0, 0, 5},
			Rows: device.Rows{Count: 1, Width: 2, Scale: 1, Targets: []float32{1}}, Features: []uint8{3, 4},
		}
		for _, s := range clipped(t, c.Program, ir.Automatic) {
			Same(t, Open(t, d, s.Schedule, c, 1).Of(t, c.All(), 1), make([]float32, 3))
		}
	})
	// Nor may scaling up overflow beside inputs of zero.
	t.Run("automatic of nothing beside a huge δ", func(t *testing.T) {
		b := NewBuilder("huge", ce, 1)
		b.Dense(b.Dense(ir.Input, 1, false), 2, false)
		c := &Case{
			Program: b.Program(), Params: []float32{1, 1e37, -1e37},
			Rows: device.Rows{Count: 1, Width: 1, Scale: 1, Targets: []float32{0}}, Features: []uint8{0},
		}
		for _, s := range clipped(t, c.Program, ir.Automatic) {
			for _, v := range Open(t, d, s.Schedule, c, 1).Of(t, c.All(), 1) {
				if v != 0 {
					t.Errorf("%s: a gradient of zero adds %v", s.name, v)
				}
			}
		}
	})
}

// counted adds to a sum and a count at once, and releases both in one step.
type counted struct {
	*Fixture
	count     device.Sum
	out       device.Vector
	add, free device.Step
}

func openCounted(t testing.TB, d device.Device, s *ir.Schedule, c *Case, capacity int) *counted {
	t.Helper()
	x := &counted{Fixture: Open(t, d, s, c, capacity)}
	var err error
	x.count, err = x.Net.NewScalarSum(1)
	must(t, err)
	x.out, err = x.Net.NewScalars(1)
	must(t, err)
	x.add = x.record(t, func(q device.Queue) { q.CountedSum(x.Sum, x.count, x.Data) })
	x.free = x.record(t, func(q device.Queue) {
		q.Release(x.Out, x.Sum, x.Noise)
		q.Release(x.out, x.count, x.noise())
	})
	return x
}

// noise is the count's.
func (x *counted) noise() device.Noise {
	return device.NewNoise(x.Noise.Stream(), x.Noise.Tensor()+1).WithSlots(device.CountStd, device.CountStep)
}

func (x *counted) release(t testing.TB, std, countStd float32) ([]float32, float64) {
	t.Helper()
	x.draw++
	in := &device.Inputs{Draw: x.draw}
	SetNoise(in, x.Noise, float64(std))
	SetNoise(in, x.noise(), float64(countStd))
	must(t, x.free.Run(in))
	v := make([]float32, 1)
	must(t, x.Net.Read(x.out, v))
	return x.read(t, x.Out), float64(v[0])
}

func (x *counted) of(t testing.TB, rows []int32, clip float64) ([]float32, float64) {
	t.Helper()
	for first := 0; first < max(len(rows), 1); first += x.capacity {
		in := &device.Inputs{Rows: rows[first:min(first+x.capacity, len(rows))]}
		in.Scalars[device.Clip] = float32(clip)
		must(t, x.add.Run(in))
	}
	return x.release(t, 0, 0)
}

// testCounts checks the centred count of the gradients within the clip norm.
func testCounts(t *testing.T, d device.Device) {
	for _, p := range some(d, Programs()) {
		c := newCase(t, d, p, 9, 33)
		grads := gradients(t, c)
		nan := c.with(77, float32(math.NaN()), float32(math.Inf(1)))
		for _, s := range some(d, private(t, p)) {
			t.Run(p.Name+" "+s.name, func(t *testing.T) {
				x, plain := openCounted(t, d, s.Schedule, nan, 4), Open(t, d, s.Schedule, c, 4)
				for _, clip := range clipNorms(t, c) {
					want := 0.0
					for row, g := range grads {
						share := 0.5
						if Norm(g) > clip.norm {
							share = -0.5
						}
						want += share
						if _, got := x.of(t, []int32{int32(row)}, clip.norm); got != share {
							t.Errorf("C = %v: a row with the norm %v counts %v", clip.norm, Norm(g), got)
						}
					}
					sum, count := x.of(t, c.All(), clip.norm)
					if count != want {
						t.Errorf("C = %v: the count is %v, want %v", clip.norm, count, want)
					}
					Same(t, sum, plain.Of(t, c.All(), clip.norm))
					// Rows that add nothing to the sum add nothing to the count.
					if _, got := x.of(t, nan.All(), clip.norm); got != want {
						t.Errorf("C = %v: with two rows that the loss does not accept the count is %v, want %v", clip.norm, got, want)
					}
				}
				if _, got := x.of(t, nil, 1); got != 0 {
					t.Errorf("the count of no rows is %v", got)
				}
				must(t, x.Net.Write(x.Net.Params(), constant(x.size, float32(math.NaN()))))
				if _, got := x.of(t, c.All(), 1); got != 0 {
					t.Errorf("the count of rows that are not finite is %v", got)
				}
			})
		}
	}

	c := newCase(t, d, program("thrice"), 6, 34)
	s := strategies(t, c.Program)[0].Schedule
	t.Run("a norm next to C", func(t *testing.T) {
		b := NewBuilder("line", ir.Hinge, 2)
		b.Dense(ir.Input, 1, false)
		c := &Case{
			Program: b.Program(), Params: []float32{0, 0},
			Rows: device.Rows{Count: 1, Width: 2, Scale: 1, Targets: []float32{1}}, Features: []uint8{3, 4},
		}
		for _, s := range some(d, private(t, c.Program)) {
			x := openCounted(t, d, s.Schedule, c, 1)
			if _, got := x.of(t, c.All(), 5*(1+1e-6)); got != 0.5 {
				t.Errorf("%s: just above its norm a row counts %v", s.name, got)
			}
			if _, got := x.of(t, c.All(), 5*(1-1e-6)); got != -0.5 {
				t.Errorf("%s: just below its norm a row counts %v", s.name, got)
			}
		}
	})
	t.Run("each release has its own noise", func(t *testing.T) {
		x := openCounted(t, d, s, c, 6)
		sum, count := x.of(t, c.All(), 0.5)
		in := &device.Inputs{Rows: c.All()}
		in.Scalars[device.Clip] = 0.5
		must(t, x.add.Run(in))
		noisySum, noisyCount := x.release(t, 2, 16)
		addNoise(t, sum, x.Noise, x.draw, 2)
		Near(t, noisySum, sum, 1e-6)
		want := []float32{float32(count)}
		addNoise(t, want, x.noise(), x.draw, 16)
		Near(t, []float32{float32(noisyCount)}, want, 1e-6)
		if _, left := x.release(t, 0, 0); left != 0 {
			t.Errorf("a released count leaves %v behind", left)
		}
	})
	t.Run("misuse", func(t *testing.T) {
		x := openCounted(t, d, s, c, 6)
		two, err := x.Net.NewScalarSum(2)
		must(t, err)
		for what, body := range map[string]func(device.Queue){
			"a count of two values":      func(q device.Queue) { q.CountedSum(x.Sum, two, x.Data) },
			"a count into a gradient":    func(q device.Queue) { q.CountedSum(x.Sum, x.Sum, x.Data) },
			"a gradient into a count":    func(q device.Queue) { q.CountedSum(x.count, x.count, x.Data) },
			"a count of a foreign table": func(q device.Queue) { q.CountedSum(x.Sum, x.count, foreign{}) },
			"an unknown count":           func(q device.Queue) { q.CountedSum(x.Sum, 99, x.Data) },
			"a count without a mechanism": func(q device.Queue) {
				q.Release(x.out, x.count, device.Noise{}.WithSlots(device.CountStd, device.CountStep))
			},
			"one tensor for two deviations": func(q device.Queue) {
				q.Release(x.Out, x.Sum, x.Noise)
				q.Release(x.out, x.count, x.Noise.WithSlots(device.CountStd, device.CountStep))
			},
		} {
			if _, err := x.Net.Record(body); err == nil {
				t.Errorf("%s: recorded", what)
			}
		}
		for _, s := range []named{plain(t, c.Program), clipped(t, c.Program, ir.PerLayer)[0], clipped(t, c.Program, ir.Automatic)[0]} {
			x := Open(t, d, s.Schedule, c, 6)
			count, err := x.Net.NewScalarSum(1)
			must(t, err)
			if _, err := x.Net.Record(func(q device.Queue) { q.CountedSum(x.Sum, count, x.Data) }); err == nil {
				t.Errorf("%s clipping has a count", s.Clipping)
			}
		}
		for _, std := range []float32{-1, float32(math.NaN()), float32(math.Inf(1))} {
			x := openCounted(t, d, s, c, 6)
			in := &device.Inputs{Draw: 1}
			SetNoise(in, x.noise(), float64(std))
			if err := x.free.Run(in); err == nil {
				t.Errorf("noise of standard deviation %v was released", std)
			}
		}
		for _, clip := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
			x := openCounted(t, d, s, c, 6)
			in := &device.Inputs{Rows: []int32{0}}
			in.Scalars[device.Clip] = clip
			if err := x.add.Run(in); err == nil {
				t.Errorf("a count at the clip norm %v is accepted", clip)
			}
		}
		x = openCounted(t, d, s, c, 6)
		if err := x.add.Run(&device.Inputs{Rows: []int32{6}, Scalars: [device.Slots]float32{device.Clip: 1}}); err == nil {
			t.Error("a row beyond the table is accepted")
		}
	})
}
