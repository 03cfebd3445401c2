package devicetest

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// clipTolerance is how far rounding may carry one example's share beyond C.
const clipTolerance = 1e-5

// testClipping checks what one example can do to a sum, with a regression test
// for each mistake that other libraries shipped.
func testClipping(t *testing.T, d device.Device) {
	for _, p := range some(d, Programs()) {
		c := newCase(t, d, p, 5, 8)
		grads := gradients(t, c)
		for _, s := range some(d, private(t, p)) {
			t.Run("share of one example/"+p.Name+" "+s.name, func(t *testing.T) {
				x := Open(t, d, s.Schedule, c, 1)
				for row, g := range grads {
					n := Norm(g)
					for _, norm := range []float64{n / 1000, n / 3, n * 0.999, n * 1.001, 5 * n} {
						if n == 0 {
							norm = 1
						}
						share := x.Of(t, []int32{int32(row)}, norm)
						bounded(t, share, norm)
						Near(t, share, scaled(g, min(1, norm/max(n, 1e-30))), tolerance(d))
					}
				}
			})
		}
	}

	t.Run("ghost mode ignoring C≠1 (opacus 664)", func(t *testing.T) {
		c := steep(t, d)
		grads := gradients(t, c)
		for _, s := range some(d, private(t, c.Program)) {
			t.Run(s.name, func(t *testing.T) {
				x := Open(t, d, s.Schedule, c, c.Rows.Count)
				for _, norm := range []float64{0.01, 0.5, 1, 2, 4} {
					for row, g := range grads {
						if Norm(g) < 4 {
							t.Fatalf("example %d has the norm %v, which C = %v does not clip", row, Norm(g), norm)
						}
						share := x.Of(t, []int32{int32(row)}, norm)
						exactly(t, d, share, norm)
					}
					Near(t, x.Of(t, c.All(), norm), oracle(t, c, c.All(), norm), tolerance(d))
				}
			})
		}
	})

	// With inputs of zero a layer's whole gradient is its bias's.
	t.Run("norm without the bias (opacus 751)", func(t *testing.T) {
		dense := NewBuilder("dense", ce, 6)
		dense.Dense(ir.Input, 4, true)
		conv := NewBuilder("conv", ce, 1, 4, 4)
		conv.Dense(conv.Act(ir.Tanh, conv.Conv(ir.Input, 2, ir.Square(3, 1, 0), true)), 4, false)
		sequence := NewBuilder("dense on an image", ce, 2, 3, 4)
		sequence.Dense(ir.Input, 4, true)
		for _, b := range []*Builder{dense, conv, sequence} {
			c := newCase(t, d, b.Program(), 3, 9)
			c.Rows.Scale, c.Rows.Offset = 0, 0
			for _, s := range some(d, private(t, c.Program)) {
				t.Run(c.Program.Name+" "+s.name, func(t *testing.T) {
					x := Open(t, d, s.Schedule, c, 1)
					for _, row := range c.All() {
						exactly(t, d, x.Of(t, []int32{row}, 0.05), 0.05)
					}
				})
			}
		}
	})

	t.Run("virtual batches sharing ghost state (opacus 707)", func(t *testing.T) {
		for _, p := range some(d, few()) {
			c := newCase(t, d, p, 12, 10)
			norm := clipNorms(t, c)[1].norm
			want := oracle(t, c, c.All(), norm)
			for _, s := range some(d, private(t, p)) {
				t.Run(p.Name+" "+s.name, func(t *testing.T) {
					x := Open(t, d, s.Schedule, c, 5)
					// Two sums of one net fill in turns.
					other, err := x.Net.NewSum()
					must(t, err)
					y := *x
					y.Sum = other
					y.Clipped = x.record(t, func(q device.Queue) { q.ClippedSum(other, x.Data) })
					y.Free = x.record(t, func(q device.Queue) { q.Release(x.Out, other, x.Noise) })
					for _, part := range [][]int32{{0, 1, 2, 3, 4}, {5, 6}, {7, 8, 9, 10}, {11}} {
						x.Add(t, part, norm)
						y.Add(t, []int32{0, 1}, norm)
					}
					Near(t, x.Release(t, 0), want, tolerance(d))
					y.draw = x.draw
					Near(t, y.Release(t, 0), oracle(t, c, []int32{0, 1, 0, 1, 0, 1, 0, 1}, norm), tolerance(d))
				})
			}
		}
	})

	t.Run("elements clipped in place of the L2 norm (opacus-cpp)", func(t *testing.T) {
		c := steep(t, d)
		grads := gradients(t, c)
		for _, s := range some(d, private(t, c.Program)) {
			x := Open(t, d, s.Schedule, c, 1)
			for row, g := range grads {
				Near(t, x.Of(t, []int32{int32(row)}, 0.1), scaled(g, 0.1/Norm(g)), tolerance(d))
			}
		}
	})

	// Adding a record moves a sum by at most C; clipping a microbatch's mean
	// would let a record move it by 2C.
	t.Run("sensitivity 2C of microbatches", func(t *testing.T) {
		c := steep(t, d)
		const norm = 0.7
		for _, s := range some(d, private(t, c.Program)) {
			t.Run(s.name, func(t *testing.T) {
				x := Open(t, d, s.Schedule, c, c.Rows.Count)
				whole := x.Of(t, c.All(), norm)
				for _, row := range c.All() {
					var rest []int32
					for _, r := range c.All() {
						if r != row {
							rest = append(rest, r)
						}
					}
					// The sums' own rounding comes on top of the share's.
					if n := Norm(minus(whole, x.Of(t, rest, norm))); !(n <= norm*(1+1e-4)) {
						t.Errorf("without row %d the sum moves by %v, more than C = %v", row, n, norm)
					}
				}
			})
		}
	})

	t.Run("huge and finite", func(t *testing.T) {
		for _, p := range some(d, few()) {
			c := newCase(t, d, p, 1, 11)
			c.Rows.Scale, c.Rows.Offset = 1e30, 0
			target := float32(1)
			c = c.with(1, target).with(255, target)
			for _, s := range some(d, private(t, p)) {
				t.Run(p.Name+" "+s.name, func(t *testing.T) {
					x := Open(t, d, s.Schedule, c, 1)
					for _, row := range c.All() {
						bounded(t, x.Of(t, []int32{row}, 1), 1)
					}
				})
			}
		}
	})
}

