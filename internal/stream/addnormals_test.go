package stream

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// near reports whether got is the normal z within the bound that AddNormals
// states.
func near(got float32, z float64) bool {
	return math.Abs(float64(got)-z) <= 4e-7*math.Abs(z)+1e-14
}

// float32s draws standard normals by AddNormals.
func float32s(s *Stream, n int, step uint64, tensor uint32, first int) []float32 {
	x := make([]float32, n)
	s.AddNormals(x, x, 1, step, tensor, first)
	return x
}

func TestAddNormalsDrawsTheNumbersOfNormals(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, c := range ciphers {
			s := newStream(t, c, KeyFromSeed(1, "same"))
			for _, first := range []int{0, 1, 2, 7, 8, 511, 1023, 1024, 123456789, MaxNormals - 4500} {
				for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 18, 31, 33, 100, 1023, 1024, 1025, 4500} {
					z, step, tensor := make([]float64, n), uint64(first+n), uint32(n)
					s.Normals(z, step, tensor, first)
					for i, got := range float32s(s, n, step, tensor, first) {
						if !near(got, z[i]) {
							t.Fatalf("%v: normal %d+%d is %v, want %v", c, first, i, got, z[i])
						}
					}
				}
			}
		}
	})
}

// Words with every number of leading zeros or ones, and those where the code
// that they meet changes, in all combinations.
func TestAddNormalsAtTheEdges(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	edges := []uint64{0, 1 << 62, 1 << 63, 3 << 62, 1 << 61, 15 << 60, 0xb504f333f9de6484} // the last is √½
	var words []uint64
	for _, e := range edges {
		for d := range uint64(5) {
			words = append(words, e+d, e-d, e+d<<31, e-d<<31, e+d<<32, e-d<<32)
		}
		for bits := range 64 {
			low := rng.Uint64() >> bits
			words = append(words, e+low, e-low, e+1<<bits, e-1<<bits)
		}
	}
	raw, work := make([]byte, 16*len(words)), make([]byte, 16*len(words))
	want := make([]float64, 2*len(words))
	zero, got := make([]float32, 2*len(words)), make([]float32, 2*len(words))
	for turn := range len(words) {
		for i, x := range words {
			put(raw[16*i:], x, words[(i+turn)%len(words)])
			want[2*i], want[2*i+1] = boxMuller(raw[16*i:])
		}
		for name, k := range implementations() {
			copy(work, raw)
			k.addNormals(got, zero, work, 0, 1)
			for i, z := range want {
				if !near(got[i], z) {
					x, y := words[i/2], words[(i/2+turn)%len(words)]
					t.Fatalf("%s: number %d of words %#x and %#x is %v, want %v", name, i%2, x, y, got[i], z)
				}
			}
		}
	}
}

func put(raw []byte, x, y uint64) {
	for i := range 8 {
		raw[i], raw[8+i] = byte(x>>(8*i)), byte(y>>(8*i))
	}
}

// The sum is rounded once, whatever the sizes of its terms.
func TestAddNormalsRoundsOnce(t *testing.T) {
	const n = 5000
	rng := rand.New(rand.NewPCG(9, 10))
	eachImplementation(t, func(t *testing.T) {
		s := newStream(t, AES256CTR, KeyFromSeed(1, "rounding"))
		z := normals(s, n, 0, 0)
		if use != portable { // which adds before it rounds
			for i, x := range float32s(s, n, 0, 0, 0) {
				z[i] = float64(x)
			}
		}
		src, dst := make([]float32, n), make([]float32, n)
		for _, std := range []float32{1, 0.3, 1e-6, 12345.678} {
			for i := range src {
				src[i] = float32(rng.NormFloat64())
			}
			s.AddNormals(dst, src, std, 0, 0, 0)
			for i, got := range dst {
				wide := func(x float64) *big.Float { return new(big.Float).SetPrec(500).SetFloat64(x) }
				sum := wide(float64(std))
				sum.Mul(sum, wide(z[i])).Add(sum, wide(float64(src[i])))
				if want, _ := sum.Float32(); got != want {
					t.Fatalf("%v + %v·%v is %v, want %v", src[i], std, z[i], got, want)
				}
			}
		}
	})
}

func TestAddNormalsDependOnPositionOnly(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, c := range ciphers {
			s := newStream(t, c, KeyFromSeed(1, "split"))
			src := make([]float32, 5000)
			for i := range src {
				src[i] = rng.Float32()
			}
			whole := make([]float32, len(src))
			s.AddNormals(whole, src, 0.5, 3, 4, 0)
			for range 300 {
				lo := rng.IntN(len(src))
				hi := lo + rng.IntN(len(src)-lo+1)
				part := slices.Clone(src)
				s.AddNormals(part[lo:hi], part[lo:hi], 0.5, 3, 4, lo)
				if !slices.Equal(part[lo:hi], whole[lo:hi]) {
					t.Fatalf("%v: normals [%d,%d) added alone and in place differ", c, lo, hi)
				}
				if !slices.Equal(part[:lo], src[:lo]) || !slices.Equal(part[hi:], src[hi:]) {
					t.Fatalf("%v: elements beside [%d,%d) were written", c, lo, hi)
				}
			}

			split := make([]float32, len(src))
			var wg sync.WaitGroup
			for lo := 0; lo < len(split); lo += 617 {
				hi := min(lo+617, len(split))
				wg.Go(func() { s.AddNormals(split[lo:hi], src[lo:], 0.5, 3, 4, lo) })
			}
			wg.Wait()
			if !slices.Equal(split, whole) {
				t.Errorf("%v: a split over goroutines changes the values", c)
			}
		}
	})
}

