package mechanism

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

func testStream(t *testing.T) *stream.Stream {
	t.Helper()
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "test"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestZeroNoisyIsRefused(t *testing.T) {
	if _, err := (Noisy{}).Vector(); err == nil {
		t.Error("a gradient that no mechanism released was accepted")
	}
}

func TestGaussianRefuses(t *testing.T) {
	s := testStream(t)
	for _, test := range []struct {
		multiplier, bound, rounding float64
		stream                      *stream.Stream
		want                        string
	}{
		{0, 1, 0, s, "noise multiplier 0"},
		{-1, 1, 0, s, "noise multiplier -1"},
		{math.NaN(), 1, 0, s, "noise multiplier NaN"},
		{math.Inf(1), 1, 0, s, "noise multiplier +Inf"},
		{1, 0, 0, s, "clip norm 0"},
		{1, math.NaN(), 0, s, "clip norm NaN"},
		{1, 1, -0.1, s, "by -0.1 of the clip norm"},
		{1, 1, math.NaN(), s, "by NaN of the clip norm"},
		{1, 1, 1.5, s, "at most 1 is allowed"},
		{1, 1, 0, nil, "needs a noise stream"},
	} {
		if _, err := NewGaussian(test.multiplier, test.bound, test.rounding, test.stream, 0); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("multiplier %v, bound %v: %v, want %q", test.multiplier, test.bound, err, test.want)
		}
	}
}

// The clip norm that a device applies is rounded to float32; the noise must be
// the multiplier times that and what rounding adds, never less.
func TestGaussianNoiseFollowsTheClipNorm(t *testing.T) {
	for _, multiplier := range []float64{0.1, 1, 1.152180194854736, 7.3, 1e-3, 1e4} {
		for _, bound := range []float64{0.1, 1, 1.0 / 3, 12.7, 1e-5} {
			rounding := bound / 100
			g, err := NewGaussian(multiplier, bound, rounding, testStream(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			var in device.Inputs
			g.Set(&in)
			clip, std := float64(in.Scalars[device.Clip]), float64(in.Scalars[device.NoiseStd])
			if math.Abs(clip/bound-1) > 1e-7 {
				t.Errorf("clip norm %v became %v", bound, clip)
			}
			if want := multiplier * (1 + rounding) * clip; std < want || std > want*(1+2e-7) {
				t.Errorf("multiplier %v at clip norm %v draws deviation %v", multiplier, clip, std)
			}
			// A bound that moves takes the noise along, at an unmoved price.
			g.SetBound(bound / 3)
			g.Set(&in)
			clip, std = float64(in.Scalars[device.Clip]), float64(in.Scalars[device.NoiseStd])
			if math.Abs(3*clip/bound-1) > 1e-7 || std < multiplier*(1+rounding)*clip || std > multiplier*(1+rounding)*clip*(1+2e-7) {
				t.Errorf("moved to %v, the clip norm is %v under deviation %v", bound/3, clip, std)
			}
			if e, ok := g.Event().(accountant.Gaussian); !ok || e.NoiseMultiplier != multiplier {
				t.Errorf("multiplier %v costs the event %v", multiplier, g.Event())
			}
		}
	}
}

func TestUnprotectedCostsNoFiniteEvent(t *testing.T) {
	u := NewUnprotected(2, testStream(t))
	in := device.Inputs{}
	in.Scalars[device.NoiseStd] = 5
	u.Set(&in)
	u.SetBound(3)
	var moved device.Inputs
	if u.Set(&moved); moved.Scalars[device.Clip] != 3 || moved.Scalars[device.NoiseStd] != 0 {
		t.Errorf("moved to 3, the clip norm is %v under noise %v", moved.Scalars[device.Clip], moved.Scalars[device.NoiseStd])
	}
	if in.Scalars[device.NoiseStd] != 0 || in.Scalars[device.Clip] != 2 || u.Event() != nil {
		t.Errorf("noise %v, clip %v, event %v", in.Scalars[device.NoiseStd], in.Scalars[device.Clip], u.Event())
	}
}
