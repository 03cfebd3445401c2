package devicetest

import (
	"errors"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// wide is a case with enough parameters to be cut into blocks.
func wide(t testing.TB) *Case {
	t.Helper()
	return NewCase(t, program("dense-wide"), 5, 14)
}

// releaseClaims are about sums that leave a net with noise.
var releaseClaims = claims[site]{
	{"noise is the stream's", testReleasedNoise},
	{"the sum is zero afterwards", func(t *testing.T, s site) {
		x := s.open(t)
		x.Add(t, s.All(), 1)
		if Norm(x.Release(t, 2)) == 0 {
			t.Error("nothing was released")
		}
		Same(t, x.Release(t, 0), make([]float32, x.size))
	}},
	{"a used draw is refused for good", testUsedDraw},
	{"a draw of another net of the stream is refused", testDrawOfAnotherNet},
	{"steps without a release need no draw", func(t *testing.T, s site) {
		x := s.open(t)
		must(t, drawn(x.Free, 3, 0))
		x.Add(t, s.All(), 1)
		x.Add(t, s.All(), 1)
	}},
	{"no noise without a mechanism", func(t *testing.T, s site) {
		x := s.open(t)
		for _, noise := range []device.Noise{{}, device.NewNoise(nil, 3)} {
			if err := recording(x, noise); !errors.Is(err, device.ErrNoNoise) {
				t.Errorf("recording gives %v, want %v", err, device.ErrNoNoise)
			}
		}
	}},
	{"two releases of a step", testTwoReleases},
	{"impossible standard deviations", func(t *testing.T, s site) {
		refuseStds(t, func(t *testing.T) (device.Step, device.Noise) { x := s.open(t); return x.Free, x.Noise })
	}},
}

// drawn runs a release at a position.
func drawn(s device.Step, draw uint64, std float64) error {
	in := &device.Inputs{Draw: draw}
	setNoise(in, device.NewNoise(nil, 0), std)
	return s.Run(in)
}

func testReleasedNoise(t *testing.T, s site) {
	src := s.open(t).Of(t, s.All(), 1)
	for _, test := range []struct {
		draw   uint64
		tensor uint32
		std    float32
	}{{1, 0, 1}, {2, 1, 0.125}, {1 << 40, 9, 1e4}, {math.MaxUint64, math.MaxInt32, 1e-3}} {
		x := s.open(t)
		x.Add(t, s.All(), 1)
		noise := device.NewNoise(Stream(t, s.d), test.tensor)
		free := x.record(t, func(q device.Queue) { q.Release(x.Out, x.Sum, noise) })
		must(t, drawn(free, test.draw, float64(test.std)))
		step := float64(powerOfTwo(test.std * 0x1p-26))
		z := Drawn(t, noise, test.draw, float64(test.std), x.size)
		for i, got := range x.read(t, x.Out) {
			// Roundings of the sum to the grid and of src to float32, and one of the result.
			if bound := step/2 + 0x1p-24*(math.Abs(float64(src[i]))+math.Abs(float64(got))); math.Abs(float64(got)-float64(src[i])-z[i]) > bound {
				t.Fatalf("draw %d, tensor %d, std %v: value %d is %v, want %v + %v", test.draw, test.tensor, test.std, i, got, src[i], z[i])
			}
		}
	}
}

func testUsedDraw(t *testing.T, s site) {
	for _, draws := range [][]uint64{{1, 1}, {5, 4}, {5, 5}, {math.MaxUint64, 1}, {0}} {
		x := s.open(t)
		other := x.record(t, func(q device.Queue) { q.Release(x.Out, x.Sum, device.NewNoise(Stream(t, s.d), 8)) })
		last := len(draws) - 1
		for _, draw := range draws[:last] {
			must(t, drawn(x.Free, draw, 1))
		}
		if err := drawn(other, draws[last], 1); !errors.Is(err, device.ErrDrawUsed) {
			t.Fatalf("draws %v give %v, want %v", draws, err, device.ErrDrawUsed)
		}
		_, wait := other.Wait()
		for what, err := range map[string]error{
			"a release at a new position": drawn(x.Free, math.MaxUint64, 1),
			"another step":                x.Clipped.Run(&device.Inputs{}),
			"a read":                      x.Net.Read(x.Out, make([]float32, x.size)),
			"a write":                     x.Net.Write(x.Out, make([]float32, x.size)),
			"waiting":                     wait,
		} {
			if !errors.Is(err, device.ErrDrawUsed) {
				t.Errorf("%s after the refusal gives %v", what, err)
			}
		}
	}
}

func testDrawOfAnotherNet(t *testing.T, s site) {
	with := func(noise device.Noise) *Fixture {
		return open(t, s.d, s.schedule, s.Case, device.Options{Capacity: 5}, noise)
	}
	noise := device.NewNoise(Stream(t, s.d), 7)
	must(t, drawn(with(noise).Free, 5, 1))
	for _, test := range []struct {
		draw  uint64
		noise device.Noise
		used  bool
	}{
		{5, noise, true}, {4, noise, true}, {1, device.NewNoise(noise.Stream(), 8), true}, // also of another tensor
		{5, device.NewNoise(Stream(t, s.d), 7), false}, {6, noise, false}, {6, noise, true}, {9, device.NewNoise(noise.Stream(), 8), false},
	} {
		x := with(test.noise)
		if err := drawn(x.Free, test.draw, 1); errors.Is(err, device.ErrDrawUsed) != test.used || err != nil != test.used {
			t.Errorf("draw %d: %v", test.draw, err)
		}
		if err := x.Net.Read(x.Out, make([]float32, x.size)); err != nil != test.used {
			t.Errorf("draw %d: a read after it gives %v", test.draw, err)
		}
	}
}

func testTwoReleases(t *testing.T, s site) {
	x := s.open(t)
	more, out := x.sum(t), x.vector(t, 1)
	two := func(first, second device.Noise) (device.Step, error) {
		return x.Net.Record(func(q device.Queue) {
			q.Release(x.Out, x.Sum, first)
			q.Release(out, more, second)
		})
	}
	if _, err := two(x.Noise, x.Noise); !errors.Is(err, device.ErrDrawUsed) {
		t.Errorf("one tensor for two releases gives %v, want %v", err, device.ErrDrawUsed)
	}
	step, err := two(x.Noise, device.NewNoise(x.Noise.Stream(), x.Noise.Tensor()+1))
	must(t, err)
	must(t, drawn(step, 1, 1))
	a, b := x.read(t, x.Out), x.read(t, out)
	want := make([]float32, x.size)
	addNoise(t, want, x.Noise, 1, 1)
	Near(t, a, want, 1e-6)
	if n := Norm(minus(a, b)); n < Norm(a)/2 {
		t.Errorf("two tensors draw noise that differs by %v only", n)
	}
}
