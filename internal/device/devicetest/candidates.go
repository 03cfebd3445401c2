package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// lossForms lists the forms of a query.
var lossForms = []device.LossForm{device.LossSum, device.LossDecrease, device.LossCurve}

// search is a case with a direction, the step sizes to try along it and every
// row's loss at the parameters and at each candidate.
type search struct {
	*Case
	dir    []float32
	steps  []float32
	base   []float64   // by row
	losses [][]float64 // by row, by step
}

// newSearch scores every row by itself, as if it were public, at parameters that
// were shifted outside of any device.
func newSearch(t testing.TB, c *Case, dir []float32, steps ...float32) *search {
	t.Helper()
	s := &search{Case: c, dir: dir, steps: steps, base: rowLosses(t, c), losses: make([][]float64, c.Rows.Count)}
	for _, eta := range steps {
		at := *c
		at.Params = make([]float32, len(c.Params))
		for i, w := range c.Params {
			at.Params[i] = float32(float64(w) - float64(eta)*float64(dir[i]))
		}
		for row, loss := range rowLosses(t, &at) {
			s.losses[row] = append(s.losses[row], loss)
		}
	}
	return s
}

// share is what a row adds, written from the definition of a form.
func (s *search) share(row int, form device.LossForm, clip float64) []float64 {
	if !s.Program.Loss.ValidTarget(s.Rows.Targets[row], s.Program.Outputs()) {
		return make([]float64, len(s.steps))
	}
	var list []float64
	norm := 0.0
	for _, loss := range s.losses[row] {
		d := s.base[row] - loss
		norm = math.Hypot(norm, d)
		switch form {
		case device.LossSum:
			list = append(list, min(loss, clip))
		case device.LossDecrease:
			list = append(list, min(max(d, -clip), clip))
		default:
			list = append(list, d)
		}
	}
	if form == device.LossCurve && norm > clip {
		for i := range list {
			list[i] *= clip / norm
		}
	}
	return list
}

// open records a query for the search's candidates.
func (s *search) open(t testing.TB, d device.Device, schedule *ir.Schedule, capacity int, form device.LossForm) *lossSum {
	t.Helper()
	x := Open(t, d, schedule, s.Case, capacity)
	return x.losses(t, device.LossQuery{At: x.Net.Params(), Dir: x.written(t, s.dir), K: len(s.steps), Form: form})
}

func (x *lossSum) all(t testing.TB, rows []int32, clip float64, steps []float32) []float32 {
	t.Helper()
	x.run(t, rows, clip, steps...)
	return x.releaseAll(t, 0)
}

// direction is a descent direction of a case: the sum of its rows' gradients,
// at a tenth of the parameters' length.
func direction(t testing.TB, c *Case) []float32 {
	t.Helper()
	g := oracle(t, c, c.All(), 0)
	return scaled(g, 0.1*Norm(c.Params)/Norm(g))
}

// candidateClaims compare every form of a query with explicit evaluations.
var candidateClaims = claims[device.Device]{
	{"forms", testForms},
	{"each candidate by itself", testAlone},
	{"targets that the loss does not accept", testCandidateTargets},
	{"losses that are not finite", testBrokenCandidates},
	{"losses as large as they get", testLargestLosses},
	{"at another vector", func(t *testing.T, d device.Device) {
		s, open := twoSteps(t, d)
		x := Open(t, d, plain(t, s.Program).Schedule, s.Case, 6)
		at, dir := x.written(t, s.Params), x.written(t, s.dir)
		x.params(t, make([]float32, x.size))
		got := x.losses(t, device.LossQuery{At: at, Dir: dir, K: 2}).all(t, s.All(), 1, s.steps)
		Same(t, got, open().all(t, s.All(), 1, s.steps))
		Same(t, x.read(t, at), s.Params)
		Same(t, x.read(t, dir), s.dir)
	}},
	{"numbers of candidates that are refused", func(t *testing.T, d device.Device) {
		_, open := twoSteps(t, d)
		for _, k := range []int{-1, 0, device.MaxCandidates + 1} {
			x := open()
			sum := x.scalarSum(t, max(k, 1))
			_, err := x.Net.Record(func(q device.Queue) { q.Losses(sum, x.Data, device.LossQuery{K: k}) })
			said(t, "recording", err, fmt.Sprintf("query of %d candidates", k))
		}
	}},
	{"step sizes that are refused", func(t *testing.T, d device.Device) {
		_, open := twoSteps(t, d)
		for _, eta := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x, in := open(), clipAt(1, 0)
			// A step size that the query does not read may be anything.
			in.Candidates[2] = float32(eta)
			must(t, x.add.Run(in))
			in.Candidates[1] = float32(eta)
			refuse(t, fmt.Sprintf("the step size %v", eta), x.add.Run(in))
		}
	}},
}

