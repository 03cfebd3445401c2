package pld

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// tinyRates are schedules with few participations of a record each: rate, noise multiplier, steps,
// δ, and the pessimistic ε of another implementation (scripts/make_tiny_rates.py).
func tinyRates(t *testing.T) (cases [][5]float64) {
	t.Helper()
	b, err := os.ReadFile("testdata/tiny_rates.json")
	if err == nil {
		err = json.Unmarshal(b, &cases)
	}
	if err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	return cases
}

// checkTiny allows the upper end 1% above the other implementation. Its transforms round, after 10⁶ steps to
// up to 0.15% of ε on the wrong side.
func checkTiny(t *testing.T, v [5]float64) {
	t.Helper()
	r, err := Epsilon([]Step{sampled(1/v[1], v[0], int(v[2]))}, false, v[3])
	if err != nil || !(r.Lower <= 1.002*v[4] && r.Upper <= 1.01*v[4] && r.Lower > 0) {
		t.Errorf("%v: %v, %v", v, r, err)
	}
}

func TestTinyRates(t *testing.T) {
	for i, v := range tinyRates(t) {
		if i%8 == 0 && v[2] < 1e6 {
			checkTiny(t, v)
		}
	}
}

func TestLongTinyRates(t *testing.T) {
	for _, v := range tinyRates(t) {
		checkTiny(t, v)
	}
}

// A grid for losses of which the most are far below its spacing and few, far above it, decide. The
// other implementation's pessimistic ε is 0.566017.
func TestRareLosses(t *testing.T) {
	r, err := Epsilon([]Step{sampled(2, 1e-6, 1e6)}, false, 1e-9)
	if err != nil || !(r.Upper <= 0.566017 && r.Upper-r.Lower < 1e-3*r.Upper) {
		t.Error(r, err)
	}
}

// falls checks that ε falls along a list of steps, and that neither end leaves the other.
func falls(t *testing.T, what string, delta float64, steps []Step) {
	t.Helper()
	last := Interval{math.Inf(1), math.Inf(1)}
	for i, s := range steps {
		r, err := Epsilon([]Step{s}, false, delta)
		if err != nil || !(r.Upper < last.Upper && r.Upper-r.Lower < 0.01*r.Upper) {
			t.Errorf("%s, step %d: %v after %v, %v", what, i, r, last, err)
		}
		last = r
	}
}

func TestTinyRatesAreMonotone(t *testing.T) {
	var noise, rate, count []Step
	for i := range 7 {
		x := math.Pow(1.04, float64(i))
		noise = append(noise, sampled(1/(0.9*x), 1e-5, 30000))
		rate = append(rate, sampled(1, 1e-5/x, 30000))
		count = append(count, sampled(1, 1e-5, int(30000/x)))
	}
	falls(t, "noise", 1e-8, noise)
	falls(t, "rate", 1e-8, rate)
	falls(t, "count", 1e-8, count)
}

// Noise so large that losses are all but normal, for which the rate times μ√T is the distance.
func TestHugeNoise(t *testing.T) {
	for _, replaceOne := range []bool{false, true} {
		for _, subsets := range []bool{false, true} {
			if subsets && !replaceOne {
				continue
			}
			last := math.Inf(1)
			for e := 6.0; e < 14; e += 0.5 {
				sigma := math.Pow(10, e)
				steps := []Step{{[]Pair{Gaussian(1 / sigma)}, 0.5, 1000, subsets}}
				r, err := Epsilon(steps, replaceOne, 1e-20)
				mu := 0.5 * math.Sqrt(1000) / sigma
				if replaceOne {
					mu *= 2
				}
				want := gaussianEpsilon(mu, 1e-20)
				if err != nil || !(r.Lower <= want*1.002 && r.Upper >= want*0.999 && r.Upper <= 1.003*want && r.Upper <= last) {
					t.Errorf("noise %g, replace-one %v, subsets %v: %v, want about %v below %v; %v", sigma, replaceOne, subsets, r, want, last, err)
				}
				last = r.Upper
			}
		}
	}
}

