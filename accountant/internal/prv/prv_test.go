package prv

import (
	"math"
	"strings"
	"testing"
)

func gaussian(rate, sigma float64, count int) Step {
	return Step{GaussianNoise, 1 / sigma, rate, count}
}

func laplace(rate, size float64, count int) Step {
	return Step{LaplaceNoise, size, rate, count}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func epsilon(t testing.TB, steps []Step, replaceOne bool, delta float64) Result {
	t.Helper()
	r, err := Epsilon(steps, replaceOne, delta)
	check(t, err)
	if !(0 <= r.Lower && r.Lower <= r.Estimate && r.Estimate <= r.Upper) {
		t.Errorf("%+v at delta %g: not in order", r, delta)
	}
	return r
}

func delta(t testing.TB, steps []Step, replaceOne bool, epsilon float64) Result {
	t.Helper()
	r, err := Delta(steps, replaceOne, epsilon)
	check(t, err)
	if !(0 <= r.Lower && r.Lower <= r.Estimate && r.Estimate <= r.Upper && r.Upper <= 1) {
		t.Errorf("%+v at epsilon %g: not in order", r, epsilon)
	}
	return r
}

// holds fails unless the exact value is in the interval, and the interval no
// wider than so many parts of it.
func holds(t testing.TB, what string, r Result, exact, width float64) {
	t.Helper()
	if !(r.Lower <= exact && exact <= r.Upper) {
		t.Errorf("%s: %v is not in [%v, %v]", what, exact, r.Lower, r.Upper)
	}
	if r.Upper-r.Lower > width*exact {
		t.Errorf("%s: [%v, %v] is wider than %g of %v", what, r.Lower, r.Upper, width, exact)
	}
}

// Other programs' values under add-remove: pld is dp_accounting's pessimistic
// one on a grid of 1e-4, never below the exact value and above it by less than
// a part in 5000 here; lower and upper are prv_accountant's interval.
type example struct {
	q, sigma          float64
	steps             int
	delta             float64
	pld, lower, upper float64
}

var golden = []example{
	{0.01, 1.0, 1000, 1e-05, 1.8282436462208398, 1.8231054298155827, 1.8333694348315195},
	{0.004266666666666667, 1.1, 14062, 1e-05, 2.381685996410371, 2.376453549466068, 2.3867417462958844},
	{0.04, 1.5, 2250, 1e-05, 6.768787374807459, 6.763430402310645, 6.774131251374265},
	{0.005, 0.7, 2000, 1e-06, 3.823599733134561, 3.818310850761758, 3.828874649788436},
	{0.005, 2.0, 1000, 1e-08, 0.43151157963431025, 0.42645129854033664, 0.43648667543289077},
	{0.1, 2.0, 50, 1e-08, 2.3888686298601045, 2.3837709196201193, 2.3939669687821},
	{0.001, 0.6, 10000, 1e-06, 3.152227262396605, 3.146889009866177, 3.1574959002923775},
	{0.02, 0.8, 100, 1e-05, 2.620243126361758, 2.6149737203402763, 2.625512776895351},
	{0.002, 0.9, 100000, 1e-07, 5.377294334143073, 5.371596886089492, 5.381994728277243},
	{0.0512, 1.0, 976, 1e-05, 11.139821292587406, 11.134246644858404, 11.1453923826811},
}

func TestGolden(t *testing.T) {
	for _, v := range golden {
		if v.steps <= 2250 {
			v.check(t)
		}
	}
}

func TestLongGolden(t *testing.T) {
	for _, v := range golden {
		v.check(t)
	}
}

func (v example) check(t *testing.T) {
	t.Helper()
	r := epsilon(t, []Step{gaussian(v.q, v.sigma, v.steps)}, false, v.delta)
	if !(v.pld*(1-1.0/5000) <= r.Upper && r.Lower <= v.pld) {
		t.Errorf("%+v: the exact value is at most pld and nearly that, which [%v, %v] excludes", v, r.Lower, r.Upper)
	}
	if !(v.lower <= r.Upper && r.Lower <= v.upper) {
		t.Errorf("%+v: [%v, %v] does not meet prv_accountant's interval", v, r.Lower, r.Upper)
	}
	if math.Abs(r.Estimate-v.pld) > v.pld/5000 || r.Upper-r.Lower > 0.006*v.pld {
		t.Errorf("%+v: got %+v", v, r)
	}
}

// Published: q=.01, σ=1, T=1000 costs 1.83 under add-remove and 2.84 under replace-one.
func TestReplaceOneGolden(t *testing.T) {
	if r := epsilon(t, []Step{gaussian(0.01, 1, 1000)}, true, 1e-5); math.Abs(r.Estimate-2.84) > 0.005 {
		t.Errorf("got %+v, want 2.84", r)
	}
}

func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// analytic is δ(ε) of one Gaussian release (Balle and Wang 2018, theorem 8).
func analytic(mu, epsilon float64) float64 {
	return normal(mu/2-epsilon/mu) - math.Exp(epsilon)*normal(-mu/2-epsilon/mu)
}

// Unsampled Gaussians compose to one of μ√k.
func TestAnalyticGaussian(t *testing.T) {
	for _, v := range []struct {
		epsilon, delta, sigma float64 // calibrated elsewhere to 16 digits
	}{
		{0.1, 1e-3, 17.404396203031098}, {0.1, 1e-8, 45.93736018498833}, {1, 1e-3, 2.5746570186372084}, {2, 1e-5, 1.9938124456435358}, {4, 1e-3, 0.8230776852446614},
	} {
		for _, k := range []int{1, 7, 30} { // many more below
			steps := []Step{gaussian(1, v.sigma*math.Sqrt(float64(k)), k)}
			holds(t, "epsilon", epsilon(t, steps, false, v.delta), v.epsilon, 0.02)
			holds(t, "delta", delta(t, steps, false, v.epsilon), v.delta, 0.1)
			steps[0].Size /= 2
			holds(t, "epsilon, half the size under replace-one", epsilon(t, steps, true, v.delta), v.epsilon, 0.02)
		}
	}
	holds(t, "many steps", epsilon(t, []Step{gaussian(1, 1.9938124456435358*200, 40_000)}, false, 1e-5), 2, 0.02)
	for _, d := range []float64{1e-2, 1e-6, 1e-11} {
		r := epsilon(t, []Step{gaussian(1, 2, 3), gaussian(1, 4, 5), gaussian(1, 0.9, 1)}, false, d)
		mu := math.Sqrt(3./4 + 5./16 + 1/0.81)
		if !(analytic(mu, r.Upper) <= d && d <= analytic(mu, r.Lower)) {
			t.Errorf("three kinds at delta %g: %+v", d, r)
		}
	}
}

// Where almost nothing is hidden, probabilities of the pair are below what a float64
// holds. The second term of δ(ε) is then φ(a) times Mills's ratio at a+μ, which is 1/(a+μ)
// to one part in (a+μ)², at most one in 400 here.
func TestHugeLosses(t *testing.T) {
	for _, c := range []struct {
		size       float64
		count      int
		replaceOne bool
	}{
		{17, 1, false}, {20, 1, false}, {20, 10, false}, {20, 1, true}, {20, 10, true},
	} {
		mu := c.size * math.Sqrt(float64(c.count))
		if c.replaceOne {
			mu *= 2
		}
		exact := func(epsilon float64) float64 {
			a := epsilon/mu - mu/2
			return normal(-a) - density(GaussianNoise, a)/(a+mu)
		}
		r := epsilon(t, []Step{{GaussianNoise, c.size, 1, c.count}}, c.replaceOne, 1e-5)
		if !(exact(r.Upper) <= 1e-5 && 1e-5 <= exact(r.Lower)) || r.Upper-r.Lower > 2e-3*r.Upper {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// density of the noise around 0, and P's or Q's of a pair, written out afresh.
func density(n Noise, x float64) float64 {
	if n == LaplaceNoise {
		return math.Exp(-math.Abs(x)) / 2
	}
	return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
}

type densities struct{ p, q func(float64) float64 }

func pairs(s Step, replaceOne bool) []densities {
	n, mu := s.Noise, s.Size
	around := func(c float64) func(float64) float64 {
		return func(x float64) float64 { return (1-s.Rate)*density(n, x) + s.Rate*density(n, x-c) }
	}
	none := func(x float64) float64 { return density(n, x) }
	if replaceOne {
		return []densities{{around(mu), around(-mu)}}
	}
	return []densities{{around(mu), none}, {none, around(mu)}}
}

// The hockey-stick divergence of one release in each direction by its
// definition, ∫(P−e^εQ)₊. The step is 4e-3, and the sum's error below 1e-5 by
// the kink and the bends.
func TestOneRelease(t *testing.T) {
	for _, s := range []Step{
		gaussian(1, 1, 1), gaussian(0.3, 0.5, 1), gaussian(0.01, 2, 1), gaussian(0.9, 0.7, 1),
		laplace(1, 1.5, 1), laplace(0.2, 1.5, 1), laplace(0.9, 0.3, 1),
	} {
		for _, replaceOne := range []bool{false, true} {
			if replaceOne && s.Noise == LaplaceNoise && s.Rate < 1 {
				continue
			}
			pairs := pairs(s, replaceOne)
			for i, l := range one(t, []Step{s}, replaceOne) {
				c, err := l.compose(1e-9, 1, 1<<16)
				check(t, err)
				for _, e := range []float64{-0.1, 0, 0.01, 0.2, 1} {
					exact := 0.0
					for x := -20.0; x < 20; x += 4e-3 {
						exact += 4e-3 * math.Max(0, pairs[i].p(x)-math.Exp(e)*pairs[i].q(x))
					}
					if got := c.delta(e); math.Abs(got-exact) > 1e-5+1e-4*exact {
						t.Errorf("%+v, replace-one %v, direction %d, epsilon %v: got %v, want %v", s, replaceOne, i, e, got, exact)
					}
				}
			}
		}
	}
}

// Two releases: the divergence of the product densities, by a sum over the
// plane. Of the second pair, the worse direction is the one of a record added.
func TestTwoReleases(t *testing.T) {
	for _, c := range []struct {
		a, b    Step
		epsilon float64
	}{
		{laplace(0.4, 1, 1), gaussian(0.6, 1.2, 1), 0.3},
		{laplace(0.5, 0.5, 1), laplace(0.5, 0.5, 1), 0.1},
	} {
		const step = 0.025
		exact := 0.0
		as, bs := pairs(c.a, false), pairs(c.b, false)
		for i := range as {
			sum := 0.0
			for x := -14 + step/2; x < 14; x += step {
				px, qx := as[i].p(x), math.Exp(c.epsilon)*as[i].q(x)
				for y := -14 + step/2; y < 14; y += step {
					sum += step * step * math.Max(0, px*bs[i].p(y)-qx*bs[i].q(y))
				}
			}
			exact = math.Max(exact, sum)
		}
		r := delta(t, []Step{c.a, c.b}, false, c.epsilon)
		if math.Abs(r.Estimate-exact) > 1e-3*exact { // the sum's own error
			t.Errorf("%+v: got %+v, want %v", c, r, exact)
		}
		holds(t, "epsilon back", epsilon(t, []Step{c.a, c.b}, false, r.Estimate), c.epsilon, 0.05)
	}
}

// One Laplace release has δ(ε) = 1−e^{(ε−ε₀)/2}; k of them are pure kε₀.
func TestLaplace(t *testing.T) {
	for _, size := range []float64{0.01, 0.5, 3} {
		for _, d := range []float64{1e-2, 1e-5, 1e-9} {
			if exact := size + 2*math.Log1p(-d); exact > 0 {
				holds(t, "epsilon", epsilon(t, []Step{laplace(1, size, 1)}, false, d), exact, 0.01)
				holds(t, "replace-one", epsilon(t, []Step{laplace(1, size/2, 1)}, true, d), exact, 0.01)
			}
		}
		last := 0.0
		for k := 1; k <= 5; k++ {
			r := epsilon(t, []Step{laplace(1, size, k)}, false, 1e-9)
			if pure := float64(k) * size; r.Lower > pure || r.Estimate < last || r.Estimate < 0.9*pure {
				t.Errorf("%d of size %v: %+v", k, size, r)
			}
			last = r.Estimate
		}
	}
}

func TestMonotone(t *testing.T) {
	base := epsilon(t, []Step{gaussian(0.1, 1, 20), laplace(0.1, 0.3, 4)}, false, 1e-6)
	for what, steps := range map[string][]Step{
		"more steps":     {gaussian(0.1, 1, 22), laplace(0.1, 0.3, 4)},
		"a higher rate":  {gaussian(0.11, 1, 20), laplace(0.1, 0.3, 4)},
		"less noise":     {gaussian(0.1, 0.95, 20), laplace(0.1, 0.3, 4)},
		"another kind":   {gaussian(0.1, 1, 20), laplace(0.1, 0.3, 4), gaussian(0.5, 3, 2)},
		"larger queries": {gaussian(0.1, 1, 20), laplace(0.1, 0.5, 4)},
	} {
		if r := epsilon(t, steps, false, 1e-6); r.Lower <= base.Upper {
			t.Errorf("%s: %+v is not above %+v", what, r, base)
		}
	}
	if r := epsilon(t, []Step{gaussian(0.1, 1, 20), laplace(0.1, 0.3, 4)}, false, 1e-7); r.Lower <= base.Upper {
		t.Errorf("a smaller delta: %+v is not above %+v", r, base)
	}
	if g, r := epsilon(t, []Step{gaussian(0.1, 1, 20)}, false, 1e-6), epsilon(t, []Step{gaussian(0.1, 1, 20)}, true, 1e-6); r.Lower <= g.Upper {
		t.Errorf("replace-one: %+v is not above %+v", r, g)
	}
}

// Steps listed apart cost what they do together, in any order; a list of many
// kinds that are almost one kind costs almost the same.
func TestLists(t *testing.T) {
	one := epsilon(t, []Step{gaussian(0.1, 1, 10), gaussian(0.1, 2, 10)}, false, 1e-5)
	two := epsilon(t, []Step{gaussian(0.1, 2, 4), gaussian(0.1, 1, 6), gaussian(0.1, 2, 6), gaussian(0.1, 1, 4)}, false, 1e-5)
	if math.Abs(one.Estimate-two.Estimate) > 1e-6 {
		t.Errorf("%+v together, %+v apart", one, two)
	}
	var many []Step
	for i := range 4 { // the fewest whose lattice has less cells than that of one
		many = append(many, gaussian(0.01*(1+1e-7*(float64(i)-1.5)), 1, 1125))
	}
	few, all := epsilon(t, []Step{gaussian(0.01, 1, 4500)}, false, 1e-5), epsilon(t, many, false, 1e-5)
	if math.Abs(few.Estimate-all.Estimate) > 1e-3*few.Estimate || all.Upper-all.Lower > 0.02*few.Estimate {
		t.Errorf("one kind %+v, 4 kinds %+v", few, all)
	}
}

func TestNothingToPay(t *testing.T) {
	// δ(0) = 2Φ(μ/2)−1 for one release, times q.
	if r := epsilon(t, []Step{gaussian(1, 8, 1)}, false, 0.05); r != (Result{}) {
		t.Errorf("got %+v, want 0", r)
	}
	holds(t, "delta(0)", delta(t, []Step{gaussian(1e-4, 8, 1)}, false, 0), 1e-4*(2*normal(1./16)-1), 1)
}

func TestRefusals(t *testing.T) {
	good := []Step{gaussian(0.01, 1, 10)}
	for _, c := range []struct {
		steps      []Step
		replaceOne bool
		delta      float64
		want       string
	}{
		{nil, false, 1e-5, "no step"},
		{good, false, 0, "must be in (0, 1)"},
		{good, false, 1, "must be in (0, 1)"},
		{good, false, math.NaN(), "must be in (0, 1)"},
		{good, false, 9e-12, "use pld"},
		{[]Step{gaussian(0.01, 1, 20_000_000)}, false, 1e-9, "raise delta or use pld"},
		{[]Step{gaussian(0.01, 1, 2_000_000_000)}, false, 1e-5, "use pld"},
		{[]Step{gaussian(0, 1, 1)}, false, 1e-5, "sampling rate 0"},
		{[]Step{gaussian(1.5, 1, 1)}, false, 1e-5, "sampling rate 1.5"},
		{[]Step{gaussian(1, 0, 1)}, false, 1e-5, "size +Inf"},
		{[]Step{gaussian(1, 0.04, 1)}, false, 1e-5, "at most 20"},
		{[]Step{gaussian(1, -1, 1)}, false, 1e-5, "size -1"},
		{[]Step{gaussian(1, 1, 1), gaussian(1, 1, 0)}, false, 1e-5, "step 2: count 0"},
		{[]Step{{2, 1, 1, 1}}, false, 1e-5, "noise 2"},
		{[]Step{laplace(0.1, 1, 1)}, true, 1e-5, "has no pair"},
	} {
		if _, err := Epsilon(c.steps, c.replaceOne, c.delta); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v at delta %v: got %v, want %q", c.steps, c.delta, err, c.want)
		}
	}
	for _, c := range []struct {
		steps   []Step
		epsilon float64
		want    string
	}{
		{nil, 1, "no step"},
		{good, -1, "0 or more"},
		{good, math.Inf(1), "0 or more"},
		{good, math.NaN(), "0 or more"},
		{good, 50, "use pld"},
		{[]Step{laplace(1, 1, 1)}, 2, "use pld"}, // δ is 0
	} {
		if _, err := Delta(c.steps, false, c.epsilon); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v at epsilon %v: got %v, want %q", c.steps, c.epsilon, err, c.want)
		}
	}
}
