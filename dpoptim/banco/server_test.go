package banco

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// noisy is a report of density ∝ exp(−ε‖z‖/2G), of a Gamma radius in a uniform direction, without a gradient.
func noisy(r *rand.Rand, p Params) []float64 {
	v, norm, radius := make([]float64, p.dim), 0.0, 0.0
	for i := range v {
		v[i] = r.NormFloat64()
		norm += v[i] * v[i]
		radius += r.ExpFloat64() * p.RadiusScale()
	}
	for i := range v {
		v[i] *= radius / math.Sqrt(norm)
	}
	return v
}

func take(t *testing.T, s *Server, report []float64) {
	t.Helper()
	if err := s.Update(report); err != nil {
		t.Fatal(err)
	}
}

// Algorithm 1 written out, with the integral of line 4 by Simpson's rule in place of the closed form, and line 5
// with either sign: the points, and so the average, are those of the server, which has the plus.
func TestServerIsTheAlgorithm(t *testing.T) {
	p, _ := New(2, 1.5, 3)
	for _, sign := range []float64{1, -1} {
		r, s := rand.New(rand.NewPCG(1, 2)), NewServer(p)
		q, w, mean := make([]float64, 3), make([]float64, 3), make([]float64, 3)
		sum, squares := 0.0, 0.0
		const rounds = 60
		for n := 1; n <= rounds; n++ {
			g := noisy(r, p)
			g[0] -= 1.2 // a slope that the noise hides
			for i, x := range s.Point() {
				near(t, "a point", x, w[i], 1e-9)
				mean[i] += w[i] / rounds
			}
			take(t, s, g)

			negative := []float64{-g[0], -g[1], -g[2]}
			for i, x := range negative {
				sum += x * q[i]
				squares += x * x
			}
			m := simpson(p.BetLimit(), func(b float64) float64 {
				return b * math.Exp(b*sum-b*b*float64(n)*(p.DirectionVariance()/2+p.bound*p.bound))
			})
			norm := 0.0
			for i, x := range negative {
				q[i] += sign * x / math.Sqrt(squares)
				norm += q[i] * q[i]
			}
			for i := range q {
				q[i] *= min(1, 1/math.Sqrt(norm))
				w[i] = m * q[i]
			}
		}
		for i, x := range s.Average() {
			near(t, "the average", x, mean[i], 1e-9)
		}
		if s.Point()[0] <= 0 {
			t.Errorf("against a slope the point is at %v", s.Point())
		}
	}
}

// simpson is 1/(2a)·∫ f over [−a, a].
func simpson(a float64, f func(float64) float64) float64 {
	const n = 4000
	h, sum := 2*a/n, 0.0
	for i := range n + 1 {
		weight := float64(2 + 2*(i%2))
		if i == 0 || i == n {
			weight = 1
		}
		sum += weight * f(-a+float64(i)*h)
	}
	return sum * h / 3 / (2 * a)
}

// A server that goes on from a saved state, and one that was not stopped, are the same to the last bit; what is
// no state of these settings is refused.
func TestServerResumes(t *testing.T) {
	p, _ := New(1, 1, 4)
	r := rand.New(rand.NewPCG(3, 4))
	whole := NewServer(p)
	for i := range 200 {
		if i%50 == 0 {
			saved, err := whole.Save()
			if err != nil {
				t.Fatal(err)
			}
			next := NewServer(p)
			if err := next.Restore(saved); err != nil {
				t.Fatal(err)
			}
			report := noisy(r, p)
			take(t, next, report)
			take(t, whole, report)
			if !slices.Equal(whole.Point(), next.Point()) || !slices.Equal(whole.Average(), next.Average()) || next.Reports() != i+1 {
				t.Fatalf("after %d reports and a stop: %v, %v", i, next.Point(), whole.Point())
			}
			continue
		}
		take(t, whole, noisy(r, p))
	}
	other, _ := New(1, 1, 5)
	saved, _ := whole.Save()
	for name, state := range map[string]string{"5": string(saved), "unknown field": `{"key":1}`, "EOF": ""} {
		if err := NewServer(other).Restore([]byte(state)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is restored: %v, want %q", state, err, name)
		}
	}
}