// A closed form that is shifted far below a loss of 0 says that it knows nothing, not NaN.
func TestShiftedFarBelow(t *testing.T) {
	for _, c := range []struct {
		q, sigma float64
		count    int
	}{{0.2, 30.1, 10}, {0.12, 60, 100}, {0.15, 68.2, 100}} {
		steps := []Step{sampled(1/c.sigma, c.q, c.count)}
		for _, epsilon := range []float64{0, 0.001} {
			d, err := Delta(steps, false, epsilon)
			if err != nil || !(d.Lower > 0 && d.Upper >= d.Lower && d.Upper < 1.05*d.Lower) {
				t.Errorf("%v, epsilon %v: delta %v, %v", c, epsilon, d, err)
			}
		}
		a, power, err := Power(steps, false, []float64{0.01})
		if err != nil || !(a.Lower > 0 && a.Upper < 1.05*a.Lower && power[0].Lower > 0.01 && power[0].Upper < 1.05*power[0].Lower) {
			t.Errorf("%v: advantage %v, power %v, %v", c, a, power, err)
		}
	}
}

// Noise beyond all numbers of a grid costs next to nothing, whatever the steps.
func TestBoundlessNoise(t *testing.T) {
	for _, noise := range []float64{1e16, 1e300} {
		steps := []Step{{[]Pair{Gaussian(1 / noise)}, 0.5, 2, false}}
		epsilon, err := Epsilon(steps, false, 1e-5)
		if err != nil || !(epsilon.Upper >= 0 && epsilon.Upper < 1e-12) {
			t.Errorf("noise %g: ε in %v; %v", noise, epsilon, err)
		}
		delta, err := Delta(steps, false, 1e-3)
		if err != nil || !(delta.Upper >= 0 && delta.Upper < 1e-12) {
			t.Errorf("noise %g: δ in %v; %v", noise, delta, err)
		}
		advantage, power, err := Power(steps, false, []float64{0.01})
		if err != nil || !(advantage.Upper < 1e-12 && power[0].Upper >= 0.01 && power[0].Upper < 0.01+1e-12) {
			t.Errorf("noise %g: advantage in %v, power in %v; %v", noise, advantage, power, err)
		}
	}
}

// Where few steps and a small δ meet, there is still an ε.
func TestSmallDeltaOfFewSteps(t *testing.T) {
	for _, c := range []struct {
		q, sigma, delta float64
		count           int
	}{{2.72e-5, 1.06, 1.88e-14, 39}, {2.92e-6, 0.57, 1.18e-14, 105}, {1.85e-6, 0.723, 4.22e-14, 4}, {7.7e-6, 0.7, 2.71e-14, 6}} {
		r, err := Epsilon([]Step{sampled(1/c.sigma, c.q, c.count)}, false, c.delta)
		if err != nil || math.IsInf(r.Upper, 1) {
			t.Errorf("%v: %v, %v", c, r, err)
		}
	}
}

// Cells are counted while they are cut.
func TestCellsAreBounded(t *testing.T) {
	for _, l := range []law{gaussian{mu: 1, q: 0.5}, gaussian{mu: 1, q: 0.1, twoSided: true}, laplace(1), subset{gaussian{mu: 1, q: 0.5, twoSided: true}}} {
		upper, lower, _ := l.cut(plan{1e-9, 1e-20, [][]float64{{0, 1e9}}}, remove)
		if most := 2*maxCells + 10; len(upper.list) > 2*most || len(lower.list) > 2*most {
			t.Errorf("%s: %d and %d cells", l.key(), len(upper.list), len(lower.list))
		}
	}
	c, err := prepare([]Step{sampled(1, 0.5, 10)}, false)
	check(t, err)
	c.spacingAt(1e-8)
	c.tilts = [directions]float64{1e9, 1e9}
	c.setSpacing(1e-12)
	if err := c.discretise(); err == nil {
		t.Error("an endless grid was cut")
	}
}

