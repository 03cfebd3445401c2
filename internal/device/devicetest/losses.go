package devicetest

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
)

// lossSum adds what a query asks of rows into a private sum and releases it.
type lossSum struct {
	*Fixture
	add, free device.Step
	out       device.Vector
	k         int
	step      float32 // of the grid
	clip      float32 // of the last run
}

// openLosses asks for the loss at the parameters.
func openLosses(t testing.TB, d device.Device, s *ir.Schedule, c *Case, capacity int) *lossSum {
	t.Helper()
	return Open(t, d, s, c, capacity).loss(t)
}

// loss records the query of the loss at the parameters.
func (s *Fixture) loss(t testing.TB) *lossSum {
	t.Helper()
	return s.losses(t, device.LossQuery{At: s.Net.Params(), K: 1})
}

// losses records a query on a fixture's net.
func (s *Fixture) losses(t testing.TB, ask device.LossQuery) *lossSum {
	t.Helper()
	x := &lossSum{Fixture: s, k: ask.K}
	sum, err := x.Net.NewScalarSum(x.k)
	must(t, err)
	x.out, err = x.Net.NewScalars(x.k)
	must(t, err)
	x.add = x.record(t, func(q device.Queue) { q.Losses(sum, x.Data, ask) })
	x.free = x.record(t, func(q device.Queue) { q.Release(x.out, sum, x.Noise) })
	return x
}

func (x *lossSum) run(t testing.TB, rows []int32, clip float64, steps ...float32) {
	t.Helper()
	in := &device.Inputs{Rows: rows}
	x.clip = float32(clip)
	in.Scalars[device.NoiseStep], in.Scalars[device.Clip] = x.step, x.clip
	copy(in.Candidates[:], steps)
	must(t, x.add.Run(in))
}

func (x *lossSum) releaseAll(t testing.TB, std float64) []float32 {
	t.Helper()
	x.draw++
	in := &device.Inputs{Draw: x.draw}
	if SetNoise(in, x.Noise, std); x.step != 0 {
		in.Scalars[device.NoiseStep] = x.step
	}
	in.Scalars[device.Clip] = x.clip
	must(t, x.free.Run(in))
	v := make([]float32, x.k)
	must(t, x.Net.Read(x.out, v))
	return v
}

func (x *lossSum) release(t testing.TB, std float64) float64 {
	t.Helper()
	return float64(x.releaseAll(t, std)[0])
}

func (x *lossSum) of(t testing.TB, rows []int32, clip float64) float64 {
	t.Helper()
	x.run(t, rows, clip)
	return x.release(t, 0)
}

// rowLosses is each row's own loss, scored as if it were public.
func rowLosses(t testing.TB, c *Case) []float64 {
	t.Helper()
	var list []float64
	for row := range c.Rows.Count {
		one := *c
		one.Features = c.Features[row*c.Rows.Width:][:c.Rows.Width]
		one.Rows.Count, one.Rows.Targets = 1, c.Rows.Targets[row:row+1]
		list = append(list, score(t, Open(t, reference.Open(), plain(t, c.Program).Schedule, &one, 1), c.Params).Loss)
	}
	return list
}

