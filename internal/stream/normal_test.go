package stream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func normals(s *Stream, n int, step uint64, tensor uint32) []float64 {
	x := make([]float64, n)
	s.Normals(x, step, tensor, 0)
	return x
}

func TestNormalsDependOnPositionOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "split"))
		whole := normals(s, 5000, 3, 4)
		for range 300 {
			lo := rng.IntN(len(whole))
			hi := lo + rng.IntN(len(whole)-lo+1)
			part := make([]float64, hi-lo)
			s.Normals(part, 3, 4, lo)
			if !slices.Equal(part, whole[lo:hi]) {
				t.Fatalf("%v: normals [%d,%d) drawn alone differ", c, lo, hi)
			}
		}

		split := make([]float64, len(whole))
		var wg sync.WaitGroup
		for lo := 0; lo < len(split); lo += 617 {
			wg.Go(func() { s.Normals(split[lo:min(lo+617, len(split))], 3, 4, lo) })
		}
		wg.Wait()
		if !slices.Equal(split, whole) {
			t.Errorf("%v: a split over goroutines changes the values", c)
		}
	}
}

// The layout is shared with other implementations of the same stream.
func TestNormalsLayout(t *testing.T) {
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "layout"))
		const n = 24
		raw := make([]byte, n*8)
		s.Fill(raw, 5, 6<<32)
		got := normals(s, n, 5, 6)
		for p := range n / 2 {
			a, b := boxMuller(raw[16*p:])
			if got[2*p] != a || got[2*p+1] != b {
				t.Errorf("%v: pair %d does not come from keystream bytes %d to %d", c, p, 16*p, 16*p+15)
			}
		}
	}
}

func TestNormalsRange(t *testing.T) {
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "range"))
		var last, next [3]float64
		s.Normals(last[:], 0, 0, MaxNormals-3)
		s.Normals(next[:], 0, 1, 0)
		for i := range last {
			if math.IsNaN(last[i]) || slices.Contains(next[:], last[i]) {
				t.Errorf("%v: the last numbers of a tensor are NaN or run into the next tensor", c)
			}
		}
		for _, first := range []int{-1, MaxNormals - 2, MaxNormals, math.MaxInt - 1} {
			bad := [3]float64{1, 1, 1}
			s.Normals(bad[:], 0, 0, first)
			for _, v := range bad {
				if !math.IsNaN(v) {
					t.Errorf("%v: first = %d gave %v instead of NaN", c, first, v)
				}
			}
		}
	}
}

func TestRadius(t *testing.T) {
	for _, v := range []struct {
		x    uint64
		want float64
	}{
		{0, math.Sqrt(130 * math.Ln2)}, // u = 2⁻⁶⁵
		{1<<63 - 1, math.Sqrt(2 * math.Ln2)},
		{1 << 63, math.Sqrt(2 * math.Ln2)},
		{math.MaxUint64, 0x1p-32}, // u = 1-2⁻⁶⁵
		{math.MaxUint64 - 40, 9 * 0x1p-32},
	} {
		if got := radius(v.x); math.Abs(got/v.want-1) > 1e-15 {
			t.Errorf("radius(%#x) = %v, want %v", v.x, got, v.want)
		}
	}
	if r := radius(0); r > MaxRadius || MaxRadius-r > 1e-6 {
		t.Errorf("MaxRadius = %v, largest radius %v", MaxRadius, r)
	}
	// The two branches meet: one grid step there changes the radius by 1e-20.
	if a, b := radius(15<<60-1), radius(15<<60); math.Abs(a/b-1) > 1e-14 {
		t.Errorf("the branches of radius differ where they meet: %v and %v", a, b)
	}
}

func TestSincos(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	ys := []uint64{0, 1, 1<<61 - 1, 1 << 61, 1<<62 - 1, 1 << 62, 1 << 63, 3 << 62, math.MaxUint64}
	for range 20000 {
		ys = append(ys, rng.Uint64())
	}
	for _, y := range ys {
		angle := float64(y>>62)*(math.Pi/2) + float64(int64(y<<2))*0x1p-64*(math.Pi/2)
		sin, cos := sincos(y)
		ws, wc := math.Sincos(angle)
		if math.Abs(sin-ws) > 1e-15 || math.Abs(cos-wc) > 1e-15 {
			t.Fatalf("sincos(%#x) = %v, %v, want %v, %v", y, sin, cos, ws, wc)
		}
	}
}