// The expansion of a characteristic function is the function.
func TestExpansion(t *testing.T) {
	index, mass := []int{-7, -2, -1, 0, 1, 2, 3, 40}, []float64{0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.04, 0.01}
	const n = 64
	for k := range n / 2 {
		var direct, z complex128
		angle := func(j int) complex128 {
			sin, cos := math.Sincos(-2 * math.Pi * float64(k) / n * float64(j))
			return complex(cos, sin)
		}
		for i, j := range index {
			direct += complex(mass[i], 0) * angle(j)
		}
		e := expand(index, mass, func(j int, v float64) { z += complex(v, 0) * angle(j) })
		less, err := e.at(turn(k, n), z, 1e-15*e.spread)
		d := less - (direct - 1)
		if off := math.Hypot(real(d), imag(d)); !(off <= err+1e-15) || err > 1e-11 {
			t.Errorf("frequency %d: off by %v, bound %v", k, off, err)
		}
		p := exponential(1e4, less/1e4)
		want := power(1+less/1e4, 1e4)
		if d := fmt.Sprintf("%.9g", p); d != fmt.Sprintf("%.9g", want) {
			t.Errorf("frequency %d: power %v, want %v", k, p, want)
		}
	}
}

// No two records in the plane, one in the place of the other, are further apart than opposite ones
// of full norm (docs/proofs/replace-one.md).
func TestReplacedRecords(t *testing.T) {
	const mu, h, reach = 1.3, 0.05, 8
	r := rand.New(rand.NewPCG(1, 2))
	square := func(x float64) float64 { return x * x }
	curve := func(q, gamma float64, v, w [2]float64) (sum float64) {
		for x := -reach - mu; x < reach+mu; x += h {
			for y := -reach - mu; y < reach+mu; y += h {
				at := func(c [2]float64) float64 { return math.Exp(-(square(x-c[0]) + square(y-c[1])) / 2) }
				sum += max(0, (1-q)*(1-gamma)*at([2]float64{})+q*at(v)-gamma*q*at(w))
			}
		}
		return sum * h * h / (2 * math.Pi)
	}
	record := func() [2]float64 {
		sin, cos := math.Sincos(2 * math.Pi * r.Float64())
		size := mu * math.Min(1, 1.5*r.Float64())
		return [2]float64{size * cos, size * sin}
	}
	for range 12 {
		q, gamma := r.Float64(), math.Exp(1.5*r.NormFloat64())
		worst := curve(q, gamma, [2]float64{mu, 0}, [2]float64{-mu, 0})
		if got := curve(q, gamma, record(), record()); got > worst+2e-4 {
			t.Errorf("rate %v, gamma %v: %v above %v", q, gamma, got, worst)
		}
	}
}

// 130 random kinds of steps are composed as they are, against another implementation's pessimistic ε.
func TestManyKinds(t *testing.T) {
	var v struct {
		Delta, Epsilon float64
		Kinds          [][3]float64 // rate, noise multiplier, steps
	}
	b, err := os.ReadFile("testdata/many_kinds.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || len(v.Kinds) <= 100 {
		t.Fatal(len(v.Kinds), err)
	}
	var steps []Step
	for _, k := range v.Kinds {
		steps = append(steps, sampled(1/k[1], k[0], int(k[2])))
	}
	near(t, "130 kinds", epsilon(t, steps, false, v.Delta), v.Epsilon)
}

// More steps cost no less, also where they begin to be raised by an expansion.
func TestMoreStepsCostNoLess(t *testing.T) {
	last := 0.0
	for _, count := range []int{1, manySteps - 1, manySteps, 1000} {
		r, err := Epsilon([]Step{sampled(1/0.6, 1e-5, count)}, false, 1e-9)
		if err != nil || r.Upper < last {
			t.Errorf("%d steps cost %v, fewer cost %v: %v", count, r, last, err)
		}
		last = r.Upper
	}
}
