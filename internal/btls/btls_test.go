package btls

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func mu(t testing.TB, s Search) float64 {
	t.Helper()
	m, err := s.Mu()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func gaussianRDP(t testing.TB, s Search, alpha float64) float64 {
	t.Helper()
	r, err := s.GaussianRDP(alpha)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMuOfTheExample(t *testing.T) {
	s := Search{Threshold: 1.2, Query: 1.7, Trials: 20}
	if m := mu(t, s); math.Round(m*m*100) != 692 {
		t.Errorf("generic: μ² = %v, want 6.92", m*m)
	}
	s.Shared = true
	if m := mu(t, s); math.Round(m*m*100) != 190 {
		t.Errorf("shared: μ² = %v, want 1.90", m*m)
	}
}

// distance is the squared Mahalanobis distance of a move d under the covariance
// s₂²I+s₁²11ᵀ, solved by Gaussian elimination.
func distance(s Search, d []float64) float64 {
	n := len(d)
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n+1)
		for j := range n {
			m[i][j] = s.Threshold * s.Threshold
		}
		m[i][i] += s.Query * s.Query
		m[i][n] = d[i]
	}
	for c := range n {
		for r := range n {
			if f := m[r][c] / m[c][c]; r != c {
				for j := c; j <= n; j++ {
					m[r][j] -= f * m[c][j]
				}
			}
		}
	}
	sum := 0.0
	for i := range d {
		sum += d[i] * m[i][n] / m[i][i]
	}
	return sum
}

// Mu² is the largest distance over the moves that one record can cause: the
// corners of the sets, all of them tried, and no point inside exceeds it.
func TestMuIsTheWorstMove(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, scales := range [][2]float64{{1, 1}, {1.2, 1.7}, {0.3, 2}, {4, 0.5}, {2, 0.01}, {0.02, 1}, {1, math.Sqrt2}} {
		for k := 1; k <= 9; k++ {
			s := Search{Threshold: scales[0], Query: scales[1], Trials: k}
			for _, s.Shared = range []bool{false, true} {
				m, worst := mu(t, s), 0.0
				d := make([]float64, k)
				for corner := range 1 << k {
					for i := range d {
						d[i] = float64(corner >> i & 1)
						if !s.Shared {
							d[i] = 2*d[i] - 1
						}
					}
					worst = math.Max(worst, distance(s, d))
				}
				// The elimination loses as much as the condition says.
				slack := 1e-15 * (10 + 30*float64(k-1)*(1+float64(k)*math.Pow(s.Threshold/s.Query, 2)))
				if !(m*m >= worst*(1-slack) && m*m <= worst*(1+slack+1e-13)) {
					t.Errorf("%+v: μ² = %.15g, the worst move has %.15g", s, m*m, worst)
				}
				for range 20 {
					if x := distance(s, records(rng, s, 1)); x > m*m*(1+slack) {
						t.Errorf("%+v: a move has %v, μ² = %v", s, x, m*m)
					}
				}
			}
		}
	}
}

// records is what a random record does to the queries when it is added or
// removed, or, for n = 2, when it is exchanged for another.
func records(rng *rand.Rand, s Search, n int) []float64 {
	d := make([]float64, s.Trials)
	sign := 1.0
	if rng.IntN(2) == 0 {
		sign = -1
	}
	value := func() float64 { return min(1, max(0, 2*rng.Float64()-0.5)) } // of f, often at an end
	for range n {
		base := value()
		for i := range d {
			if s.Shared {
				d[i] += sign * (base - value())
			} else {
				d[i] += sign * (2*value() - 1)
			}
		}
		sign = -sign
	}
	return d
}

// What an exchanged record does to the queries is, halved, what an added or
// removed one can do.
func TestReplaceOneIsTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		s := Search{Threshold: 1, Query: 1, Trials: 1 + rng.IntN(8), Shared: rng.IntN(2) == 0}
		for n := 1; n <= 2; n++ {
			low, high := 0.0, 0.0
			for _, x := range records(rng, s, n) {
				low, high = math.Min(low, x), math.Max(high, x)
			}
			if most := s.reach() * float64(n); high-low > most+1e-12 || math.Max(high, -low) > float64(n)+1e-12 {
				t.Fatalf("%d records, shared %v: moves from %v to %v", n, s.Shared, low, high)
			}
		}
	}
	s := Search{Threshold: 3, Query: 5, Trials: 7, Shared: true}
	if got, want := s.Scaled(2), (Search{Threshold: 1.5, Query: 2.5, Trials: 7, Shared: true}); got != want {
		t.Errorf("Scaled(2): %+v, want %+v", got, want)
	}
	within(t, "μ", mu(t, s.Scaled(2)), 2*mu(t, s), 1e-13)
	within(t, "ε", s.Scaled(2).LaplacePure(), 2*s.LaplacePure(), 1e-13)
}