func testForms(t *testing.T, d device.Device) {
	eachCase(t, d, programsIn(d), 9, 25, func(t *testing.T, c *Case) {
		s := newSearch(t, c, direction(t, c), 0, 0.5, 0.05, -0.3, 2, 0)
		for _, form := range some(d, lossForms[:]) {
			t.Run(form.String(), func(t *testing.T) {
				x := s.open(t, d, plain(t, c.Program).Schedule, 9, form)
				for _, clip := range s.bounds(form) {
					total := make([]float64, len(s.steps))
					for row := range c.Rows.Count {
						want := s.share(row, form, clip)
						got := x.all(t, []int32{int32(row)}, clip, s.steps)
						s.near(t, fmt.Sprintf("row %d at bound %v", row, clip), got, want, 1)
						s.bounded(t, got, form, clip)
						for i, v := range want {
							total[i] += v
						}
					}
					s.near(t, "the sum", x.all(t, c.All(), clip, s.steps), total, 9)
					// Runs of one batch add up, empty ones too.
					x.run(t, []int32{8, 1, 0, 2}, clip, s.steps...)
					x.run(t, nil, clip, s.steps...)
					s.near(t, "the sum of two runs", x.all(t, []int32{3, 4, 5, 6, 7}, clip, s.steps), total, 9)
				}
				Same(t, x.all(t, nil, 1, s.steps), make([]float32, len(s.steps)))
			})
		}
	})
}

func testCandidateTargets(t *testing.T, d device.Device) {
	eachCase(t, d, fewIn(d), 5, 26, func(t *testing.T, c *Case) {
		s := newSearch(t, c, direction(t, c), 0.5, 0.1)
		with := *s
		with.Case = c.with(3, float32(math.NaN())).with(200, float32(math.Inf(1)))
		schedule := plain(t, c.Program).Schedule
		for _, form := range lossForms {
			want := s.open(t, d, schedule, 5, form).all(t, []int32{4, 0, 1, 2, 3}, 0.3, s.steps)
			x := with.open(t, d, schedule, 7, form)
			Same(t, x.all(t, []int32{4, 5, 0, 1, 6, 2, 3}, 0.3, s.steps), want)
			Same(t, x.all(t, []int32{5, 6}, 0.3, s.steps), make([]float32, 2))
		}
	})
}

// twoSteps is a search of two candidates on a net that is not clipped.
func twoSteps(t testing.TB, d device.Device) (s *search, open func() *lossSum) {
	c := newCase(t, d, few()[0], 6, 27)
	s = newSearch(t, c, direction(t, c), 0.5, 0.25)
	return s, func() *lossSum { return s.open(t, d, plain(t, c.Program).Schedule, 6, device.LossSum) }
}

