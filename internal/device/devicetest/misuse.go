package devicetest

import (
	"errors"
	"math"
	"regexp"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// foreign is a table of no device.
type foreign struct{}

func (foreign) Close() error { return nil }

// testMisuse checks that mistakes give errors: no panic, and nothing in a
// message that only the private table knows.
func testMisuse(t *testing.T, d device.Device) {
	const rows = 73
	c := newCase(t, d, few()[0], rows, 18)
	schedule := strategies(t, c.Program)[0].Schedule
	open := func(t *testing.T) *Fixture { return Open(t, d, schedule, c, 4) }
	refused := func(t *testing.T, what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	recorded := func(t *testing.T, x *Fixture, what string, body func(device.Queue)) {
		t.Helper()
		_, err := x.Net.Record(body)
		refused(t, what, err)
	}

	t.Run("rows", func(t *testing.T) {
		for what, list := range map[string][]int32{
			"a row beyond the table": {rows}, "a negative row": {0, -1}, "a far row": {math.MaxInt32}, "the lowest row": {math.MinInt32},
			"more rows than the capacity": {1, 2, 3, 4, 5},
		} {
			x := open(t)
			in := &device.Inputs{Rows: list}
			in.Scalars[device.Clip] = 1
			err := x.Clipped.Run(in)
			refused(t, what, err)
			// The capacity of 4 is public; rows and counts of them are not.
			if err != nil && regexp.MustCompile(`73|2147483|-1|\b5\b`).MatchString(err.Error()) {
				t.Errorf("%s: the message tells about the data: %v", what, err)
			}
			in.Rows = nil
			refused(t, "a run after "+what, x.Clipped.Run(in))
			if _, err := x.Clipped.Wait(); err == nil {
				t.Errorf("waiting after %s gives no error", what)
			}
			refused(t, "a read after "+what, x.Net.Read(x.Out, make([]float32, x.size)))
			recorded(t, x, "a recording after "+what, func(device.Queue) {})
		}
	})
	t.Run("clip norm", func(t *testing.T) {
		for _, clip := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
			x := open(t)
			in := &device.Inputs{Rows: []int32{0}}
			in.Scalars[device.Clip] = clip
			if err := x.Clipped.Run(in); err == nil {
				t.Errorf("a clip norm of %v bounds no example, and is accepted", clip)
			}
		}
		x := Open(t, d, plain(t, c.Program).Schedule, c, 4)
		must(t, x.Clipped.Run(&device.Inputs{Rows: []int32{0}}))
	})
	t.Run("tables", func(t *testing.T) {
		x := open(t)
		narrow := *c
		narrow.Rows.Width, narrow.Rows.Count, narrow.Rows.Targets, narrow.Features = 3, 1, []float32{0}, []uint8{1, 2, 3}
		data, err := d.Load(narrow.Rows, narrow.Features)
		must(t, err)
		for what, table := range map[string]device.Data{"no table": nil, "a foreign table": foreign{}, "a table of another width": data} {
			recorded(t, x, what+" in a sum", func(q device.Queue) { q.ClippedSum(x.Sum, table) })
			recorded(t, x, what+" in a score", func(q device.Queue) { q.Score(x.Net.Params(), table) })
		}
		must(t, data.Close())
		for what, r := range map[string]device.Rows{
			"missing targets": {Count: 2, Width: 3}, "too few bytes": {Count: 3, Width: 3, Targets: []float32{1, 1, 1}},
			"rows of no byte": {Count: 1, Width: 0, Targets: []float32{1}}, "a negative count": {Count: -1, Width: 3},
		} {
			_, err := d.Load(r, make([]uint8, 6))
			refused(t, "a table with "+what, err)
		}
	})
	t.Run("handles", func(t *testing.T) {
		x := open(t)
		two, err := x.Net.NewVector(2)
		must(t, err)
		for _, v := range []device.Vector{-1, 99, two} {
			recorded(t, x, "a wrong vector in a release", func(q device.Queue) { q.Release(v, x.Sum, x.Noise) })
			recorded(t, x, "a wrong vector in an update", func(q device.Queue) { q.Update(device.SGD, v, x.Out) })
			recorded(t, x, "a wrong gradient in an update", func(q device.Queue) { q.Update(device.SGD, x.Out, v) })
			recorded(t, x, "a wrong state in an update", func(q device.Queue) { q.Update(device.HeavyBall, x.Net.Params(), x.Out, v) })
			recorded(t, x, "a wrong vector in a score", func(q device.Queue) { q.Score(v, x.Data) })
			refused(t, "writing a wrong vector", x.Net.Write(v, make([]float32, x.size)))
			refused(t, "reading a wrong vector", x.Net.Read(v, make([]float32, x.size)))
		}
		for _, s := range []device.Sum{-1, 99} {
			recorded(t, x, "a wrong sum", func(q device.Queue) { q.ClippedSum(s, x.Data) })
			recorded(t, x, "a release of a wrong sum", func(q device.Queue) { q.Release(x.Out, s, x.Noise) })
		}
		for _, width := range []int{0, -3} {
			_, err := x.Net.NewVector(width)
			refused(t, "a vector without width", err)
		}
		// None of it stands in the way of good use.
		x.Of(t, []int32{1, 2}, 1)
		x = open(t)
		for _, n := range []int{0, 1, x.size - 1, x.size + 1} {
			refused(t, "writing a wrong length", x.Net.Write(x.Net.Params(), make([]float32, n)))
			x = open(t)
			refused(t, "reading a wrong length", x.Net.Read(x.Net.Params(), make([]float32, n)))
			x = open(t)
		}
		two, err = x.Net.NewVector(2)
		must(t, err)
		must(t, x.Net.Write(two, make([]float32, 2*x.size)))
		must(t, x.Net.Read(two, make([]float32, 2*x.size)))
	})
	t.Run("compile", func(t *testing.T) {
		for _, capacity := range []int{0, -1} {
			_, err := d.Compile(schedule, device.Options{Capacity: capacity})
			refused(t, "a capacity below one", err)
		}
		broken := *schedule
		broken.Steps = broken.Steps[1:]
		_, err := d.Compile(&broken, device.Options{Capacity: 1})
		refused(t, "a broken schedule", err)
	})
	t.Run("closed", func(t *testing.T) {
		x := open(t)
		must(t, x.Net.Close())
		must(t, x.Net.Close())
		_, vector := x.Net.NewVector(1)
		_, sum := x.Net.NewSum()
		_, record := x.Net.Record(func(q device.Queue) { q.ClippedSum(x.Sum, x.Data) })
		_, wait := x.Clipped.Wait()
		for what, err := range map[string]error{
			"NewVector": vector, "NewSum": sum, "Record": record, "Wait": wait,
			"Run":   x.Free.Run(&device.Inputs{Draw: 1}),
			"Write": x.Net.Write(x.Net.Params(), c.Params),
			"Read":  x.Net.Read(x.Net.Params(), make([]float32, x.size)),
		} {
			if !errors.Is(err, device.ErrClosed) {
				t.Errorf("%s of a closed net gives %v, want %v", what, err, device.ErrClosed)
			}
		}
		must(t, x.Data.Close())
		must(t, x.Data.Close())
	})
	t.Run("closed after a failure", func(t *testing.T) {
		x := open(t)
		refused(t, "a row beyond the table", x.Clipped.Run(&device.Inputs{Rows: []int32{rows}}))
		must(t, x.Net.Close())
		must(t, x.Net.Close())
	})
	t.Run("device closed twice", func(t *testing.T) {
		must(t, d.Close())
		must(t, d.Close())
	})
}