func TestCalibrate(t *testing.T) {
	for _, target := range []float64{1e-6, 0.05, 0.3, 1, 7, 1e4} {
		for _, k := range []int{1, 2, 3, 4, 5, 19, 20, 21, 300, 4097, 100000, math.MaxInt >> 23} {
			for _, shared := range []bool{false, true} {
				s, err := Calibrate(target, k, shared)
				if err != nil {
					t.Fatal(err)
				}
				m := mu(t, s)
				if !(m <= target && m >= target*(1-1e-9)) {
					t.Errorf("μ %v, K %d, shared %v: got %v", target, k, shared, m)
				}
				n := float64(k)
				variance := s.Threshold*s.Threshold + s.Query*s.Query
				if shared {
					// s₂² = (K+√K)/(4μ²), s₁² = s₂²/√K, but that m is an integer.
					within(t, "ratio", s.Query*s.Query/(s.Threshold*s.Threshold), math.Sqrt(n), 1e-9)
					formula := (n + math.Sqrt(n)) / (4 * target * target)
					if got := s.Query * s.Query; !(got <= formula*(1+1e-9) && got >= formula*(1-1/(n+math.Sqrt(n)))) {
						t.Errorf("K %d: s₂² = %v, formula %v", k, got, formula)
					}
				} else {
					within(t, "variance", variance, n/(target*target), 2e-6)
				}
			}
		}
	}
}

// No other ratio of scales has the same μ at a notably lower variance: for a
// shared baseline the integer m leaves up to a share of 1/K or so.
func TestCalibrateIsLeast(t *testing.T) {
	for _, k := range []int{1, 2, 3, 5, 8, 20, 21, 500} {
		for _, shared := range []bool{false, true} {
			s, err := Calibrate(1, k, shared)
			if err != nil {
				t.Fatal(err)
			}
			variance := s.Threshold*s.Threshold + s.Query*s.Query
			slack := 2e-6
			if shared {
				slack = 0.3 / float64(k)
			}
			for x := -8.0; x <= 20; x += 0.125 {
				other := Search{Threshold: math.Exp2(-x / 2), Query: 1, Trials: k, Shared: shared}
				other = other.Scaled(1 / mu(t, other))
				if v := other.Threshold*other.Threshold + other.Query*other.Query; v < variance*(1-slack) {
					t.Errorf("K %d, shared %v: variance %v at ratio 2^%v, calibrated %v", k, shared, v, x, variance)
				}
			}
		}
	}
}

// More noise costs less, more trials cost more. The chords of the recursion,
// whose places depend on K, leave a millionth.
func TestMonotone(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, scale := range []float64{0.5, 1, 3, 20} {
			for _, alpha := range []float64{1.01, 1.5, 2, 8, 64, 512} {
				last, lastPure := 0.0, 0.0
				for _, k := range []int{1, 2, 3, 4, 7, 20, 150, 201, 202, 500, 5000, 100000} {
					s := Search{Threshold: scale, Query: 1.4 * scale, Trials: k, Shared: shared}
					r := gaussianRDP(t, s, alpha)
					if r < last*(1-1e-9) {
						t.Errorf("%+v, order %v: %v is below %v with fewer trials", s, alpha, r, last)
					}
					last = r
					for _, more := range []Search{
						{s.Threshold * 1.01, s.Query, k, shared}, {s.Threshold, s.Query * 1.01, k, shared}, s.Scaled(1 / 1.001),
					} {
						if x := gaussianRDP(t, more, alpha); x > r*(1+1e-6) {
							t.Errorf("%+v, order %v: %v, and %v with more noise", s, alpha, r, x)
						}
						if x, y := more.LaplaceRDP(alpha), s.LaplaceRDP(alpha); x > y {
							t.Errorf("%+v, order %v: Laplace %v, and %v with more noise", s, alpha, y, x)
						}
						if more.LaplacePure() > s.LaplacePure() {
							t.Errorf("%+v: pure ε grows with noise", s)
						}
					}
					if pure := s.LaplaceRDP(alpha); lastPure != 0 && pure != lastPure {
						t.Errorf("%+v: Laplace noise depends on the trials", s)
					} else {
						lastPure = pure
					}
				}
			}
		}
	}
}

