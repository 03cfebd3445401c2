package mechanism

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

func vector(t *testing.T, noise accountant.Mechanism, bound float64, values int) *Vector {
	t.Helper()
	v, err := NewVector(noise, bound, values, testStream(t), 5)
	check(t, err)
	return v
}

// within compares samples with a distribution function by the inequality of Dvoretzky, Kiefer and
// Wolfowitz: a true law is rejected with a probability below 1e-9.
func within(t *testing.T, what string, samples []float64, law func(float64) float64) {
	t.Helper()
	slices.Sort(samples)
	n := float64(len(samples))
	limit, most := math.Sqrt(math.Log(2e9)/(2*n)), 0.0
	for i, x := range samples {
		p := law(x)
		most = max(most, p-float64(i)/n, float64(i+1)/n-p)
	}
	if most > limit {
		t.Errorf("%s: the distance of the distributions is %.4f, limit %.4f", what, most, limit)
	}
}

// erlang is the distribution function of Gamma(d, 1).
func erlang(d int) func(float64) float64 {
	return func(x float64) float64 {
		term, sum := math.Exp(-x), 0.0
		for k := range d {
			sum += term
			term *= x / float64(k+1)
		}
		return 1 - sum
	}
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// The noise is that of the event: in units of the bound, the radius of pure noise is Gamma(d, 1/ε)
// and each coordinate of a direction symmetric; Gaussian coordinates are normal, and their squares
// add up to χ². The grid moves neither by 1e-5.
func TestVectorLaw(t *testing.T) {
	const draws, bound, d = 8000, 0.37, 6
	for _, noise := range []accountant.Mechanism{accountant.Pure{Epsilon: 0.5}, accountant.Gaussian{NoiseMultiplier: 2.5}} {
		v := vector(t, noise, bound, d)
		center := []float64{0, 1, -2, 0.5, 3, -0.25}
		var radius, first, share []float64
		for i := range uint64(draws) {
			x := slices.Clone(center)
			check(t, v.Release(x, i+1))
			sum := 0.0
			for j := range x {
				x[j] = (x[j] - center[j]) / bound
				sum += x[j] * x[j]
			}
			radius, first = append(radius, math.Sqrt(sum)), append(first, x[i%d])
			share = append(share, x[1]/math.Sqrt(sum))
		}
		switch n := noise.(type) {
		case accountant.Pure:
			within(t, "radius at a pure ε", radius, func(r float64) float64 { return erlang(d)(r * n.Epsilon) })
		case accountant.Gaussian:
			within(t, "coordinates", first, func(x float64) float64 { return phi(x / n.NoiseMultiplier) })
			// χ² of 6 degrees of freedom is twice Gamma(3, 1).
			within(t, "radius", radius, func(r float64) float64 { return erlang(3)(r * r / (2 * n.NoiseMultiplier * n.NoiseMultiplier)) })
		}
		// A coordinate of a uniform direction in six dimensions has density 8/(3π)·(1−u²)^(3/2).
		within(t, fmt.Sprintf("direction with %v", noise), share, func(u float64) float64 {
			a := math.Asin(max(min(u, 1), -1))
			return 0.5 + 8/(3*math.Pi)*(3*a/8+math.Sin(2*a)/4+math.Sin(4*a)/32)
		})
	}
}

// A released number is γ times the rounded number plus an integer that package exact draws, in
// rational arithmetic; its own tests compare those draws with another language.
func TestVectorIsOnTheGrid(t *testing.T) {
	const draw = 7
	in := []float64{0, 1.0 / 3, -5, 1e-12, 123456.789, math.NaN(), math.Inf(1), math.Inf(-1)}
	for _, noise := range []accountant.Mechanism{accountant.Pure{Epsilon: 1.5}, accountant.Gaussian{NoiseMultiplier: 0.7}} {
		v := vector(t, noise, 0.01, len(in))
		if fraction, _ := math.Frexp(v.Step); fraction != 0.5 {
			t.Fatalf("the grid's step %v is no power of two", v.Step)
		}
		integers := make([]int64, len(in))
		if _, pure := noise.(accountant.Pure); pure {
			d, err := exact.NewDirection(v.Scale/v.Step, len(in), testStream(t), 5)
			check(t, err)
			check(t, d.Add(integers, draw))
		} else {
			g, err := exact.New(v.Scale/v.Step, testStream(t), 5)
			check(t, err)
			g.Add(integers, draw, 0)
		}
		got := slices.Clone(in)
		check(t, v.Release(got, draw))
		for i, x := range in {
			switch {
			case math.IsNaN(x):
				x = 0
			case math.IsInf(x, 0):
				x = math.Copysign(0x1p49*v.Step, x)
			}
			units := new(big.Rat).Quo(rat(x), rat(v.Step))
			near := math.RoundToEven(x / v.Step)
			off := new(big.Rat).Sub(units, rat(near))
			if off.Abs(off).Cmp(big.NewRat(1, 2)) > 0 {
				t.Fatalf("%v is not rounded to its nearest neighbor", x)
			}
			if want := (near + float64(integers[i])) * v.Step; got[i] != want {
				t.Errorf("%v: number %d is released as %v, want %v", noise, i, got[i], want)
			}
		}
	}
}

// The noise covers the bound and what rounding adds to it, and no more than that by 1e-5.
func TestVectorNoiseIsNeverBelow(t *testing.T) {
	for _, size := range []float64{1e-3, 0.1, 1.0 / 3, 1, 45.9, 1e4} {
		for _, bound := range []float64{1e-9, 1e-3, 1.0 / 3, 20} {
			for _, values := range []int{1, 14, 1000} {
				for _, noise := range []accountant.Mechanism{accountant.Pure{Epsilon: 1 / size}, accountant.Gaussian{NoiseMultiplier: size}} {
					v := vector(t, noise, bound, values)
					least := new(big.Rat).Add(rat(bound), new(big.Rat).Mul(rat(math.Sqrt(float64(values))*(1-0x1p-50)), rat(v.Step)))
					if pure, ok := noise.(accountant.Pure); ok {
						least.Quo(least, rat(pure.Epsilon))
					} else {
						least.Mul(least, rat(size))
					}
					if rat(v.Scale).Cmp(least) < 0 {
						t.Errorf("%v at a bound of %v on %d values has scale %v, which is less than it must be", noise, bound, values, v.Scale)
					}
					if most, _ := least.Float64(); v.Scale > most*(1+1e-5) {
						t.Errorf("%v at a bound of %v on %d values has scale %v, where %v was enough", noise, bound, values, v.Scale, most)
					}
					if v.Event() != noise {
						t.Errorf("%v costs %v", noise, v.Event())
					}
				}
			}
		}
	}
}

// Two vectors at a distance of the bound, released with the same noise, are no farther apart than
// the noise is for. The grid moves some of them apart.
func TestVectorCoversTheGrid(t *testing.T) {
	const values, bound = 50, 0x1p-10
	a, b := vector(t, accountant.Gaussian{NoiseMultiplier: 1}, bound, values), vector(t, accountant.Gaussian{NoiseMultiplier: 1}, bound, values)
	rnd, beyond, move := rand.New(rand.NewPCG(1, 2)), 0, bound/math.Sqrt(values)
	for draw := range uint64(200) {
		x, y := make([]float64, values), make([]float64, values)
		for i := range x {
			// Just below a point between two of the grid, and so that some cross one more.
			x[i] = a.Step * (float64(rnd.IntN(1<<20)) + 0.5 - 0.4*rnd.Float64())
			y[i] = x[i] + move
		}
		check(t, a.Release(x, draw+1))
		check(t, b.Release(y, draw+1))
		sum := 0.0
		for i := range x {
			sum += (x[i] - y[i]) * (x[i] - y[i])
		}
		if distance := math.Sqrt(sum); distance > a.Scale {
			t.Errorf("vectors at a distance of %v are released at one of %v, with noise for %v", bound, distance, a.Scale)
		} else if distance > bound {
			beyond++
		}
	}
	if beyond == 0 {
		t.Error("the grid moved no two vectors apart")
	}
}

func TestVectorRefuses(t *testing.T) {
	s := testStream(t)
	gaussian := accountant.Gaussian{NoiseMultiplier: 1}
	for _, c := range []struct {
		noise  accountant.Mechanism
		bound  float64
		values int
		stream *stream.Stream
		want   string
	}{
		{accountant.Gaussian{}, 1, 1, s, "above 0"},
		{accountant.Gaussian{NoiseMultiplier: math.NaN()}, 1, 1, s, "above 0"},
		{accountant.Pure{}, 1, 1, s, "above 0"},
		{accountant.Pure{Epsilon: -1}, 1, 1, s, "above 0"},
		{accountant.NoisyBTLS{}, 1, 1, s, "pure ε, not"},
		{nil, 1, 1, s, "pure ε, not"},
		{gaussian, 0, 1, s, "moves by 0"},
		{gaussian, math.NaN(), 1, s, "moves by NaN"},
		{gaussian, 2 * device.MostClip, 1, s, "at most"},
		{gaussian, 1, 0, s, "0 values"},
		{gaussian, 1, 1, nil, "needs a stream"},
		{accountant.Pure{Epsilon: 1e-300}, 1, 1, s, "allow more epsilon"},
		{accountant.Pure{Epsilon: 1}, 1, 1<<24 + 1, s, "dimensions"},
	} {
		if _, err := NewVector(c.noise, c.bound, c.values, c.stream, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, bound %v, %d values: %v, want %q", c.noise, c.bound, c.values, err, c.want)
		}
	}
}

// Noise is never drawn twice, and what cannot be released does not stay.
func TestVectorPositions(t *testing.T) {
	for _, noise := range []accountant.Mechanism{accountant.Pure{Epsilon: 1}, accountant.Gaussian{NoiseMultiplier: 1}} {
		v := vector(t, noise, 1, 2)
		check(t, v.Release([]float64{3, 4}, 5))
		for _, draw := range []uint64{5, 4, 0} {
			private := []float64{3, 4}
			if err := v.Release(private, draw); err == nil || !strings.Contains(err.Error(), "used before") || private[0] != 0 || private[1] != 0 {
				t.Errorf("position %d after 5: %v, %v", draw, private, err)
			}
		}
		private := []float64{3}
		if err := v.Release(private, 6); err == nil || private[0] != 0 {
			t.Errorf("one value for two: %v, %v", private, err)
		}
	}
}
