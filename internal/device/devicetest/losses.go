package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// lossSum adds what a query asks of rows into a private sum and releases it.
type lossSum struct {
	*Fixture
	add, free device.Step
	into      device.Sum
	out       device.Vector
	k         int
	step      float32 // of the grid
	clip      float32 // of the last run
}

// openLosses asks for the loss at the parameters.
func openLosses(t testing.TB, d device.Device, s *ir.Schedule, c *Case, capacity int) *lossSum {
	return Open(t, d, s, c, capacity).loss(t)
}

// loss records the query of the loss at the parameters.
func (s *Fixture) loss(t testing.TB) *lossSum {
	return s.losses(t, device.LossQuery{At: s.Net.Params(), K: 1})
}

// losses records a query on a fixture's net.
func (s *Fixture) losses(t testing.TB, ask device.LossQuery) *lossSum {
	t.Helper()
	x := &lossSum{Fixture: s, k: ask.K}
	x.into, x.out = x.scalarSum(t, x.k), x.scalars(t, x.k)
	x.add = x.record(t, func(q device.Queue) { q.Losses(x.into, x.Data, ask) })
	x.free = x.record(t, func(q device.Queue) { q.Release(x.out, x.into, x.Noise) })
	return x
}

func (x *lossSum) run(t testing.TB, rows []int32, clip float64, steps ...float32) {
	t.Helper()
	x.clip = float32(clip)
	in := clipAt(clip, rows...)
	in.Scalars[device.NoiseStep] = x.step
	copy(in.Candidates[:], steps)
	must(t, x.add.Run(in))
}

func (x *lossSum) releaseAll(t testing.TB, std float64) []float32 {
	t.Helper()
	in := x.next()
	if setNoise(in, x.Noise, std); x.step != 0 {
		in.Scalars[device.NoiseStep] = x.step
	}
	in.Scalars[device.Clip] = x.clip
	must(t, x.free.Run(in))
	return x.values(t, x.out, x.k)
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
		list = append(list, referenceScore(t, &one, c.Params).Loss)
	}
	return list
}

// lossClaims are about the sum of the rows' losses at the parameters.
var lossClaims = claims[site]{
	{"rows", testRowLosses},
	{"targets that the loss does not accept", testLossTargets},
	{"losses that are not finite", testBrokenLosses},
	{"beside a sum of gradients", func(t *testing.T, s site) {
		want := s.open(t).Of(t, s.All(), 0.4)
		x := s.open(t).loss(t)
		loss := x.of(t, s.All(), 0.4)
		x.Add(t, s.All(), 0.4)
		x.run(t, s.All(), 0.4)
		Same(t, x.Release(t, 0), want)
		if got := x.release(t, 0); got != loss {
			t.Errorf("the loss is %v, want %v", got, loss)
		}
	}},
	{"noise", func(t *testing.T, s site) {
		x := s.open(t).loss(t)
		x.step = powerOfTwo(3 * 0x1p-26)
		bare := x.of(t, s.All(), 1)
		x.run(t, s.All(), 1)
		z := Drawn(t, x.Noise, x.draw+1, 3, 1)
		lossNear(t, s.d, "the noisy loss", x.release(t, 3)-z[0], bare)
		if again := x.release(t, 0); again != 0 {
			t.Errorf("a released loss leaves %v behind", again)
		}
	}},
	{"whole steps of a grid", testGridLosses},
	{"whole numbers on a grid", testWholeLosses},
	{"noise on another grid than the losses'", testOtherGrid},
	{"sizes that are refused", func(t *testing.T, s site) {
		x := s.open(t)
		for _, n := range []int{0, -2} {
			_, err := x.Net.NewScalars(n)
			refuse(t, fmt.Sprintf("a vector of %d scalars", n), err)
			_, err = x.Net.NewScalarSum(n)
			refuse(t, fmt.Sprintf("a sum of %d scalars", n), err)
		}
	}},
	{"recordings that are refused", testLossRecordings},
	{"impossible clip norms", func(t *testing.T, s site) {
		for _, schedule := range []*ir.Schedule{s.schedule, plain(t, s.Program).Schedule} {
			refuseClips(t, func(t *testing.T) device.Step { return openLosses(t, s.d, schedule, s.Case, 6).add })
		}
	}},
	{"a row beyond the table", func(t *testing.T, s site) {
		refuse(t, "it", s.open(t).loss(t).add.Run(clipAt(1, 6)))
	}},
}