func TestLeastBound(t *testing.T) {
	seen := map[string]int{}
	for _, k := range []int{1, 20, 300, 100000} {
		for _, scale := range []float64{0.02, 1, 5, 100} {
			for _, alpha := range []float64{1.1, 2, 30, 512, 1 << 20} {
				s := Search{Threshold: scale, Query: scale, Trials: k}
				m := mu(t, s)
				all := map[string]float64{"gdp": alpha / 2 * m * m, "recursion": s.recursionRDP(alpha), "union": s.unionRDP(alpha)}
				least := "gdp"
				for name, x := range all {
					if x < all[least]*(1-1e-13) {
						least = name
					}
				}
				seen[least]++
				within(t, "bound "+least, gaussianRDP(t, s, alpha), all[least], 1e-13)
			}
		}
	}
	if seen["gdp"] == 0 || seen["recursion"] == 0 {
		t.Errorf("bounds seen: %v", seen)
	}
}

// The Laplace bounds against their definitions, at orders and ε where these do
// not cancel, and their limits where they do.
func TestLaplaceForms(t *testing.T) {
	for _, eps := range []float64{0.01, 0.3, 1, 4, 30} {
		for _, a := range []float64{1.1, 1.5, 2, 5, 20} {
			mironov := math.Log(a/(2*a-1)*math.Exp((a-1)*eps)+(a-1)/(2*a-1)*math.Exp(-a*eps)) / (a - 1)
			within(t, "Mironov", laplaceRDP(eps, a), mironov, 1e-9)
			response := math.Log((math.Exp(a*eps)+math.Exp((1-a)*eps))/(1+math.Exp(eps))) / (a - 1)
			within(t, "response", pureRDP(eps, a), response, 1e-9)
			if p := pureRDP(eps, a); p > a*eps*eps/2 || p > eps {
				t.Errorf("ε %v, order %v: %v is above ε or αε²/2", eps, a, p)
			}
		}
		within(t, "high order", pureRDP(eps, 1e6), eps, 2e-4)
	}
	for _, a := range []float64{1.1, 2, 30} {
		const eps = 1e-5
		within(t, "small ε, Laplace", laplaceRDP(eps, a), a*eps*eps/2, 1e-3)
		within(t, "small ε, response", pureRDP(eps, a), a*eps*eps/2, 1e-3)
		for _, tiny := range []float64{1e-9, 1e-12, 1e-200} {
			if r := laplaceRDP(tiny, a); !(r >= a*tiny*tiny/2*(1-1e-6) && r < 1e-15*tiny*2*a+a*tiny*tiny) {
				t.Errorf("ε %v, order %v: %v", tiny, a, r)
			}
		}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, s := range []Search{{}, {Threshold: -1, Query: 1}, {Threshold: 1, Query: nan}} {
		if r := s.LaplaceRDP(2); s.LaplacePure() != inf || r != inf {
			t.Errorf("%+v has a bound", s)
		}
	}
	for _, a := range []float64{1, 0.5, nan, inf} {
		if r := (Search{Threshold: 1, Query: 1}).LaplaceRDP(a); r != inf {
			t.Errorf("order %v: %v", a, r)
		}
	}
}

func TestRefusals(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		s    Search
		want string
	}{
		{Search{0, 1, 5, true}, "threshold scale 0"},
		{Search{inf, 1, 5, true}, "threshold scale +Inf"},
		{Search{1, nan, 5, false}, "query scale NaN"},
		{Search{1, -2, 5, false}, "query scale -2"},
		{Search{1, 1, -1, false}, "trials -1"},
		{Search{1, 1, 0, true}, "trials 0"},
	} {
		_, err := c.s.Mu()
		_, err2 := c.s.GaussianRDP(2)
		for _, e := range []error{err, err2} {
			if e == nil || !strings.Contains(e.Error(), c.want) {
				t.Errorf("%+v: error %v, want one about %q", c.s, e, c.want)
			}
		}
	}
	for _, a := range []float64{1, 0, nan, inf, 1<<20 + 1} {
		if _, err := (Search{1, 1, 5, true}).GaussianRDP(a); err == nil || !strings.Contains(err.Error(), fmt.Sprint("order ", a)) {
			t.Errorf("order %v: error %v", a, err)
		}
	}
	for _, m := range []float64{0, -1, nan, inf, 1e-320} {
		if s, err := Calibrate(m, 5, true); err == nil {
			t.Errorf("μ %v: %+v", m, s)
		}
	}
	if _, err := Calibrate(1, 0, true); err == nil {
		t.Error("0 trials were calibrated")
	}
}
