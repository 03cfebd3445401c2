package pld

import (
	"fmt"
	"math"
	"testing"
)

func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

var rates = []float64{0.001, 0.01, 0.05, 0.3, 0.9}

// powers also checks that the ends hold what they must, and are near.
func powers(t *testing.T, steps []Step, replaceOne bool) (Interval, []Interval) {
	t.Helper()
	advantage, p, err := Power(steps, replaceOne, rates)
	check(t, err)
	for i, r := range append(p, advantage) {
		if !(0 <= r.Lower && r.Lower <= r.Upper && r.Upper <= 1 && r.Upper-r.Lower <= 5e-3*r.Upper) {
			t.Errorf("%v: ends %v", steps, r)
		}
		if i < len(rates) && !(r.Upper >= rates[i] && r.Upper <= rates[i]+advantage.Upper) {
			t.Errorf("%v at %v: %v, the advantage is %v", steps, rates[i], r, advantage)
		}
	}
	return advantage, p
}

// within fails unless the ends bracket a value that is known to 1e-9.
func within(t *testing.T, what string, r Interval, want float64) {
	t.Helper()
	if !(r.Lower <= want*(1+1e-9) && r.Upper >= want*(1-1e-9)) {
		t.Errorf("%s: %v does not hold %v", what, r, want)
	}
}

// One Gaussian in closed form, 1−Φ(Φ⁻¹(1−α)−μ) (Dong, Roth and Su 2022, section 2.2): alone, and by
// the grid, which a second release that gives nothing away asks for.
func TestPowerOfGaussian(t *testing.T) {
	for _, mu := range []float64{0.01, 0.5, 1, 3, 6} {
		nothing := Step{[]Pair{Pure(1e-12)}, 1, 1, false}
		for _, steps := range [][]Step{{sampled(mu/2, 1, 4)}, {sampled(mu/2, 1, 4), nothing}} {
			advantage, p := powers(t, steps, false)
			within(t, fmt.Sprint("advantage at ", mu), advantage, 2*normal(mu/2)-1)
			for i, a := range rates {
				within(t, fmt.Sprint(mu, a), p[i], normal(mu-math.Sqrt2*math.Erfcinv(2*a)))
			}
			twice, _ := powers(t, steps, true)
			within(t, fmt.Sprint("replace-one at ", mu), twice, 2*normal(mu)-1)
		}
	}
}

// Randomised response tells neighbors apart at two rates, and mixtures of them.
func TestPowerOfPure(t *testing.T) {
	for _, e := range []float64{0.01, 1, 4} {
		advantage, p := powers(t, []Step{{[]Pair{Pure(e)}, 1, 1, false}}, false)
		within(t, "advantage", advantage, math.Tanh(e/2))
		for i, a := range rates {
			within(t, fmt.Sprint(e, a), p[i], min(math.Exp(e)*a, 1-math.Exp(-e)*(1-a)))
		}
	}
}

// One sampled Gaussian by the likelihood ratio's own threshold: large outputs speak for the
// record's presence, small ones against it.
func TestPowerOfSampledGaussian(t *testing.T) {
	for _, c := range []struct{ q, mu float64 }{{0.01, 1}, {0.3, 0.5}, {0.5, 1}, {0.9, 2}} {
		with := func(z float64) float64 { return (1-c.q)*normal(z) + c.q*normal(z-c.mu) }
		advantage, p := powers(t, []Step{sampled(c.mu, c.q, 1)}, false)
		within(t, fmt.Sprint("advantage of ", c), advantage, c.q*(2*normal(c.mu/2)-1))
		for i, a := range rates {
			z := math.Sqrt2 * math.Erfcinv(2*a)
			low, high := -50.0, 50.0 // with(low) < a < with(high)
			for range 100 {
				if mid := (low + high) / 2; with(mid) < a {
					low = mid
				} else {
					high = mid
				}
			}
			within(t, fmt.Sprint(c, a), p[i], max(1-with(z), normal(low)))
		}
	}
}

// More is asked, and an attack is no worse: more steps, a larger rate, less noise, two kinds,
// and both neighbors' records.
func TestPowerGrows(t *testing.T) {
	last, lasts := powers(t, []Step{sampled(0.7, 0.02, 500)}, false)
	for _, c := range []struct {
		steps      []Step
		replaceOne bool
	}{
		{[]Step{sampled(0.7, 0.02, 600)}, false},
		{[]Step{sampled(0.7, 0.025, 600)}, false},
		{[]Step{sampled(0.9, 0.025, 600)}, false},
		{[]Step{sampled(0.9, 0.025, 600), sampled(0.3, 1, 1)}, false},
		{[]Step{sampled(0.9, 0.025, 600), sampled(0.3, 1, 1)}, true},
	} {
		advantage, p := powers(t, c.steps, c.replaceOne)
		grew := advantage.Lower > last.Upper
		for i := range p {
			grew = grew && p[i].Lower > lasts[i].Upper
		}
		if !grew {
			t.Errorf("%v, replace-one %v: %v, %v, after %v, %v", c.steps, c.replaceOne, advantage, p, last, lasts)
		}
		last, lasts = advantage, p
	}
}

// A schedule of ε = 3 at δ = 1e-5: from the hockey-stick curves of dp_accounting 0.6.0, which are
// too high as well, by less than 1e-3 of them at its spacing of 1e-4.
func TestPowerGolden(t *testing.T) {
	advantage, p := powers(t, []Step{sampled(1/1.0916, 0.01707, 1171)}, false)
	for i, r := range append([]Interval{advantage}, p[:3]...) {
		want := []float64{0.25669, 0.0083042, 0.0501783, 0.1656074}[i]
		if !(math.Abs(r.Upper-want) <= 1e-3*want && r.Lower <= want) {
			t.Errorf("%v, want %v", r, want)
		}
	}
	if _, _, err := Power([]Step{sampled(1, 1, 1)}, false, []float64{0}); err == nil {
		t.Error("a test without false positives was asked for")
	}
}

// Where ε is near 0 it is still told apart from 0, and from more (steps of one schedule).
func TestTinyEpsilons(t *testing.T) {
	last := 0.0
	for _, steps := range []int{58, 117, 234, 468, 1171} {
		r, err := Epsilon([]Step{sampled(1/6548.8, 0.01707, steps)}, false, 1e-5)
		if err != nil || r.Upper < last || r.Upper-r.Lower > 0.1*r.Upper {
			t.Errorf("%d steps: %v after %v, %v", steps, r, last, err)
		}
		last = r.Upper
	}
}
