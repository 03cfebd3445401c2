package devicetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
)

// testScore compares scores of public tables with the reference's.
func testScore(t *testing.T, d device.Device) {
	for _, p := range some(d, Programs()) {
		c := newCase(t, d, p, 17, 15)
		bad := c.with(90, float32(math.NaN())).with(200, float32(math.Inf(-1)))
		want := score(t, Open(t, reference.Open(), plain(t, p).Schedule, c, 1), c.Params)
		if want.Count != c.Rows.Count {
			t.Fatalf("%s: the reference counts %d rows of %d", p.Name, want.Count, c.Rows.Count)
		}
		for _, s := range some(d, append(private(t, p), plain(t, p))) {
			t.Run(p.Name+" "+s.name, func(t *testing.T) {
				for _, capacity := range []int{1, 5, 17, 40} {
					sameScore(t, d, score(t, Open(t, d, s.Schedule, c, capacity), c.Params), want)
				}
				sameScore(t, d, score(t, Open(t, d, s.Schedule, bad, 6), c.Params), want)
			})
		}
		t.Run(p.Name+" empty", func(t *testing.T) {
			none := *c
			none.Rows.Count, none.Rows.Targets, none.Features = 0, nil, nil
			for _, empty := range []*Case{&none, none.with(3, float32(math.NaN()))} {
				got := score(t, Open(t, d, plain(t, p).Schedule, empty, 4), c.Params)
				if got.Count != 0 || got.Loss != 0 || got.Correct != 0 {
					t.Errorf("scores %+v", got)
				}
			}
		})
	}

	p := few()[0]
	c := newCase(t, d, p, 6, 16)
	s := strategies(t, p)[0].Schedule
	t.Run("at another vector", func(t *testing.T) {
		x := Open(t, d, s, c, 4)
		other := newCase(t, d, p, 6, 17)
		other.Rows, other.Features = c.Rows, c.Features
		want := score(t, Open(t, reference.Open(), plain(t, p).Schedule, c, 1), other.Params)
		sameScore(t, d, score(t, x, other.Params), want)
		// The parameters are where they were.
		Same(t, x.read(t, x.Net.Params()), c.Params)
	})
	t.Run("between the runs of a sum", func(t *testing.T) {
		x := Open(t, d, s, c, 4)
		x.Add(t, []int32{0, 1}, 1)
		x.Add(t, []int32{2}, 1)
		want := x.Release(t, 0)
		x.Add(t, []int32{0, 1}, 1)
		score(t, x, c.Params)
		x.Add(t, []int32{2}, 1)
		Same(t, x.Release(t, 0), want)
	})
	t.Run("two in a step, kept over the next run", func(t *testing.T) {
		x := Open(t, d, s, c, 4)
		zero, err := x.Net.NewVector(1)
		must(t, err)
		step := x.record(t, func(q device.Queue) {
			q.Score(x.Net.Params(), x.Data)
			q.Score(zero, x.Data)
		})
		must(t, step.Run(&device.Inputs{}))
		first, err := step.Wait()
		must(t, err)
		if len(first.Scores) != 2 {
			t.Fatalf("has %d scores, want 2", len(first.Scores))
		}
		before := fmt.Sprintf("%+v", first)
		sameScore(t, d, first.Scores[1], score(t, Open(t, reference.Open(), plain(t, p).Schedule, c, 1), make([]float32, x.size)))
		must(t, x.Net.Write(x.Net.Params(), make([]float32, x.size)))
		must(t, step.Run(&device.Inputs{}))
		second, err := step.Wait()
		must(t, err)
		if after := fmt.Sprintf("%+v", first); after != before {
			t.Errorf("the next run changed scores handed out before, from %s to %s", before, after)
		}
		sameScore(t, d, second.Scores[0], second.Scores[1])
	})
}

// score evaluates parameters in a vector of their own.
func score(t testing.TB, x *Fixture, params []float32) device.Score {
	t.Helper()
	at, err := x.Net.NewVector(1)
	must(t, err)
	must(t, x.Net.Write(at, params))
	step := x.record(t, func(q device.Queue) { q.Score(at, x.Data) })
	must(t, step.Run(&device.Inputs{}))
	out, err := step.Wait()
	must(t, err)
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