func lossNear(t testing.TB, d device.Device, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance(d)*want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func testRowLosses(t *testing.T, s site) {
	eachCase(t, s.d, programsIn(s.d), 9, 23, func(t *testing.T, c *Case) {
		losses := rowLosses(t, c)
		sorted := slices.Sorted(slices.Values(losses))
		for _, n := range []named{plain(t, c.Program), strategies(t, c.Program)[0], strategies(t, c.Program)[3]} {
			t.Run(n.name, func(t *testing.T) {
				x := openLosses(t, s.d, n.Schedule, c, 9)
				for _, clip := range []float64{sorted[8] / 100, sorted[5], 2 * sorted[8]} {
					want := 0.0
					for row, loss := range losses {
						share := x.of(t, []int32{int32(row)}, clip)
						lossNear(t, s.d, "a row's share", share, min(loss, clip))
						if share > clip*(1+0x1p-23) {
							t.Errorf("a row's share is %v, more than %v", share, clip)
						}
						want += min(loss, clip)
					}
					lossNear(t, s.d, "the sum", x.of(t, c.All(), clip), want)
					x.run(t, []int32{8, 1, 0, 2}, clip)
					x.run(t, nil, clip)
					x.run(t, []int32{3, 4, 5, 6, 7}, clip)
					lossNear(t, s.d, "the sum of three runs", x.release(t, 0), want)
				}
				if got := x.of(t, nil, 1); got != 0 {
					t.Errorf("the loss of no rows is %v", got)
				}
			})
		}
	})
}

func testLossTargets(t *testing.T, s site) {
	eachCase(t, s.d, programsIn(s.d), 9, 23, func(t *testing.T, c *Case) {
		bad := c.with(3, float32(math.NaN())).with(200, float32(math.Inf(1)))
		x := openLosses(t, s.d, plain(t, c.Program).Schedule, bad, 11)
		if got, want := x.of(t, bad.All(), 1), openLosses(t, s.d, plain(t, c.Program).Schedule, c, 9).of(t, c.All(), 1); got != want {
			t.Errorf("the sum is %v, want %v", got, want)
		}
		if got := x.of(t, []int32{9, 10}, 1); got != 0 {
			t.Errorf("their share is %v, want 0", got)
		}
	})
}

func testBrokenLosses(t *testing.T, s site) {
	eachCase(t, s.d, programsIn(s.d), 9, 23, func(t *testing.T, c *Case) {
		x := openLosses(t, s.d, plain(t, c.Program).Schedule, c, 9)
		x.params(t, constant(x.size, float32(math.NaN())))
		if got := x.of(t, c.All(), 0.5); got != 4.5 {
			t.Errorf("the sum of %d rows clipped at 0.5 is %v", c.Rows.Count, got)
		}
		x.params(t, c.Params)
		fresh := openLosses(t, s.d, plain(t, c.Program).Schedule, c, 9)
		if got, want := x.of(t, []int32{2, 3}, 1), fresh.of(t, []int32{2, 3}, 1); got != want {
			t.Errorf("after them the sum is %v, want %v", got, want)
		}
	})
}

func testOtherGrid(t *testing.T, s site) {
	for _, step := range []float32{0, 0x1p-10} {
		x := s.open(t).loss(t)
		x.step = step
		x.run(t, s.All(), 1)
		in := clipAt(1)
		in.Draw = 1
		setNoise(in, x.Noise, 3)
		if err := x.free.Run(in); err == nil {
			t.Errorf("losses in steps of %v are released in steps of %v", step, in.Scalars[device.NoiseStep])
		}
	}
}

func testLossRecordings(t *testing.T, s site) {
	x := s.open(t).loss(t)
	two, one := x.scalarSum(t, 2), x.scalarSum(t, 1)
	x.refuses(t, recordings{
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
	})
}

// testGridLosses checks that a row's values are whole steps of the grid within its bound, compared exactly.
func testGridLosses(t *testing.T, s site) {
	c := NewCase(t, program("thrice"), 7, 25)
	x := c.on(t, s.d, 7).open(t)
	dir := x.written(t, constant(x.size, 1))
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
}

// testWholeLosses checks which steps they are where losses are whole numbers.
func testWholeLosses(t *testing.T, s site) {
	for _, p := range some(s.d, wholePrograms()) {
		c := wholeCase(t, p, 10).with(1, float32(math.NaN()))
		losses := rowLosses(t, c)
		for _, clip := range some(s.d, []float32{1, 1.3, 1e-3, 3e6}) {
			for _, x := range []*lossSum{
				openLosses(t, s.d, strategies(t, p)[0].Schedule, c, 30),
				openExact(t, s.d, whole(t, p)[0].Schedule, c, 30).loss(t),
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