func testLosses(t *testing.T, d device.Device) {
	close := func(t *testing.T, what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance(d)*want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for _, p := range some(d, Programs()) {
		c := newCase(t, d, p, 9, 23)
		losses := rowLosses(t, c)
		sorted := slices.Sorted(slices.Values(losses))
		for _, s := range []named{plain(t, p), strategies(t, p)[0], strategies(t, p)[3]} {
			t.Run(p.Name+" "+s.name, func(t *testing.T) {
				x := openLosses(t, d, s.Schedule, c, 9)
				for _, clip := range []float64{sorted[8] / 100, sorted[5], 2 * sorted[8]} {
					want := 0.0
					for row, loss := range losses {
						share := x.of(t, []int32{int32(row)}, clip)
						close(t, "a row's share", share, min(loss, clip))
						if share > clip*(1+0x1p-23) {
							t.Errorf("a row's share is %v, more than %v", share, clip)
						}
						want += min(loss, clip)
					}
					close(t, "the sum", x.of(t, c.All(), clip), want)
					x.run(t, []int32{8, 1, 0, 2}, clip)
					x.run(t, nil, clip)
					x.run(t, []int32{3, 4, 5, 6, 7}, clip)
					close(t, "the sum of three runs", x.release(t, 0), want)
				}
				if got := x.of(t, nil, 1); got != 0 {
					t.Errorf("the loss of no rows is %v", got)
				}
			})
		}
		t.Run(p.Name+" targets that the loss does not accept", func(t *testing.T) {
			bad := c.with(3, float32(math.NaN())).with(200, float32(math.Inf(1)))
			x := openLosses(t, d, plain(t, p).Schedule, bad, 11)
			if got, want := x.of(t, bad.All(), 1), openLosses(t, d, plain(t, p).Schedule, c, 9).of(t, c.All(), 1); got != want {
				t.Errorf("the sum is %v, want %v", got, want)
			}
			if got := x.of(t, []int32{9, 10}, 1); got != 0 {
				t.Errorf("their share is %v, want 0", got)
			}
		})
		t.Run(p.Name+" losses that are not finite", func(t *testing.T) {
			x := openLosses(t, d, plain(t, p).Schedule, c, 9)
			must(t, x.Net.Write(x.Net.Params(), constant(x.size, float32(math.NaN()))))
			if got := x.of(t, c.All(), 0.5); got != 4.5 {
				t.Errorf("the sum of %d rows clipped at 0.5 is %v", c.Rows.Count, got)
			}
			must(t, x.Net.Write(x.Net.Params(), c.Params))
			fresh := openLosses(t, d, plain(t, p).Schedule, c, 9)
			if got, want := x.of(t, []int32{2, 3}, 1), fresh.of(t, []int32{2, 3}, 1); got != want {
				t.Errorf("after them the sum is %v, want %v", got, want)
			}
		})
	}

	c := newCase(t, d, program("thrice"), 6, 24)
	s := strategies(t, c.Program)[0].Schedule
	t.Run("beside a sum of gradients", func(t *testing.T) {
		want := Open(t, d, s, c, 6).Of(t, c.All(), 0.4)
		x := openLosses(t, d, s, c, 6)
		loss := x.of(t, c.All(), 0.4)
		x.Add(t, c.All(), 0.4)
		x.run(t, c.All(), 0.4)
		Same(t, x.Release(t, 0), want)
		if got := x.release(t, 0); got != loss {
			t.Errorf("the loss is %v, want %v", got, loss)
		}
	})
	t.Run("noise", func(t *testing.T) {
		x := openLosses(t, d, s, c, 6)
		x.step = powerOfTwo(3 * 0x1p-26)
		bare := x.of(t, c.All(), 1)
		x.run(t, c.All(), 1)
		z := Drawn(t, x.Noise, x.draw+1, 3, 1)
		close(t, "the noisy loss", x.release(t, 3)-z[0], bare)
		if again := x.release(t, 0); again != 0 {
			t.Errorf("a released loss leaves %v behind", again)
		}
	})
	t.Run("on a grid", func(t *testing.T) { testGridLosses(t, d) })
	t.Run("noise on another grid than the losses'", func(t *testing.T) {
		for _, step := range []float32{0, 0x1p-10} {
			x := openLosses(t, d, s, c, 6)
			x.step = step
			x.run(t, c.All(), 1)
			in := &device.Inputs{Draw: 1}
			in.Scalars[device.Clip] = 1
			SetNoise(in, x.Noise, 3)
			if err := x.free.Run(in); err == nil {
				t.Errorf("losses in steps of %v are released in steps of %v", step, in.Scalars[device.NoiseStep])
			}
		}
	})
	t.Run("misuse", func(t *testing.T) {
		x := openLosses(t, d, s, c, 6)
		for _, n := range []int{0, -2} {
			if _, err := x.Net.NewScalars(n); err == nil {
				t.Errorf("%d scalars are made", n)
			}
			if _, err := x.Net.NewScalarSum(n); err == nil {
				t.Errorf("a sum of %d scalars is made", n)
			}
		}
		two, err := x.Net.NewScalarSum(2)
		must(t, err)
		one, err := x.Net.NewScalarSum(1)
		must(t, err)
		for what, body := range map[string]func(device.Queue){
			"losses into a gradient":          func(q device.Queue) { q.Losses(x.Sum, x.Data, device.LossQuery{K: 1}) },
			"one loss into two values":        func(q device.Queue) { q.Losses(two, x.Data, device.LossQuery{K: 1}) },
			"two losses into one value":       func(q device.Queue) { q.Losses(one, x.Data, device.LossQuery{K: 2}) },
			"losses of a foreign table":       func(q device.Queue) { q.Losses(one, foreign{}, device.LossQuery{K: 1}) },
			"losses at a scalar":              func(q device.Queue) { q.Losses(one, x.Data, device.LossQuery{At: x.out, K: 1}) },
			"losses along a scalar":           func(q device.Queue) { q.Losses(one, x.Data, device.LossQuery{Dir: x.out, K: 1}) },
			"losses along no vector":          func(q device.Queue) { q.Losses(one, x.Data, device.LossQuery{Dir: 99, K: 1}) },
			"a loss of no form":               func(q device.Queue) { q.Losses(one, x.Data, device.LossQuery{K: 1, Form: device.LossCurve + 1}) },
			"gradients into a scalar":         func(q device.Queue) { q.ClippedSum(one, x.Data) },
			"a scalar into the parameters":    func(q device.Queue) { q.Release(x.Net.Params(), one, x.Noise) },
			"a gradient into a scalar":        func(q device.Queue) { q.Release(x.out, x.Sum, x.Noise) },
			"a scalar as a gradient":          func(q device.Queue) { q.Update(device.SGD, x.Net.Params(), x.out) },
			"a score at a scalar":             func(q device.Queue) { q.Score(x.out, x.Data) },
			"a scalar sum without mechanisms": func(q device.Queue) { q.Release(x.out, one, device.Noise{}) },
		} {
			if _, err := x.Net.Record(body); err == nil {
				t.Errorf("%s: recorded", what)
			}
		}
		for _, s := range []*ir.Schedule{s, plain(t, c.Program).Schedule} {
			for _, clip := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
				x := openLosses(t, d, s, c, 6)
				in := &device.Inputs{Rows: []int32{0}}
				in.Scalars[device.Clip] = clip
				if err := x.add.Run(in); err == nil {
					t.Errorf("losses clipped at %v are accepted", clip)
				}
			}
		}
		x = openLosses(t, d, s, c, 6)
		if err := x.add.Run(&device.Inputs{Rows: []int32{6}, Scalars: [device.Slots]float32{device.Clip: 1}}); err == nil {
			t.Error("a row beyond the table is accepted")
		}
	})
}

