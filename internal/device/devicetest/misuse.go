package devicetest

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// foreign is a table of no device.
type foreign struct{}

func (foreign) Close() error { return nil }

// misuseClaims are that mistakes give errors: no panic, and nothing in a
// message that only the private table knows.
var misuseClaims = claims[site]{
	{"rows", testWrongRows},
	{"clip norm", func(t *testing.T, s site) {
		refuseClips(t, func(t *testing.T) device.Step { return s.open(t).Clipped })
	}},
	{"no clip norm", func(t *testing.T, s site) {
		must(t, Open(t, s.d, plain(t, s.Program).Schedule, s.Case, 4).Clipped.Run(clipAt(0, 0)))
	}},
	{"tables in recordings", testWrongTables},
	{"tables that do not load", func(t *testing.T, s site) {
		for what, r := range map[string]device.Rows{
			"missing targets": {Count: 2, Width: 3}, "too few bytes": {Count: 3, Width: 3, Targets: []float32{1, 1, 1}},
			"rows of no byte": {Count: 1, Width: 0, Targets: []float32{1}}, "a negative count": {Count: -1, Width: 3},
		} {
			_, err := s.d.Load(r, make(device.Bytes, 6))
			refuse(t, "a table with "+what, err)
		}
	}},
	{"vectors", testWrongVectors},
	{"sums", func(t *testing.T, s site) {
		x := s.open(t)
		for _, sum := range []device.Sum{-1, 99} {
			x.refuses(t, recordings{
				fmt.Sprintf("sum %d", sum):     func(q device.Queue) { q.ClippedSum(sum, x.Data) },
				fmt.Sprintf("release %d", sum): func(q device.Queue) { q.Release(x.Out, sum, x.Noise) },
			})
		}
		x.Of(t, []int32{1, 2}, 1)
	}},
	{"widths", func(t *testing.T, s site) {
		x := s.open(t)
		for _, width := range []int{0, -3} {
			_, err := x.Net.NewVector(width)
			refuse(t, fmt.Sprintf("a vector of width %d", width), err)
		}
		x.Of(t, []int32{1, 2}, 1)
	}},
	{"lengths", func(t *testing.T, s site) {
		x := s.open(t)
		for _, n := range []int{0, 1, x.size - 1, x.size + 1} {
			w, r := s.open(t), s.open(t)
			refuse(t, "writing a wrong length", w.Net.Write(w.Net.Params(), make([]float32, n)))
			refuse(t, "reading a wrong length", r.Net.Read(r.Net.Params(), make([]float32, n)))
		}
		two := x.vector(t, 2)
		must(t, x.Net.Write(two, make([]float32, 2*x.size)))
		must(t, x.Net.Read(two, make([]float32, 2*x.size)))
	}},
	{"compile", func(t *testing.T, s site) {
		for _, capacity := range []int{0, -1} {
			_, err := s.d.Compile(s.schedule, device.Options{Capacity: capacity})
			refuse(t, "a capacity below one", err)
		}
		broken := *s.schedule
		broken.Steps = broken.Steps[1:]
		_, err := s.d.Compile(&broken, device.Options{Capacity: 1})
		refuse(t, "a broken schedule", err)
	}},
	{"closed", testClosed},
	{"closed after a failure", func(t *testing.T, s site) {
		x := s.open(t)
		refuse(t, "a row beyond the table", x.Clipped.Run(&device.Inputs{Rows: []int32{misuseRows}}))
		must(t, x.Net.Close())
		must(t, x.Net.Close())
	}},
	{"device closed twice", func(t *testing.T, s site) {
		must(t, s.d.Close())
		must(t, s.d.Close())
	}},
}

const misuseRows = 73

func testWrongRows(t *testing.T, s site) {
	for what, list := range map[string][]int32{
		"a row beyond the table": {misuseRows}, "a negative row": {0, -1}, "a far row": {math.MaxInt32}, "the lowest row": {math.MinInt32},
		"more rows than the capacity": {1, 2, 3, 4, 5},
	} {
		t.Run(what, func(t *testing.T) {
			x := s.open(t)
			err := x.Clipped.Run(clipAt(1, list...))
			refuse(t, "it", err)
			// The capacity of 4 is public; rows and counts of them are not.
			if err != nil && regexp.MustCompile(`73|2147483|-1|\b5\b`).MatchString(err.Error()) {
				t.Errorf("the message tells about the data: %v", err)
			}
			refuse(t, "a run after it", x.Clipped.Run(clipAt(1)))
			_, err = x.Clipped.Wait()
			refuse(t, "waiting after it", err)
			refuse(t, "a read after it", x.Net.Read(x.Out, make([]float32, x.size)))
			x.refuses(t, recordings{"a recording after it": func(device.Queue) {}})
		})
	}
}

func testWrongTables(t *testing.T, s site) {
	x := s.open(t)
	narrow, err := s.d.Load(device.Rows{Width: 3, Count: 1, Targets: []float32{0}, Gather: s.Rows.Gather}, device.Bytes{1, 2, 3})
	must(t, err)
	for what, table := range map[string]device.Data{"no table": nil, "a foreign table": foreign{}, "a table of another width": narrow} {
		x.refuses(t, recordings{
			what + " in a sum":   func(q device.Queue) { q.ClippedSum(x.Sum, table) },
			what + " in a score": func(q device.Queue) { q.Score(x.Net.Params(), table) },
		})
	}
	must(t, narrow.Close())
}

func testWrongVectors(t *testing.T, s site) {
	x := s.open(t)
	for what, v := range map[string]device.Vector{"no vector": -1, "an unknown vector": 99, "a vector of another width": x.vector(t, 2)} {
		x.refuses(t, recordings{
			what + " in a release":            func(q device.Queue) { q.Release(v, x.Sum, x.Noise) },
			what + " in an update":            func(q device.Queue) { q.Update(device.SGD, v, x.Out) },
			what + " as an update's gradient": func(q device.Queue) { q.Update(device.SGD, x.Out, v) },
			what + " as an update's state":    func(q device.Queue) { q.Update(device.HeavyBall, x.Net.Params(), x.Out, v) },
			what + " in a score":              func(q device.Queue) { q.Score(v, x.Data) },
		})
		refuse(t, "writing "+what, x.Net.Write(v, make([]float32, x.size)))
		refuse(t, "reading "+what, x.Net.Read(v, make([]float32, x.size)))
	}
	x.Of(t, []int32{1, 2}, 1) // none of it stands in the way of good use
}

func testClosed(t *testing.T, s site) {
	x := s.open(t)
	must(t, x.Net.Close())
	must(t, x.Net.Close())
	_, vector := x.Net.NewVector(1)
	_, sum := x.Net.NewSum()
	_, record := x.Net.Record(func(q device.Queue) { q.ClippedSum(x.Sum, x.Data) })
	_, wait := x.Clipped.Wait()
	for what, err := range map[string]error{
		"NewVector": vector, "NewSum": sum, "Record": record, "Wait": wait,
		"Run":   x.Free.Run(&device.Inputs{Draw: 1}),
		"Write": x.Net.Write(x.Net.Params(), s.Params),
		"Read":  x.Net.Read(x.Net.Params(), make([]float32, x.size)),
	} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s of a closed net gives %v, want %v", what, err, device.ErrClosed)
		}
	}
	must(t, x.Data.Close())
	must(t, x.Data.Close())
}