// bounds gives shares' bounds that clip all rows, some, and none.
func (s *search) bounds(form device.LossForm) []float64 {
	var sizes []float64
	for row := range s.Rows.Count {
		size := 0.0
		for _, v := range s.share(row, form, math.Inf(1)) {
			if form == device.LossCurve {
				size = math.Hypot(size, v)
			} else {
				size = max(size, math.Abs(v))
			}
		}
		if size > 0 {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	return []float64{sizes[0] / 100, sizes[len(sizes)/2], 2 * sizes[len(sizes)-1]}
}

// near allows a loss, whatever its clipping, the tolerance of a sum; a decrease
// is a difference of two losses, so theirs counts.
func (s *search) near(t testing.TB, what string, got []float32, want []float64, rows float64) {
	t.Helper()
	scale := 0.0
	for row := range s.losses {
		scale = max(scale, 1, s.base[row], slices.Max(s.losses[row]))
	}
	for i := range want {
		if !(math.Abs(float64(got[i])-want[i]) <= toleranceIn(s.precision)*scale*rows) {
			t.Errorf("%s: candidate %d gives %v, want %v", what, i, got[i], want[i])
		}
	}
}

// bounded fails if one row's share exceeds the bound of a form by more than a
// value's own rounding.
func (s *search) bounded(t testing.TB, got []float32, form device.LossForm, clip float64) {
	t.Helper()
	bound := clip * (1 + 0x1p-22)
	if form == device.LossCurve && !(Norm(got) <= bound) {
		t.Errorf("a row's share %v has the norm %v, more than %v", got, Norm(got), clip)
	}
	for _, v := range got {
		if !(math.Abs(float64(v)) <= bound) || form == device.LossSum && v < 0 {
			t.Errorf("a row's share has %v at bound %v", v, clip)
		}
	}
}

// testAlone asks for every number of candidates up to the most: each has the
// bits that it has by itself, and that of η = 0 those of the plain loss.
func testAlone(t *testing.T, d device.Device) {
	steps := make([]float32, device.MaxCandidates)
	for i := range steps {
		steps[i] = float32(math.Pow(0.8, float64(i)))
	}
	steps[3], steps[17] = 0, -0.4
	eachCase(t, d, fewIn(d), 5, 26, func(t *testing.T, c *Case) {
		s := newSearch(t, c, direction(t, c))
		schedule := plain(t, c.Program).Schedule
		for _, form := range some(d, []device.LossForm{device.LossSum, device.LossDecrease}) {
			s.steps = steps[:1]
			alone := s.open(t, d, schedule, 5, form)
			var want []float32
			for i := range steps {
				want = append(want, alone.all(t, c.All(), 0.7, steps[i:i+1])...)
			}
			for _, k := range some(d, []int{1, 2, 3, 7, 8, 9, 31, 32}) {
				s.steps = steps[:k]
				Same(t, s.open(t, d, schedule, 5, form).all(t, c.All(), 0.7, s.steps), want[:k])
			}
		}
		s.steps = steps
		if got, want := s.open(t, d, schedule, 5, device.LossSum).all(t, c.All(), 0.7, steps)[3], openLosses(t, d, schedule, c, 5).of(t, c.All(), 0.7); float64(got) != want {
			t.Errorf("the candidate of η = 0 gives %v, the loss at the parameters is %v", got, want)
		}
	})
}

// testBrokenCandidates breaks a direction or the parameters.
func testBrokenCandidates(t *testing.T, d device.Device) {
	const clip = 0.5
	eachCase(t, d, fewIn(d), 5, 26, func(t *testing.T, c *Case) {
		nan := constant(len(c.Params), float32(math.NaN()))
		rows := c.All()
		for _, test := range []struct {
			name        string
			params, dir []float32
			want        map[device.LossForm][3]float32 // of a row, at η = 0, 1 and 0; −1 where it is finite
		}{
			{"at a candidate", c.Params, nan, map[device.LossForm][3]float32{
				device.LossSum: {-1, clip, -1}, device.LossDecrease: {0, -clip, 0}, device.LossCurve: {0, 0, 0},
			}},
			{"everywhere", nan, c.Params, map[device.LossForm][3]float32{
				device.LossSum: {clip, clip, clip}, device.LossDecrease: {0, 0, 0}, device.LossCurve: {0, 0, 0},
			}},
		} {
			for form, want := range test.want {
				s := search{Case: c, dir: test.dir, steps: []float32{0, 1, 0}}
				x := s.open(t, d, plain(t, c.Program).Schedule, len(rows), form)
				x.params(t, test.params)
				for i, got := range x.all(t, rows, clip, s.steps) {
					if want[i] != -1 && got != float32(len(rows))*want[i] {
						t.Errorf("%s, %s: candidate %d of %d rows gives %v, want %v a row", test.name, form, i, len(rows), got, want[i])
					}
				}
			}
		}
	})
}

// testLargestLosses checks that they stay within the bound, and that what was not finite leaves nothing behind.
func testLargestLosses(t *testing.T, d device.Device) {
	const clip = 0.5
	eachCase(t, d, fewIn(d), 5, 26, func(t *testing.T, c *Case) {
		rows, schedule := c.All(), plain(t, c.Program).Schedule
		for _, form := range lossForms {
			s := search{Case: c, dir: constant(len(c.Params), 3e38), steps: []float32{1, -1, 3e38, 0}}
			x := s.open(t, d, schedule, 1, form)
			for _, row := range rows {
				s.bounded(t, x.all(t, []int32{row}, clip, s.steps), form, clip)
			}
			x.params(t, constant(x.size, float32(math.NaN())))
			x.all(t, rows[:1], clip, s.steps)
			x.params(t, c.Params)
			again := search{Case: c, dir: s.dir, steps: []float32{0, 0, 0, 0}}
			Same(t, x.all(t, rows[:1], clip, again.steps), again.open(t, d, schedule, 1, form).all(t, rows[:1], clip, again.steps))
		}
	})
}
