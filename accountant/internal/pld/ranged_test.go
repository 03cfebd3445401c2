package pld

import (
	"math"
	"testing"
)

// rangedOnce is F₁ in closed form: (e^{ε/2} − e^{x/2})²/(e^ε−1) within [−ε, ε].
func rangedOnce(epsilon, x float64) float64 {
	switch {
	case x >= epsilon:
		return 0
	case x <= -epsilon:
		return 1 - math.Exp(x)
	}
	d := math.Exp(epsilon/2) - math.Exp(x/2)
	return d * d / math.Expm1(epsilon)
}

// rangedAgain is Fₖ by brute force over t, on a grid that is then made finer about the best.
func rangedAgain(epsilon, x float64, k int) float64 {
	if k == 1 {
		return rangedOnce(epsilon, x)
	}
	at := func(t float64) float64 {
		p := (math.Exp(epsilon) - math.Exp(t)) / math.Expm1(epsilon)
		return p*rangedAgain(epsilon, x-t, k-1) + (1-p)*rangedAgain(epsilon, x-t+epsilon, k-1)
	}
	best, where, width := 0.0, epsilon/2, epsilon
	for range 3 {
		low, high := math.Max(0, where-width/2), math.Min(epsilon, where+width/2)
		for i := range 41 {
			t := low + (high-low)*float64(i)/40
			if v := at(t); v > best {
				best, where = v, t
			}
		}
		width /= 10
	}
	return best
}

// The curve of up to three adaptive releases against brute force, by itself and as a pair.
func TestRanged(t *testing.T) {
	for _, epsilon := range []float64{0.1, 2} {
		for k := 1; k <= 3; k++ {
			l := newRanged(epsilon, k)
			step, curve := l.values()
			for _, share := range []float64{0, 0.3, 0.9} {
				i := int(share * epsilon * float64(k) / step)
				x := float64(i) * step
				want := rangedAgain(epsilon, x, k)
				// 41³ values of t miss the best by a relative 1e-9 at most.
				if curve[i] < want*(1-1e-8) || curve[i] > want+1e-6 {
					t.Errorf("ε %v, %d releases, at %v: δ %v, by brute force %v", epsilon, k, x, curve[i], want)
				}
				r, err := Delta([]Step{{[]Pair{Ranged(epsilon)}, 1, k, false}}, false, x)
				check(t, err)
				if r.Upper < want*(1-1e-8) || r.Upper > want+1e-6 || r.Lower > want*(1+1e-8) {
					t.Errorf("ε %v, %d releases, at %v: δ in %v, by brute force %v", epsilon, k, x, r, want)
				}
			}
		}
	}
}

// Among releases that do not adapt, one interval for all is known to be best: a lower end of
// what adapts, and near it.
func TestRangedOften(t *testing.T) {
	for _, test := range []struct {
		epsilon, delta float64
		count          int
	}{{0.0571, 1e-5, 49}, {0.2143, 1e-5, 49}, {0.04, 1e-8, 100}, {0.02, 1e-5, 1000}} {
		r, err := Epsilon([]Step{{[]Pair{Ranged(test.epsilon)}, 1, test.count, false}}, false, test.delta)
		check(t, err)
		least := 0.0 // over intervals, the exact ε
		for i := range 400 {
			l := newRanged(test.epsilon, test.count)
			all := l.withInterval(test.epsilon * (0.3 + 0.4*float64(i)/399))
			above := func(x float64) bool {
				delta := 0.0
				for _, s := range all {
					delta += s.mass * max(0, -math.Expm1(x-s.loss))
				}
				return delta > test.delta
			}
			if !above(least) {
				continue
			}
			low, high := least, test.epsilon*float64(test.count)
			for range 50 {
				if x := (low + high) / 2; above(x) {
					low = x
				} else {
					high = x
				}
			}
			least = high
		}
		if r.Lower > least*(1+1e-3) || r.Upper < least || r.Upper > least*1.025 {
			t.Errorf("%+v: ε in %v, without adapting %v", test, r, least)
		}
	}
}

// Other releases and sampling compose with them.
func TestRangedAmongOthers(t *testing.T) {
	if _, err := Epsilon([]Step{{[]Pair{Ranged(0.5), Gaussian(0.2)}, 0.1, 20, false}, {[]Pair{Ranged(0.3)}, 1, 4, false}, {[]Pair{Gaussian(0.5)}, 1, 3, false}}, false, 1e-6); err != nil {
		t.Error(err)
	}
	for _, e := range []float64{0.01, 1, 20} {
		tight, err := Epsilon([]Step{{[]Pair{Ranged(e)}, 1, 3, false}}, false, 1e-6)
		check(t, err)
		pure, err := Epsilon([]Step{{[]Pair{Pure(e)}, 1, 3, false}}, false, 1e-6)
		if err != nil || tight.Upper > pure.Upper {
			t.Errorf("three of range %v: ε in %v, of pure ones %v (%v)", e, tight, pure, err)
		}
	}
}
