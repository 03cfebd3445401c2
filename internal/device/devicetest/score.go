package devicetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
)

// scoreClaims compare scores of public tables with the reference's.
var scoreClaims = claims[site]{
	{"tables", testTables},
	{"empty", func(t *testing.T, s site) {
		eachCase(t, s.d, programsIn(s.d), 1, 15, func(t *testing.T, none *Case) {
			none.Rows.Count, none.Rows.Targets, none.Features = 0, nil, nil
			for _, empty := range []*Case{none, none.with(3, float32(math.NaN()))} {
				got := score(t, Open(t, s.d, plain(t, none.Program).Schedule, empty, 4), none.Params)
				if got.Count != 0 || got.Loss != 0 || got.Correct != 0 {
					t.Errorf("scores %+v", got)
				}
			}
		})
	}},
	{"at another vector", func(t *testing.T, s site) {
		x := s.open(t)
		other := newCase(t, s.d, s.Program, 6, 17).Params
		sameScore(t, s.d, score(t, x, other), referenceScore(t, s.Case, other))
		// The parameters are where they were.
		Same(t, x.read(t, x.Net.Params()), s.Params)
	}},
	{"between the runs of a sum", func(t *testing.T, s site) {
		x := s.open(t)
		x.Add(t, []int32{0, 1}, 1)
		x.Add(t, []int32{2}, 1)
		want := x.Release(t, 0)
		x.Add(t, []int32{0, 1}, 1)
		score(t, x, s.Params)
		x.Add(t, []int32{2}, 1)
		Same(t, x.Release(t, 0), want)
	}},
	{"two in a step, kept over the next run", testTwoScores},
}

func testTables(t *testing.T, s site) {
	eachCase(t, s.d, programsIn(s.d), 17, 15, func(t *testing.T, c *Case) {
		bad := c.with(90, float32(math.NaN())).with(200, float32(math.Inf(-1)))
		want := referenceScore(t, c, c.Params)
		if want.Count != c.Rows.Count {
			t.Fatalf("the reference counts %d rows of %d", want.Count, c.Rows.Count)
		}
		each(t, s.d, all(t, c.Program), func(t *testing.T, n named) {
			for _, capacity := range []int{1, 5, 17, 40} {
				sameScore(t, s.d, score(t, Open(t, s.d, n.Schedule, c, capacity), c.Params), want)
			}
			sameScore(t, s.d, score(t, Open(t, s.d, n.Schedule, bad, 6), c.Params), want)
		})
	})
}

func testTwoScores(t *testing.T, s site) {
	x := s.open(t)
	zero := x.vector(t, 1)
	step := x.record(t, func(q device.Queue) {
		q.Score(x.Net.Params(), x.Data)
		q.Score(zero, x.Data)
	})
	first := ran(t, step, &device.Inputs{})
	if len(first.Scores) != 2 {
		t.Fatalf("has %d scores, want 2", len(first.Scores))
	}
	before := fmt.Sprintf("%+v", first)
	sameScore(t, s.d, first.Scores[1], referenceScore(t, s.Case, make([]float32, x.size)))
	x.params(t, make([]float32, x.size))
	second := ran(t, step, &device.Inputs{})
	if after := fmt.Sprintf("%+v", first); after != before {
		t.Errorf("the next run changed scores handed out before, from %s to %s", before, after)
	}
	sameScore(t, s.d, second.Scores[0], second.Scores[1])
}

// referenceScore evaluates parameters on the reference.
func referenceScore(t testing.TB, c *Case, params []float32) device.Score {
	t.Helper()
	return score(t, Open(t, reference.Open(), plain(t, c.Program).Schedule, c, 1), params)
}

// score evaluates parameters in a vector of their own.
func score(t testing.TB, x *Fixture, params []float32) device.Score {
	t.Helper()
	at := x.written(t, params)
	step := x.record(t, func(q device.Queue) { q.Score(at, x.Data) })
	out := ran(t, step, &device.Inputs{})
	if len(out.Scores) != 1 {
		t.Fatalf("has %d scores, want 1", len(out.Scores))
	}
	return out.Scores[0]
}

func sameScore(t testing.TB, d device.Device, got, want device.Score) {
	t.Helper()
	if got.Count != want.Count || got.Correct != want.Correct || fmt.Sprint(got.Confusion) != fmt.Sprint(want.Confusion) {
		t.Errorf("scores %+v, want %+v", got, want)
	}
	if !(math.Abs(got.Loss-want.Loss) <= tolerance(d)/2*(1+want.Loss)) {
		t.Errorf("the loss is %v, want %v", got.Loss, want.Loss)
	}
	total, diagonal := 0, 0
	for i, row := range got.Confusion {
		for j, n := range row {
			total += n
			if i == j {
				diagonal += n
			}
		}
	}
	if got.Confusion != nil && (total != got.Count || diagonal != got.Correct) {
		t.Errorf("the confusion matrix %v does not add up to %d rows with %d correct", got.Confusion, got.Count, got.Correct)
	}
}