// Each of the 2·(4+1) bounds is 6.5 standard deviations or, for
// Kolmogorov–Smirnov, 2·exp(-2·3.4²): at most 2e-10 false rejects each over the
// choice of the fixed key.
func TestNormalsDistribution(t *testing.T) {
	const n = 1 << 20
	for _, c := range ciphers {
		x := normals(newStream(t, c, KeyFromSeed(1, "distribution")), n, 1, 2)
		moments := []struct{ mean, variance float64 }{{0, 1}, {1, 2}, {0, 15}, {3, 96}}
		for k, m := range moments {
			sum := 0.0
			for _, v := range x {
				sum += math.Pow(v, float64(k+1))
			}
			if d := math.Abs(sum/n - m.mean); d > 6.5*math.Sqrt(m.variance/n) {
				t.Errorf("%v: moment %d is off by %v", c, k+1, d)
			}
		}

		slices.Sort(x)
		ks := 0.0
		for i, v := range x {
			f := 0.5 * math.Erfc(-v/math.Sqrt2)
			ks = max(ks, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
		}
		if ks*math.Sqrt(n) > 3.4 {
			t.Errorf("%v: Kolmogorov–Smirnov distance %v", c, ks)
		}
	}
}

// 2²⁵ draws hold 19.2 beyond 5σ and 2125.6 beyond 4σ on average. A Poisson
// variable with these means leaves [3, 50] and [1800, 2460] with probability
// below 2e-6 and 1e-11 over the choice of the fixed key.
func TestNormalsTail(t *testing.T) {
	s := newStream(t, AES256CTR, KeyFromSeed(1, "tail"))
	x := make([]float64, 1<<20)
	beyond4, beyond5 := 0, 0
	for step := range uint64(32) {
		s.Normals(x, step, 0, 0)
		for _, v := range x {
			if a := math.Abs(v); a > 4 {
				beyond4++
				if a > 5 {
					beyond5++
				}
				if a > MaxRadius {
					t.Fatalf("draw %v lies beyond MaxRadius", v)
				}
			}
		}
	}
	if beyond4 < 1800 || beyond4 > 2460 {
		t.Errorf("%d draws beyond 4σ, expected about 2126", beyond4)
	}
	if beyond5 < 3 || beyond5 > 50 {
		t.Errorf("%d draws beyond 5σ, expected about 19", beyond5)
	}
}

// uncorrelated compares x and y and their squares; both statistics are close to
// standard normal, so 6.5 rejects wrongly with probability 1e-10 each over the
// choice of the fixed keys.
func uncorrelated(t *testing.T, what string, x, y []float64) {
	t.Helper()
	var xy, x2y2 float64
	for i := range x {
		xy += x[i] * y[i]
		x2y2 += (x[i]*x[i] - 1) * (y[i]*y[i] - 1) / 2
	}
	root := math.Sqrt(float64(len(x)))
	if math.Abs(xy)/root > 6.5 || math.Abs(x2y2)/root > 6.5 {
		t.Errorf("%s are correlated: %v, squares %v standard deviations", what, xy/root, x2y2/root)
	}
}

func TestNormalsIndependence(t *testing.T) {
	const n = 1 << 17
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "independence"))
		x := normals(s, n, 1, 1)
		for lag := 1; lag <= 9; lag++ {
			uncorrelated(t, fmt.Sprintf("%v: positions %d apart", c, lag), x[lag:], x[:n-lag])
		}
		uncorrelated(t, c.String()+": neighbouring tensors", x, normals(s, n, 1, 2))
		uncorrelated(t, c.String()+": neighbouring steps", x, normals(s, n, 2, 1))
		other := newStream(t, c, KeyFromSeed(2, "independence"))
		uncorrelated(t, c.String()+": neighbouring seeds", x, normals(other, n, 1, 1))
	}
	a := newStream(t, AES256CTR, KeyFromSeed(1, "independence"))
	b := newStream(t, ChaCha20, KeyFromSeed(1, "independence"))
	uncorrelated(t, "ciphers under one key", normals(a, n, 1, 1), normals(b, n, 1, 1))
}

// Regressions: one key drawn from twice, for two tensors, gave both the same
// noise (jax #3646); a stream that moved by one position a step repeated all but
// one number of the step before (opacus-cpp). Here no number occurs twice over
// tensors and steps. 2¹⁶ distinct 53-bit draws repeat by chance with probability
// below 3e-6; the key is fixed.
func TestNoNoiseIsUsedTwice(t *testing.T) {
	const n, tensors, steps = 1 << 10, 8, 8
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "reuse"))
		seen := make(map[float64]string, n*tensors*steps)
		for step := range uint64(steps) {
			for tensor := range uint32(tensors) {
				where := fmt.Sprintf("step %d tensor %d", step, tensor)
				for _, v := range normals(s, n, step, tensor) {
					if first, ok := seen[v]; ok {
						t.Fatalf("%v: %s repeats a number of %s", c, where, first)
					}
					seen[v] = where
				}
			}
		}
	}
}