// What no client sends changes nothing; whatever else is sent leaves points that fit into single precision.
func TestServerWithstands(t *testing.T) {
	p, _ := New(4, 1, 2)
	s := NewServer(p)
	take(t, s, []float64{1, 2})
	for _, bad := range [][]float64{{1}, {math.NaN(), 0}, {0, math.Inf(-1)}, {0x1p401, 0}} {
		before, _ := s.Save()
		if err := s.Update(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
		if after, _ := s.Save(); string(after) != string(before) {
			t.Errorf("%v was refused, and changed the server", bad)
		}
	}
	for range 3000 { // each wins: the bets grow as fast as they can
		take(t, s, []float64{-1e6, 0})
	}
	if w := s.Point()[0]; !(w > 1e34 && w < math.MaxFloat32) {
		t.Errorf("after 3000 won bets the point is at %v", w)
	}
	zero := NewServer(p)
	for range 3 {
		take(t, zero, []float64{0, 0})
	}
	if w := zero.Average(); w[0] != 0 || w[1] != 0 {
		t.Errorf("without a slope the average is %v", w)
	}
}

// Theorem 3's two regrets, on sequences that turn against the learner: that of directions is at most 3·√Σ‖ĝ‖²
// against every unit vector, and that of bets at most 1 + |v|·x with m(x) = |v| against every number v, also without
// an expectation. Reports a thousand times as long as the bound break the second one.
func TestRegrets(t *testing.T) {
	for name, slope := range map[string]func(i int, won float64) float64{
		"steady":    func(int, float64) float64 { return -1 },
		"turns":     func(i int, _ float64) float64 { return float64(1 - 2*(i/250%2)) },
		"too long":  func(_ int, bet float64) float64 { return 1000 * math.Copysign(1, bet) },
		"adversary": func(_ int, bet float64) float64 { return math.Copysign(1, bet) },
	} {
		p, _ := New(4, 1, 2)
		s := NewServer(p)
		const rounds = 2000
		var sum [2]float64
		lost, squares, bets, won := 0.0, 0.0, 0.0, 0.0
		for i := range rounds {
			q, m := slices.Clone(s.state.Direction), s.state.Magnitude
			g := []float64{slope(i, q[0]*m), 0.3 * math.Sin(float64(i))}
			norm := math.Hypot(g[0], g[1])
			inner := 0.0
			for k := range g {
				if name != "too long" {
					g[k] /= max(norm, 1)
				}
				sum[k] -= g[k]
				inner -= g[k] * q[k]
				squares += g[k] * g[k]
			}
			lost -= inner
			bets += inner * m
			won += inner
			take(t, s, g)
		}
		if regret := math.Hypot(sum[0], sum[1]) + lost; regret > 3*math.Sqrt(squares) {
			t.Errorf("%s: directions regret %v, allowed %v", name, regret, 3*math.Sqrt(squares))
		}
		worst := math.Inf(-1)
		for _, v := range []float64{-10, -0.1, 0, 0.1, 1, 10, 1e4} {
			allowed := 1 + math.Abs(v)*p.winning(math.Abs(v), rounds)
			worst = max(worst, v*won-bets-allowed)
		}
		if (worst > 0) != (name == "too long") {
			t.Errorf("%s: bets regret %v more than allowed", name, worst)
		}
	}
}

// The number that a bet is made at is the one that gives it; and the bound falls as √(ln(t)/t), and with the norm.
func TestExcess(t *testing.T) {
	for _, dim := range []int{1, 5, 100} {
		p, _ := New(2, 1, dim)
		for _, p := range []Params{p, p.OnSphere(), p.Printed()} {
			for _, bet := range []float64{1e-9, 0.1, 1, 1e6} {
				log, sign := p.LogMagnitude(p.winning(bet, 500), 500)
				near(t, "the bet", log, math.Log(bet), 1e-9)
				if sign != 1 {
					t.Errorf("a sign of %d", sign)
				}
			}
			near(t, "at zero", p.Excess(0, 100), 0.01, 1e-12)
			if more, less := p.Excess(1, 100), p.Excess(1, 10_000); !(less < more/8 && less > more/30) {
				t.Errorf("a bound of %v after 100 reports and %v after 10,000", more, less)
			}
			if p.Excess(2, 1000) < p.Excess(1, 1000) {
				t.Error("a farther point is nearer")
			}
		}
		if dim > 1 && p.Excess(1, 1000) > p.Printed().Excess(1, 1000) {
			t.Error("the larger variance has the smaller bound")
		}
	}
}
