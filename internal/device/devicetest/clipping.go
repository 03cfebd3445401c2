package devicetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// clipTolerance is how far rounding may carry one example's share beyond C.
const clipTolerance = 1e-5

// clippingClaims are about what one example can do to a sum, with a regression test for each
// mistake that other libraries shipped.
var clippingClaims = claims[device.Device]{
	{"share of one example", testShare},
	{"ghost mode ignoring C≠1 (opacus 664)", testGhostNorms},
	{"norm without the bias (opacus 751)", testBiasNorms},
	{"virtual batches sharing ghost state (opacus 707)", testGhostState},
	{"elements clipped in place of the L2 norm (opacus-cpp)", func(t *testing.T, d device.Device) {
		c := steep(t, d)
		grads := gradients(t, c)
		eachNet(t, d, c, private(t, c.Program), 1, func(t *testing.T, x *Fixture) {
			for row, g := range grads {
				Near(t, x.Of(t, []int32{int32(row)}, 0.1), scaled(g, 0.1/Norm(g)), tolerance(d))
			}
		})
	}},
	{"sensitivity 2C of microbatches", testSensitivity},
	{"huge and finite", func(t *testing.T, d device.Device) {
		eachCase(t, d, fewIn(d), 1, 11, func(t *testing.T, c *Case) {
			c.scaleBy(1e30, 0)
			c = c.with(1, 1).with(255, 1)
			eachNet(t, d, c, private(t, c.Program), 1, func(t *testing.T, x *Fixture) {
				for _, row := range c.All() {
					bounded(t, x.Of(t, []int32{row}, 1), 1)
				}
			})
		})
	}},
}

func testShare(t *testing.T, d device.Device) {
	eachCase(t, d, programsIn(d), 5, 8, func(t *testing.T, c *Case) {
		grads := gradientsIn(t, c)
		eachNet(t, d, c, private(t, c.Program), 1, func(t *testing.T, x *Fixture) {
			for row, g := range grads[0] {
				n := Norm(g)
				for _, norm := range []float64{n / 1000, n / 3, n * 0.999, n * 1.001, 5 * n} {
					if n == 0 {
						norm = 1
					}
					share := x.Of(t, []int32{int32(row)}, norm)
					bounded(t, share, norm)
					var want [][]float32
					for _, grads := range grads {
						g := grads[row]
						want = append(want, scaled(g, min(1, norm/max(Norm(g), 1e-30))))
					}
					nearOne(t, share, want, tolerance(d))
				}
			}
		})
	})
}

func testGhostNorms(t *testing.T, d device.Device) {
	c := steep(t, d)
	grads := gradients(t, c)
	eachNet(t, d, c, private(t, c.Program), c.Rows.Count, func(t *testing.T, x *Fixture) {
		for _, norm := range []float64{0.01, 0.5, 1, 2, 4} {
			for row, g := range grads {
				if Norm(g) < 4 {
					t.Fatalf("example %d has the norm %v, which C = %v does not clip", row, Norm(g), norm)
				}
				exactly(t, d, x.Of(t, []int32{int32(row)}, norm), norm)
			}
			Near(t, x.Of(t, c.All(), norm), oracle(t, c, c.All(), norm), tolerance(d))
		}
	})
}

// testBiasNorms has inputs of zero: a layer's whole gradient is its bias's.
func testBiasNorms(t *testing.T, d device.Device) {
	conv := NewBuilder("conv", ce, 1, 4, 4)
	conv.Dense(conv.Act(ir.Tanh, conv.Conv(ir.Input, 2, ir.Square(3, 1, 0), true)), 4, false)
	sequence := NewBuilder("dense on an image", ce, 2, 3, 4)
	sequence.Dense(ir.Input, 4, true)
	for _, p := range []*ir.Program{linear("dense", ce, 6, 4, true), conv.Program(), sequence.Program()} {
		t.Run(p.Name, func(t *testing.T) {
			c := newCase(t, d, p, 3, 9)
			c.scaleBy(0, 0)
			eachNet(t, d, c, private(t, p), 1, func(t *testing.T, x *Fixture) {
				for _, row := range c.All() {
					exactly(t, d, x.Of(t, []int32{row}, 0.05), 0.05)
				}
			})
		})
	}
}