// steep is a case whose gradients all are longer than 4, spread over many
// elements.
func steep(t testing.TB, d device.Device) *Case {
	t.Helper()
	b := NewBuilder("steep", ir.Huber, 1, 6, 6)
	x := b.Act(ir.Tanh, b.Conv(ir.Input, 3, ir.Square(3, 1, 0), true))
	y := b.Dense(x, 6, true)
	b.Dense(b.Add(y, y), 1, true)
	c := newCase(t, d, b.Program(), 6, 12)
	for i := range c.Rows.Targets {
		c.Rows.Targets[i] = float32(50 * (1 - 2*(i%2))) // far outside the quadratic part
	}
	for i := range c.Params {
		c.Params[i] *= 2
	}
	return c
}

func bounded(t testing.TB, share []float32, norm float64) {
	t.Helper()
	if n := Norm(share); !(n <= norm*(1+clipTolerance)) {
		t.Errorf("an example's share has the norm %.9g, more than C = %v", n, norm)
	}
}

func exactly(t testing.TB, d device.Device, share []float32, norm float64) {
	t.Helper()
	least := 0.0
	if precision(d) != device.Float32 {
		least = tolerance(d) // factors that are cut off make it shorter
	}
	if n := Norm(share); !(n <= norm*(1+clipTolerance)) || !(n >= norm*(1-clipTolerance-least)) {
		t.Errorf("a clipped example's share has the norm %.9g, want C = %v", n, norm)
	}
}

// testAccumulation adds several batches into one sum before its release.
func testAccumulation(t *testing.T, d device.Device) {
	c := newCase(t, d, few()[0], 10, 13)
	const clip, std = 0.5, 3
	for _, k := range []int{1, 2, 7} {
		t.Run(fmt.Sprintf("noise σ√k over %d batches (optax 527)", k), func(t *testing.T) {
			s := strategies(t, c.Program)[0]
			bare, noisy := Open(t, d, s.Schedule, c, 10), Open(t, d, s.Schedule, c, 10)
			for i := range k {
				bare.Add(t, c.All()[i:], clip)
				noisy.Add(t, c.All()[i:], clip)
			}
			want := bare.Release(t, 0)
			addNoise(t, want, noisy.Noise, 1, std)
			Near(t, noisy.Release(t, std), want, 1e-6)
		})
	}
	t.Run("one sum leaves another alone", func(t *testing.T) {
		s := strategies(t, c.Program)[0]
		x := Open(t, d, s.Schedule, c, 10)
		other, err := x.Net.NewSum()
		must(t, err)
		x.Add(t, c.All(), clip)
		free := x.record(t, func(q device.Queue) { q.Release(x.Out, other, x.Noise) })
		x.draw++
		must(t, free.Run(&device.Inputs{Draw: x.draw}))
		Same(t, x.read(t, x.Out), make([]float32, x.size))
		Near(t, x.Release(t, 0), oracle(t, c, c.All(), clip), tolerance(d))
	})
	t.Run("several steps in one", func(t *testing.T) {
		// Sum, release and update recorded as one step.
		s := strategies(t, c.Program)[0]
		x := Open(t, d, s.Schedule, c, 10)
		g := oracle(t, c, c.All(), clip)
		step := x.record(t, func(q device.Queue) {
			q.ClippedSum(x.Sum, x.Data)
			q.Release(x.Out, x.Sum, x.Noise)
			q.Update(device.SGD, x.Net.Params(), x.Out)
		})
		in := &device.Inputs{Rows: c.All(), Draw: 1}
		in.Scalars[device.Clip], in.Scalars[device.Scale], in.Scalars[device.Rate] = clip, 0.5, 0.25
		must(t, step.Run(in))
		Near(t, minus(c.Params, x.read(t, x.Net.Params())), scaled(g, 0.125), 5*tolerance(d))
	})
}

// addNoise adds the noise that a release at a position draws.
func addNoise(t testing.TB, x []float32, n device.Noise, draw uint64, std float64) {
	t.Helper()
	for i, z := range Drawn(t, n, draw, std, len(x)) {
		x[i] = float32(float64(x[i]) + z)
	}
}