func TestAddNormalsRange(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, c := range ciphers {
			s := newStream(t, c, KeyFromSeed(1, "range"))
			last, next := float32s(s, 3, 0, 0, MaxNormals-3), float32s(s, 3, 0, 1, 0)
			for _, v := range last {
				if v != v || slices.Contains(next, v) {
					t.Errorf("%v: the last numbers of a tensor are NaN or run into the next tensor", c)
				}
			}
			for _, first := range []int{-1, MaxNormals - 2, MaxNormals, math.MaxInt - 1} {
				for _, v := range float32s(s, 3, 0, 0, first) {
					if v == v {
						t.Errorf("%v: first = %d gave %v instead of NaN", c, first, v)
					}
				}
			}
		}
	})
}

func TestAddNormalsShortSource(t *testing.T) {
	s := newStream(t, AES256CTR, KeyFromSeed(1, "short"))
	dst := slices.Repeat([]float32{7}, chunk)
	defer func() {
		if recover() == nil {
			t.Error("a source that is one too short was accepted")
		}
		if !slices.Equal(dst, slices.Repeat([]float32{7}, chunk)) {
			t.Error("dst was written")
		}
	}()
	s.AddNormals(dst, make([]float32, chunk-1, chunk), 1, 0, 0, 0)
}

// The standard library's counter mode allocates; the kernels do not.
func TestAddNormalsDoesNotAllocate(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, c := range ciphers {
			s, dst := newStream(t, c, KeyFromSeed(1, "allocate")), make([]float32, 3001)
			if _, ok := s.key.(portableAES); ok {
				continue
			}
			if n := testing.AllocsPerRun(10, func() { s.AddNormals(dst, dst, 1, 0, 0, 1) }); n > 0 {
				t.Errorf("%v: %v allocations", c, n)
			}
		}
	})
}

// Each of the 2·(4+1) bounds is 6.5 standard deviations or, for
// Kolmogorov–Smirnov, 2·exp(-2·3.4²): at most 2e-10 false rejects each over the
// choice of the fixed key. The moments cover mean, variance, skewness and
// kurtosis.
func TestAddNormalsDistribution(t *testing.T) {
	const n = 1 << 22
	for _, c := range ciphers {
		x := float32s(newStream(t, c, KeyFromSeed(1, "distribution")), n, 1, 2, 0)
		var sums [4]float64
		for _, v := range x {
			p := 1.0
			for k := range sums {
				p *= float64(v)
				sums[k] += p
			}
		}
		for k, m := range []struct{ mean, variance float64 }{{0, 1}, {1, 2}, {0, 15}, {3, 96}} {
			if d := math.Abs(sums[k]/n - m.mean); d > 6.5*math.Sqrt(m.variance/n) {
				t.Errorf("%v: moment %d is off by %v", c, k+1, d)
			}
		}
		slices.Sort(x)
		ks := 0.0
		for i, v := range x {
			f := 0.5 * math.Erfc(-float64(v)/math.Sqrt2)
			ks = max(ks, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
		}
		if ks*math.Sqrt(n) > 3.4 {
			t.Errorf("%v: Kolmogorov–Smirnov distance %v", c, ks)
		}
	}
}

// 2²⁷ draws hold 76.9 beyond 5σ and 8502 beyond 4σ on average. A Poisson variable
// with these means leaves [35, 135] and [7900, 9110] with probability below 1e-6
// and 1e-10 over the choice of the fixed key.
func TestAddNormalsTail(t *testing.T) {
	s := newStream(t, AES256CTR, KeyFromSeed(1, "tail"))
	beyond4, beyond5 := 0, 0
	for step := range uint64(128) {
		for _, v := range float32s(s, 1<<20, step, 0, 0) {
			if v > 4 || v < -4 {
				beyond4++
				if v > 5 || v < -5 {
					beyond5++
				}
			}
		}
	}
	if beyond4 < 7900 || beyond4 > 9110 {
		t.Errorf("%d draws beyond 4σ, expected about 8502", beyond4)
	}
	if beyond5 < 35 || beyond5 > 135 {
		t.Errorf("%d draws beyond 5σ, expected about 77", beyond5)
	}
}

// See uncorrelated for the false-reject rate. The halves of a pair are one apart,
// and so are neighbours that are no pair.
func TestAddNormalsIndependence(t *testing.T) {
	const n = 1 << 20
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "independence"))
		x := make([]float64, 0, n)
		var even, odd []float64
		for i, v := range float32s(s, n, 1, 1, 0) {
			x = append(x, float64(v))
			if i%2 == 0 {
				even = append(even, float64(v))
			} else {
				odd = append(odd, float64(v))
			}
		}
		uncorrelated(t, fmt.Sprintf("%v: the two of a pair", c), even, odd)
		for _, lag := range []int{1, 2, 3, 8, 16, 17, 1024} {
			uncorrelated(t, fmt.Sprintf("%v: positions %d apart", c, lag), x[lag:], x[:n-lag])
		}
	}
}