// testGhostState fills two sums of one net in turns.
func testGhostState(t *testing.T, d device.Device) {
	eachCase(t, d, fewIn(d), 12, 10, func(t *testing.T, c *Case) {
		norm := clipNorms(t, c)[1].norm
		want := oracle(t, c, c.All(), norm)
		eachNet(t, d, c, private(t, c.Program), 5, func(t *testing.T, x *Fixture) {
			y := *x
			y.Sum = x.sum(t)
			y.Clipped = x.record(t, func(q device.Queue) { q.ClippedSum(y.Sum, x.Data) })
			y.Free = x.record(t, func(q device.Queue) { q.Release(x.Out, y.Sum, x.Noise) })
			for _, part := range [][]int32{{0, 1, 2, 3, 4}, {5, 6}, {7, 8, 9, 10}, {11}} {
				x.Add(t, part, norm)
				y.Add(t, []int32{0, 1}, norm)
			}
			Near(t, x.Release(t, 0), want, tolerance(d))
			y.draw = x.draw
			Near(t, y.Release(t, 0), oracle(t, c, []int32{0, 1, 0, 1, 0, 1, 0, 1}, norm), tolerance(d))
		})
	})
}

// testSensitivity leaves each record out in turn: adding one moves a sum by at
// most C. Clipping a microbatch's mean would let a record move it by 2C.
func testSensitivity(t *testing.T, d device.Device) {
	c := steep(t, d)
	const norm = 0.7
	eachNet(t, d, c, private(t, c.Program), c.Rows.Count, func(t *testing.T, x *Fixture) {
		whole := x.Of(t, c.All(), norm)
		for i, row := range c.All() {
			// The sums' own rounding comes on top of the share's.
			if n := Norm(minus(whole, x.Of(t, slices.Delete(c.All(), i, i+1), norm))); !(n <= norm*(1+1e-4)) {
				t.Errorf("without row %d the sum moves by %v, more than C = %v", row, n, norm)
			}
		}
	})
}

// steep is a case whose gradients all are longer than 4, spread over many
// elements.
func steep(t testing.TB, d device.Device) *Case {
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

// accumulationClaims add several batches into one sum before its release.
var accumulationClaims = claims[site]{
	{"noise σ√k over k batches (optax 527)", testAccumulatedNoise},
	{"one sum leaves another alone", func(t *testing.T, s site) {
		x := s.open(t)
		other := x.sum(t)
		x.Add(t, s.All(), 0.5)
		free := x.record(t, func(q device.Queue) { q.Release(x.Out, other, x.Noise) })
		must(t, free.Run(x.next()))
		Same(t, x.read(t, x.Out), make([]float32, x.size))
		Near(t, x.Release(t, 0), oracle(t, s.Case, s.All(), 0.5), tolerance(s.d))
	}},
	{"several steps in one", testWholeStep},
}

func testAccumulatedNoise(t *testing.T, s site) {
	for _, k := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			bare, noisy := s.open(t), s.open(t)
			for i := range k {
				bare.Add(t, s.All()[i:], 0.5)
				noisy.Add(t, s.All()[i:], 0.5)
			}
			want := bare.Release(t, 0)
			addNoise(t, want, noisy.Noise, 1, 3)
			Near(t, noisy.Release(t, 3), want, 1e-6)
		})
	}
}

// testWholeStep records sum, release and update as one step.
func testWholeStep(t *testing.T, s site) {
	x := s.open(t)
	g := oracle(t, s.Case, s.All(), 0.5)
	step := x.record(t, func(q device.Queue) {
		q.ClippedSum(x.Sum, x.Data)
		q.Release(x.Out, x.Sum, x.Noise)
		q.Update(device.SGD, x.Net.Params(), x.Out)
	})
	in := clipAt(0.5, s.All()...)
	in.Draw, in.Scalars[device.Scale], in.Scalars[device.Rate] = 1, 0.5, 0.25
	must(t, step.Run(in))
	Near(t, minus(s.Params, x.read(t, x.Net.Params())), scaled(g, 0.125), 5*tolerance(s.d))
}

// addNoise adds the noise that a release at a position draws.
func addNoise(t testing.TB, x []float32, n device.Noise, draw uint64, std float64) {
	t.Helper()
	for i, z := range Drawn(t, n, draw, std, len(x)) {
		x[i] = float32(float64(x[i]) + z)
	}
}