// testGridLosses checks that a row's values are whole steps of the grid within its bound,
// compared exactly, and where losses are whole numbers which ones.
func testGridLosses(t *testing.T, d device.Device) {
	c := NewCase(t, program("thrice"), 7, 25)
	x := Open(t, d, strategies(t, c.Program)[0].Schedule, c, 7)
	dir, err := x.Net.NewVector(1)
	must(t, err)
	must(t, x.Net.Write(dir, constant(x.size, 1)))
	etas := []float32{0.5, 0.05, 0.005, -0.05}
	for form := device.LossSum; form <= device.LossCurve; form++ {
		query := x.losses(t, device.LossQuery{At: x.Net.Params(), Dir: dir, K: len(etas), Form: form})
		for _, clip := range []float32{1e-3, 0.3, 1.7} {
			query.step = float32(gridStep(clip))
			for _, row := range c.All() {
				query.run(t, []int32{row}, float64(clip), etas...)
				k := steps(t, query.releaseAll(t, 0), clip)
				if form == device.LossCurve {
					checkBound(t, k, clip)
					continue
				}
				for _, one := range k {
					checkBound(t, []int64{one}, clip)
				}
			}
		}
	}
	for _, p := range some(d, wholePrograms()) {
		c := wholeCase(t, p, 10).with(1, float32(math.NaN()))
		losses := rowLosses(t, c)
		for _, clip := range some(d, []float32{1, 1.3, 1e-3, 3e6}) {
			for _, x := range []*lossSum{
				openLosses(t, d, strategies(t, p)[0].Schedule, c, 30),
				openExact(t, d, whole(t, p)[0].Schedule, c, 30).loss(t),
			} {
				x.step = float32(gridStep(clip))
				x.run(t, c.All(), float64(clip))
				x.run(t, c.All(), float64(clip))
				want := int64(0)
				for _, loss := range losses {
					want += 2 * int64(math.Trunc(min(loss, float64(clip))/gridStep(clip)))
				}
				if got := x.releaseAll(t, 0)[0]; got != float32(float64(want)*gridStep(clip)) {
					t.Errorf("%s, clip %v: the sum is %v, want %v", p.Name, clip, got, float64(want)*gridStep(clip))
				}
			}
		}
	}
}
