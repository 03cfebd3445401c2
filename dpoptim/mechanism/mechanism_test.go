package mechanism

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testStream(t *testing.T) *stream.Stream {
	t.Helper()
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "test"))
	check(t, err)
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
		if _, err := NewGaussian(test.multiplier, test.bound, test.rounding, 1, 1, test.stream, 0); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("multiplier %v, bound %v: %v, want %q", test.multiplier, test.bound, err, test.want)
		}
	}
}

func TestGaussianOfNothingIsRefused(t *testing.T) {
	if _, err := NewGaussian(1, 1, 0, 0, 1, testStream(t), 0); err == nil || !strings.Contains(err.Error(), "0 values") {
		t.Errorf("a release of no values: %v", err)
	}
	if _, err := NewGaussian(1, 1, 0, 1, 0, testStream(t), 0); err == nil || !strings.Contains(err.Error(), "0 parts") {
		t.Errorf("a release of no parts: %v", err)
	}
}

// The clip norm that a device applies is rounded to float32; the noise must be
// the multiplier times that and what rounding adds, to the sum and to the grid with each part, never less.
func TestGaussianNoiseFollowsTheClipNorm(t *testing.T) {
	for _, multiplier := range []float64{0.1, 1, 1.152180194854736, 7.3, 1e-3, 1e4, 1e6, 3e-9} {
		for _, bound := range []float64{0.1, 1, 1.0 / 3, 12.7, 1e-5, 1e-20, 1e20} {
			for _, size := range []struct{ values, parts int }{{1, 1}, {7, 1}, {1 << 17, 1}, {1 << 30, 1}, {7, 3}, {1 << 17, 64}} {
				rounding := min(bound, 1) / 100
				g, err := NewGaussian(multiplier, bound, rounding, size.values, size.parts, testStream(t), 0)
				check(t, err)
				var in device.Inputs
				check := func(bound float64) {
					t.Helper()
					g.Set(&in)
					clip, std, step := float64(in.Scalars[device.Clip]), float64(in.Scalars[device.NoiseStd]), float64(in.Scalars[device.NoiseStep])
					if math.Abs(clip/bound-1) > 1e-7 {
						t.Errorf("clip norm %v became %v", bound, clip)
					}
					// The grid: the least power of two that is fine enough and can be drawn on.
					fine := max(max(clip, bound)*0x1p-24, 0x1p-70)
					if fraction, _ := math.Frexp(step); fraction != 0.5 || step < fine || std/step > 0x1p40 {
						t.Errorf("multiplier %v at clip norm %v: deviation %v on a grid of step %v", multiplier, clip, std, step)
					}
					if half := step / 2; half >= fine && std/half <= 0x1p40*(1-1e-6) {
						t.Errorf("multiplier %v at clip norm %v: deviation %v on a grid of step %v, where half of it was enough", multiplier, clip, std, step)
					}
					// In rational numbers, but for the root of the number of values, which 2⁻⁵⁰ of it covers.
					rounded := new(big.Rat).Mul(rat(float64(size.parts)*(1+0x1p-50)), rat(math.Sqrt(float64(size.values))))
					least := new(big.Rat).Mul(rat(clip), rat(1+rounding))
					least.Add(least, rounded.Mul(rounded, rat(step)))
					least.Mul(least, rat(multiplier))
					if rat(std).Cmp(least) < 0 {
						t.Errorf("multiplier %v at clip norm %v on a grid of step %v draws deviation %v, which is less than it must be", multiplier, clip, step, std)
					}
					if most, _ := least.Float64(); std > most*(1+4e-5) { // underflow's part of √values·γ
						t.Errorf("multiplier %v at clip norm %v on a grid of step %v draws deviation %v, where %v was enough", multiplier, clip, step, std, most)
					}
				}
				check(bound)
				// A bound that moves takes noise and grid along, at an unmoved price.
				g.SetBound(bound / 3)
				check(bound / 3)
				if e, ok := g.Event().(accountant.Gaussian); !ok || e.NoiseMultiplier != multiplier {
					t.Errorf("multiplier %v costs the event %v", multiplier, g.Event())
				}
			}
		}
	}
}

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

func TestUnprotectedCostsNoFiniteEvent(t *testing.T) {
	u := NewUnprotected(2, testStream(t))
	in := device.Inputs{}
	in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 5, 1
	u.Set(&in)
	u.SetBound(3)
	var moved device.Inputs
	if u.Set(&moved); moved.Scalars[device.Clip] != 3 || moved.Scalars[device.NoiseStd] != 0 {
		t.Errorf("moved to 3, the clip norm is %v under noise %v", moved.Scalars[device.Clip], moved.Scalars[device.NoiseStd])
	}
	if in.Scalars[device.NoiseStd] != 0 || in.Scalars[device.NoiseStep] != 0 || in.Scalars[device.Clip] != 2 || u.Event() != nil {
		t.Errorf("noise %v, clip %v, event %v", in.Scalars[device.NoiseStd], in.Scalars[device.Clip], u.Event())
	}
}
