package devicetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// exactRefusals are what exact nets, and devices asked for one, refuse, with what they say.
var exactRefusals = claims[site]{
	{"schedules", func(t *testing.T, s site) {
		compile := func(schedule named) error {
			_, err := s.d.Compile(schedule.Schedule, device.Options{Capacity: 4, Exact: true})
			return err
		}
		for _, schedule := range some(s.d, private(t, s.Program)) {
			if schedule.Stored() == s.Program.NumParams() { // and combined, as dense ops are
				continue
			}
			said(t, schedule.name, compile(schedule), "use strategy materialise or microbatch")
		}
		said(t, "a plain schedule", compile(plain(t, s.Program)), "need flat clipping, not unclipped")
	}},
	{"noise that is not exact", func(t *testing.T, s site) {
		if err := recording(s.exact(t), device.Noise{}); !errors.Is(err, device.ErrNoNoise) {
			t.Errorf("no noise gives %v", err)
		}
		said(t, "a tensor of further digits", recording(s.exact(t), device.NewNoise(chacha(t), 1<<31)), "must be below")
	}},
	{"exact noise for a floating-point sum", func(t *testing.T, s site) {
		said(t, "it", recording(s.open(t), device.NewExactNoise(chacha(t), 1)), "Options.Exact")
	}},
	{"impossible deviations", func(t *testing.T, s site) {
		must(t, s.runExact(t, func(*device.Inputs) {}))
		for _, std := range []float32{1e-14, 0x1.000002p20, -1, float32(math.NaN())} {
			said(t, fmt.Sprintf("a deviation of %v", std), s.runExact(t, func(in *device.Inputs) { in.Scalars[device.NoiseStd] = std }), "deviation")
		}
	}},
	{"impossible clip norms", func(t *testing.T, s site) {
		for _, clip := range impossible {
			err := s.runExact(t, func(in *device.Inputs) { in.Scalars[device.Clip] = float32(clip) })
			said(t, fmt.Sprintf("a release at the clip norm %v", clip), err, "must be a finite number above 0")
		}
	}},
	{"another clip norm", func(t *testing.T, s site) {
		said(t, "a release", s.runExact(t, func(in *device.Inputs) { in.Scalars[device.Clip] = 2 }), "begun at 1")
		said(t, "more rows", s.runExact(t, func(in *device.Inputs) { in.Scalars[device.Clip], in.Rows = 2, []int32{1} }), "begun at 1")
	}},
	{"another clip norm after a release is none", func(t *testing.T, s site) {
		x := s.exact(t)
		x.integers(t, []int32{0, 1}, 1)
		x.integers(t, []int32{0, 1}, 2)
	}},
	{"sums without values", func(t *testing.T, s site) {
		x := s.exact(t)
		for _, size := range []int{0, -1} {
			_, err := x.Net.NewScalarSum(size)
			said(t, "a sum without values", err, "at least one scalar")
		}
	}},
	{"recordings into other sums", testExactRecordings},
}

// said fails unless an error says what it must.
func said(t testing.TB, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s gives %v, want %q", what, err, want)
	}
}

func (s site) exact(t testing.TB) *Fixture { return openExact(t, s.d, s.schedule, s.Case, s.capacity) }

// recording is what a net says to a release with noise.
func recording(x *Fixture, noise device.Noise) error {
	_, err := x.Net.Record(func(q device.Queue) { q.Release(x.Out, x.Sum, noise) })
	return err
}

// runExact adds two rows and runs what a test changes, a release without rows, on a net of its own: a failure sticks.
func (s site) runExact(t testing.TB, change func(in *device.Inputs)) error {
	t.Helper()
	x := s.exact(t)
	x.Add(t, []int32{0, 1}, 1)
	in := clipAt(1)
	in.Draw, in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 1, 1, float32(gridStep(1))
	step := x.Free
	if change(in); len(in.Rows) > 0 {
		step = x.Clipped
	}
	err := step.Run(in)
	if err != nil && step.Run(&device.Inputs{}) == nil {
		t.Error("a failure does not stick")
	}
	return err
}

func testExactRecordings(t *testing.T, s site) {
	x := s.exact(t)
	record := func(what, want string, body func(device.Queue)) {
		_, err := x.Net.Record(body)
		said(t, what, err, want)
	}
	scalar := x.scalarSum(t, 1)
	for _, sum := range []device.Sum{scalar, -1, 99} {
		record("a gradient into no such sum", "sum", func(q device.Queue) { q.ClippedSum(sum, x.Data) })
		record("a release into a vector of another size", "", func(q device.Queue) { q.Release(x.Out, sum, x.Noise) })
	}
	record("losses into a gradient's sum", "want 1", func(q device.Queue) {
		q.Losses(x.Sum, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.Net.Params(), K: 1})
	})
	record("a count of norms", "not counted on exact nets", func(q device.Queue) { q.CountedSum(x.Sum, scalar, x.Data) })
}
