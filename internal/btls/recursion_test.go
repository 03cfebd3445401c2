package btls

import (
	"math"
	"math/rand/v2"
	"testing"
)

// logTail is ln H(t) from its definition; the logarithms far out come from an asymptotic series (Abramowitz and Stegun
// 7.1.23), whose error is below its last term.
func logTail(t float64) float64 {
	if t < 15 {
		return math.Log(math.Erfc(t/math.Sqrt2) / 2)
	}
	sum, term := 1.0, 1.0
	for k := 1.0; k < 12; k++ {
		term *= -(2*k - 1) / (t * t)
		sum += term
	}
	return logNormal(t) - math.Log(t) + math.Log(sum)
}

func TestMills(t *testing.T) {
	for x := -12.0; x < 60; x += 0.0625 {
		want := logTail(x) - logNormal(x)
		if got := math.Log(mills(x)); math.Abs(got-want) > rounding(x)+1e-15*x*x {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
	// Convergents of the continued fraction close in from both sides.
	for _, x := range []float64{6.0000001, 6.5, 8, 20} {
		convergent := func(n int) float64 {
			d := x
			for i := n; i >= 1; i-- {
				d = x + float64(i)/d
			}
			return 1 / d
		}
		if a, b := convergent(30), convergent(31); math.Abs(a-b) > 1e-15*a {
			t.Errorf("at %v the convergents differ by %v", x, a-b)
		}
	}
}

// Whatever t one tries, the certified gain is not exceeded; and it is attained.
func TestGainIsTheSupremum(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	orders := []float64{1.0001, 1.1, 1.5, 2, 3.3, 8, 32, 128, 512}
	for range 400 {
		q := newTail(orders[rng.IntN(len(orders))], math.Exp(6*rng.Float64()-4))
		logV := 0.0
		if rng.IntN(4) > 0 {
			logV = (q.alpha - 1) * (q.alpha*q.delta/2 + 5) * q.delta * rng.Float64()
		}
		gain := q.logGain(logV, new(float64))
		value := func(x float64) float64 { // ln(A−hV)
			h := logTail(x)
			a := q.alpha*h + (1-q.alpha)*logTail(x+q.delta)
			if h+logV >= a {
				return math.Inf(-1)
			}
			return a + math.Log(-math.Expm1(h+logV-a))
		}
		from, to, best := -12.0, q.alpha*q.delta+40, math.Inf(-1)
		for range 4 { // finer around the best so far
			at, step := from, (to-from)/2000
			for x := from; x <= to; x += step {
				if v := value(x); v > best {
					best, at = v, x
				}
			}
			from, to = at-2*step, at+2*step
		}
		// The logarithms of the test itself are good to t²·2⁻⁵².
		slack := 1e-13*q.alpha*(1+to*to) + 1e-12/(q.alpha-1)
		// Where max A stands in, it is known as well as the t where B = 0.
		if gain < best-slack || gain > best+1e-6+slack+1e-13*q.alpha*math.Abs(to*to*to)/q.delta {
			t.Errorf("order %v, δ %v, ln V %v: ln gain %.15g, found %.15g", q.alpha, q.delta, logV, gain, best)
		}
	}
}

// Chunks against single steps of the same gain: above, and by next to nothing.
func TestChunksAreUpperBounds(t *testing.T) {
	for _, alpha := range []float64{1.001, 1.2, 2, 5, 40, 300} {
		for _, delta := range []float64{0.01, 0.2, 1, 2} {
			q, logW, at := newTail(alpha, delta), math.Inf(-1), 0.0
			for k := 1; k <= 3000; k++ {
				logW = logAdd(logW, q.logGain(log1pExp(logW), &at))
				if k != 20 && k != 199 && k != 205 && k != 1000 && k != 3000 {
					continue
				}
				want, got := log1pExp(logW), q.logV(k)
				if got < want*(1-1e-9) || got > want*(1+3e-6) {
					t.Errorf("order %v, δ %v, K %d: ln V = %.15g, step by step %.15g", alpha, delta, k, got, want)
				}
			}
		}
	}
}

// A step of the recursion over a grid, which is below the supremum.
func TestRecursionAgainstAGrid(t *testing.T) {
	for _, alpha := range []float64{1.3, 2, 6} {
		for _, delta := range []float64{0.3, 1, 2} {
			v := 1.0
			for k := 1; k <= 30; k++ {
				best := 0.0
				for x := -10.0; x < alpha*delta+15; x += 1.0 / 256 {
					h := math.Exp(logTail(x))
					best = math.Max(best, math.Exp(alpha*logTail(x)+(1-alpha)*logTail(x+delta))+(1-h)*v)
				}
				v = best
				if got := newTail(alpha, delta).logV(k); got < math.Log(v) || got > math.Log(v)*(1+1e-4) {
					t.Fatalf("order %v, δ %v, K %d: ln V = %.15g, over a grid %.15g", alpha, delta, k, got, math.Log(v))
				}
			}
		}
	}
}

func BenchmarkGaussianRDP(b *testing.B) {
	s := Search{Threshold: 1.5, Query: 2, Trials: 100000}
	for b.Loop() {
		gaussianRDP(b, s, 8)
	}
}
