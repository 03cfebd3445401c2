package pld

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

type golden struct {
	Subsampled [][5]float64
	Mixed      []struct {
		Parts    [][3]float64
		Delta    float64
		Epsilon  float64
		DeltaAt1 float64 `json:"delta_at_1"`
	}
	Batches  []struct{ Rho, Joint, Two float64 }
	Gaussian [][3]float64
}

func vectors(t *testing.T) (g golden) {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil || len(g.Subsampled) == 0 || len(g.Gaussian) == 0 {
		t.Fatalf("golden.json: %v", err)
	}
	return g
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sampled(mu, q float64, count int) Step { return Step{[]Pair{Gaussian(mu)}, q, count, false} }

// width is the least that is promised of any Upper−Lower.
func width(epsilon float64) float64 { return max(relativeWidth*epsilon, absoluteWidth) }

func epsilon(t *testing.T, steps []Step, replaceOne bool, delta float64) Interval {
	t.Helper()
	r, err := Epsilon(steps, replaceOne, delta)
	check(t, err)
	if !(r.Lower <= r.Upper) || r.Upper-r.Lower > width(r.Upper) {
		t.Fatalf("ends %v are not as near as promised", r)
	}
	return r
}

// near checks a value that was rounded up by at most a share of 1e-3.
func near(t *testing.T, what string, r Interval, want float64) {
	t.Helper()
	if !(math.Abs(r.Upper-want) <= 1e-3*want && r.Lower <= want) {
		t.Errorf("%s: %v, want %v", what, r, want)
	}
}

func TestGolden(t *testing.T) {
	g := vectors(t)
	for _, v := range g.Subsampled {
		near(t, fmt.Sprint(v), epsilon(t, []Step{sampled(1/v[1], v[0], int(v[2]))}, false, v[3]), v[4])
	}
	for _, v := range g.Mixed {
		var steps []Step
		for _, p := range v.Parts {
			steps = append(steps, sampled(1/p[1], p[0], int(p[2])))
		}
		near(t, fmt.Sprint(v), epsilon(t, steps, false, v.Delta), v.Epsilon)
		d, err := Delta(steps, false, 1)
		// The vectors' δ was rounded up too.
		if err != nil || !(d.Lower <= v.DeltaAt1 && d.Upper >= v.DeltaAt1*0.999 && d.Upper <= d.Lower*1.02) {
			t.Errorf("%v: delta %v, %v", v, d, err)
		}
	}
}

// Everything asked of one batch is composed first and amplified once.
func TestOneBatch(t *testing.T) {
	for _, v := range vectors(t).Batches {
		mu := math.Sqrt(2 * v.Rho)
		a, b := mu*math.Sqrt(0.9), mu*math.Sqrt(0.1)
		joint := []Step{{[]Pair{Gaussian(a), Gaussian(b)}, 1. / 200, 1000, false}}
		near(t, fmt.Sprint("joint ", v.Rho), epsilon(t, joint, false, 1e-8), v.Joint)
		apart := []Step{sampled(a, 1./200, 1000), sampled(b, 1./200, 1000)}
		near(t, fmt.Sprint("apart ", v.Rho), epsilon(t, apart, false, 1e-8), v.Two)

		// The general path, by a second release that gives nothing away.
		other := []Step{{[]Pair{Gaussian(a), Gaussian(b), Pure(1e-9)}, 1. / 200, 1000, false}}
		near(t, fmt.Sprint("general ", v.Rho), epsilon(t, other, false, 1e-8), v.Joint)
	}
}

func TestAnalyticGaussian(t *testing.T) {
	for _, v := range vectors(t).Gaussian {
		r := epsilon(t, []Step{sampled(1/v[2]/5, 1, 25)}, false, v[1])
		if math.Abs(r.Upper-v[0]) > 1e-10*v[0] || r.Lower > v[0]*(1+1e-10) || r.Upper-r.Lower > 1e-10*v[0] {
			t.Errorf("%v: %v", v, r)
		}
		if half := epsilon(t, []Step{sampled(0.5/v[2], 1, 1)}, true, v[1]); math.Abs(half.Upper-v[0]) > 1e-10*v[0] {
			t.Errorf("replace-one %v: %v", v, half)
		}
		if d, err := Delta([]Step{sampled(1/v[2], 1, 1)}, false, v[0]); err != nil || math.Abs(d.Upper-v[1]) > 1e-9*v[1] {
			t.Errorf("%v: delta %v, %v", v, d, err)
		}
	}
	// Tiny distances and tiny δ against the tails themselves.
	for _, mu := range []float64{0.019, 0.021, 0.5, 3} {
		for _, a := range []float64{-3, -0.5, 0, 0.5, 4, 7.9, 8.1} {
			e := mu * (a + mu/2)
			if e < 0 {
				continue
			}
			want := simpson(func(z float64) float64 {
				return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * -math.Expm1(e-mu*z-mu*mu/2)
			}, a, a+12, 20000)
			if got := math.Exp(gaussianDelta(mu, e)); math.Abs(got/want-1) > 1e-10 {
				t.Errorf("mu %v, epsilon %v: %v, want %v", mu, e, got, want)
			}
		}
	}
}

func simpson(f func(float64) float64, a, b float64, n int) float64 {
	h, sum := (b-a)/float64(n), f(a)+f(b)
	for i := 1; i < n; i++ {
		sum += float64(2+2*(i%2)) * f(a+float64(i)*h)
	}
	return sum * h / 3
}

func TestPublishedFigures(t *testing.T) {
	// The central limit theorem says 6.59, which is too little.
	if r := epsilon(t, []Step{sampled(1/1.5, 0.04, 2250)}, false, 1e-5); math.Abs(r.Upper-6.769) > 0.003 || r.Lower < 6.76 {
		t.Error(r)
	}
	if r := epsilon(t, []Step{sampled(1, 0.01, 1000)}, true, 1e-5); math.Abs(r.Upper-2.844) > 0.003 {
		t.Error("replace-one", r)
	}
}

// general is a composition of unsampled Gaussians that takes no short cut.
func general(t *testing.T, mu float64, count int, delta float64) *composition {
	t.Helper()
	c := &composition{measures: map[string]*[directions]ends{}}
	l := gaussian{mu: mu, q: 1}
	c.kinds = []kind{{l, l, count}}
	check(t, c.refine(delta))
	return c
}

func TestUnsampledGaussianWithoutTheClosedForm(t *testing.T) {
	for _, delta := range []float64{0.3, 1e-5, 1e-15, 1e-40} {
		for _, count := range []int{1, 10, 1000} {
			mu := 2 / math.Sqrt(float64(count))
			c := general(t, mu, count, delta)
			r, err := c.epsilon(delta)
			want := gaussianEpsilon(2, delta)
			if err != nil || !(r.Lower <= want && want <= r.Upper && r.Upper-r.Lower <= width(r.Upper)) {
				t.Errorf("delta %v, count %v: %v, want %v, %v", delta, count, r, want, err)
			}
			for _, e := range []float64{0, 0.1, 1, 5, want} {
				d, err := c.delta(e)
				if want := math.Exp(gaussianDelta(2, e)); err != nil || !(d.Lower <= want && want <= d.Upper && d.Upper < 1.5*d.Lower) {
					t.Errorf("epsilon %v, count %v, design %v: %v, want %v, %v", e, count, delta, d, want, err)
				}
			}
		}
	}
}

// binomial is δ of n times a pair with two losses: high with probability p,
// low otherwise.
func binomial(n int, p, high, low, epsilon float64) float64 {
	sum := 0.0
	for k := range n + 1 {
		lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
		w := math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		if l := float64(k)*high + float64(n-k)*low; l > epsilon {
			sum += w * -math.Expm1(epsilon-l)
		}
	}
	return sum
}

func TestRandomisedResponse(t *testing.T) {
	for _, e := range []float64{0.1, 1, 3} {
		for _, q := range []float64{0.02, 0.3, 1} {
			for _, n := range []int{1, 7, 100} {
				p := 1 / (1 + math.Exp(-e))
				high, low := logMix(q, e), logMix(q, -e)
				truth := func(x float64) float64 {
					return max(binomial(n, q*p+(1-q)*(1-p), high, low, x), binomial(n, p, -low, -high, x))
				}
				steps := []Step{{[]Pair{Pure(e)}, q, n, false}}
				for _, x := range []float64{0, 0.3 * high, 0.31 * float64(n) * high, 0.8 * float64(n) * high} {
					d, err := Delta(steps, false, x)
					if want := truth(x); err != nil || !(d.Lower <= want*(1+1e-9) && want*(1-1e-9) <= d.Upper && d.Upper-d.Lower < 1e-6*want+1e-25) {
						t.Errorf("epsilon %v, rate %v, %v times, at %v: %v, want %v, %v", e, q, n, x, d, want, err)
					}
				}
				r := epsilon(t, steps, false, 1e-6)
				if r.Lower > 0 && truth(r.Lower*(1-1e-9)) < 1e-6 || truth(r.Upper*(1+1e-9)) > 1e-6 {
					t.Errorf("epsilon %v, rate %v, %v times: %v", e, q, n, r)
				}
			}
		}
	}
	if r := epsilon(t, []Step{{[]Pair{Pure(0.1)}, 1, 1, false}}, true, 1e-9); math.Abs(r.Upper-0.2) > 1e-8 {
		t.Error("replace-one doubles", r)
	}
}

// laplaceDelta is δ of Laplace noise on P's side by its definition, and
// laplaceTwice that of two by integration over the loss of the first.
func laplaceDelta(e, at float64) float64 {
	switch {
	case at >= e:
		return 0
	case at <= -e:
		return -math.Expm1(at)
	}
	return -math.Expm1((at - e) / 2)
}

func laplaceTwice(e, at float64) float64 {
	inner := simpson(func(l float64) float64 { return math.Exp((l-e)/2) / 4 * laplaceDelta(e, at-l) }, max(-e, at-e), e, 20000)
	if at < 0 {
		return math.NaN()
	}
	return laplaceDelta(e, at-e)/2 + math.Exp(-e)/2*laplaceDelta(e, at+e) + inner
}

func TestLaplace(t *testing.T) {
	for _, e := range []float64{0.2, 1, 4} {
		for _, at := range []float64{0, 0.11, 0.9 * e, 1.3 * e, 1.97 * e} {
			for n, want := range map[int]float64{1: laplaceDelta(e, at), 2: laplaceTwice(e, at)} {
				d, err := Delta([]Step{{[]Pair{Laplace(e)}, 1, n, false}}, false, at)
				if err != nil || !(d.Lower <= want+1e-12 && want-1e-12 <= d.Upper && d.Upper <= d.Lower+0.02*want+1e-12) {
					t.Errorf("epsilon %v, %d times, at %v: %v, want %v, %v", e, n, at, d, want, err)
				}
			}
		}
	}
	// One release on a batch: the curve of the pair maps to that of the batch,
	// q·δ(ln(1+(e^ε−1)/q)) (Balle, Barthe and Gaboardi 2018, theorem 8).
	for _, q := range []float64{0.01, 0.4} {
		for _, at := range []float64{0, 0.001, 0.05} {
			want := q * laplaceDelta(1, math.Log1p(math.Expm1(at)/q))
			d, err := Delta([]Step{{[]Pair{Laplace(1)}, q, 1, false}}, false, at)
			if err != nil || !(d.Lower <= want*(1+1e-9)+1e-20 && want*(1-1e-9) <= d.Upper && d.Upper-d.Lower < 0.01*want+1e-12) {
				t.Errorf("rate %v, at %v: %v, want %v, %v", q, at, d, want, err)
			}
		}
	}
}

// stick is the hockey-stick curve of a measure.
func stick(m measure, epsilon float64) float64 {
	sum := m.infinite
	for i, x := range m.index {
		if l := m.loss(x); l > epsilon {
			sum += m.mass[i] * -math.Expm1(epsilon-l)
		}
	}
	return sum
}

// Both estimates of one step against the curve of the pair, for spacings far
// below and far above its spread: the directions of all roundings.
func TestEstimatesBracketTheCurve(t *testing.T) {
	for _, l := range []gaussian{{1, 0.01, false}, {2, 0.3, false}, {0.1, 0.9, false}, {5, 1e-4, false}, {1, 1, false}, {1, 0.01, true}, {0.3, 0.5, true}} {
		for d := range directions {
			curve := func(e float64) float64 { // at the set of z whose loss is above ε
				x := e
				if d == add {
					x = -e
				}
				z := min(60, max(-60, l.position(x)))
				above := func(mean float64) float64 {
					if d == add && !l.symmetric() {
						return math.Erfc((mean-z)/math.Sqrt2) / 2
					}
					return math.Erfc((z-mean)/math.Sqrt2) / 2
				}
				if l.symmetric() {
					z = min(60, max(-60, l.position(e)))
				}
				with, without := (1-l.q)*above(0)+l.q*above(l.mu), above(0)
				if l.twoSided {
					without = (1-l.q)*above(0) + l.q*above(-l.mu)
				}
				if d == add && !l.symmetric() {
					with, without = without, with
				}
				return with - math.Exp(e)*without
			}
			for _, h := range []float64{1e-3, 0.1, 1.3} {
				p := plan{h, 1e-26, [][]float64{{0, 4, 10}, {0, 4, 10}}}
				up, down, g := l.cut(p, d)
				upper, lower := connect(up, g, l.slack()), fuse(down, g, l.slack(), 4)
				balanced := fuse(down, g.balancing(down), l.slack(), 4)
				at := []float64{-1e-2, -1e-3, -1e-4, -1e-5, 0, 1e-5, 1e-4, 1e-3, 1e-2}
				for e := -1.; e < 6; e += 0.083 {
					at = append(at, e)
				}
				for _, e := range at {
					truth := curve(e)
					// the reference cancels; its own rounding is 1e-15
					if u := stick(upper, e); !(u >= truth-2e-15) {
						t.Fatalf("%v direction %d spacing %v: upper %v below %v at %v", l, d, h, u, truth, e)
					}
					if v := max(stick(lower, e), stick(balanced, e)); !(v <= truth+2e-15) {
						t.Fatalf("%v direction %d spacing %v: lower %v above %v at %v", l, d, h, v, truth, e)
					}
				}
				if e := 0.5; h <= 3e-3 && l.mu <= 2 && curve(e) > 1e-6 && stick(upper, e) > 1.01*stick(lower, e) {
					t.Errorf("%v direction %d spacing %v: %v to %v", l, d, h, stick(lower, e), stick(upper, e))
				}
			}
		}
	}
}

// The transform against composition term by term, at δ far below its own
// rounding.
func TestAgainstDirectConvolution(t *testing.T) {
	for _, step := range []Step{sampled(1, 0.1, 6), {[]Pair{Laplace(0.5), Pure(0.2)}, 0.2, 6, false}} {
		c, err := prepare([]Step{step}, false)
		check(t, err)
		c.spacingAt(1e-12)
		c.setSpacing(0.02)
		check(t, c.discretise())
		for d := range directions {
			m := c.measures[c.kinds[0].high.key()+"|"+c.kinds[0].low.key()][d]
			upper, lower := m.upper, m.lower
			for range step.Count - 1 {
				upper, lower = convolve(upper, m.upper, 0), convolve(lower, m.lower, 0)
			}
			for _, e := range []float64{0.01, 0.5, 2, 4, 8, 12} {
				up, down, err := c.compose(d, c.tiltAt(d, e))
				check(t, err)
				want, got := stick(upper, e), up.delta(e, 1)
				if !(got >= want*(1-1e-9) && got <= want*(1+1e-6)+1e-25) {
					t.Errorf("direction %d, epsilon %v: upper %v, want %v", d, e, got, want)
				}
				want, got = stick(lower, e), down.delta(e, -1)
				if !(got <= want*(1+1e-9) && got >= want*(1-1e-6)-1e-25) {
					t.Errorf("direction %d, epsilon %v: lower %v, want %v", d, e, got, want)
				}
			}
		}
	}
}

func TestTransform(t *testing.T) {
	tr := newTransform(6)
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]complex128, tr.n)
	for i := range x {
		x[i] = complex(r.Float64(), r.Float64())
	}
	y := append([]complex128(nil), x...)
	tr.forward(y)
	seen := map[int]bool{}
	for j := range tr.n/2 + 1 {
		at := position(j)
		seen[at], seen[opposite(at)] = true, true
		k := 0 // the frequency at a position has its bits reversed
		for b := range 6 {
			k |= (at >> b & 1) << (5 - b)
		}
		for where, k := range map[int]int{at: k, opposite(at): (tr.n - k) % tr.n} {
			var want complex128
			sum := 0.0
			for n, v := range x {
				s, c := math.Sincos(-2 * math.Pi * float64(n*k%tr.n) / float64(tr.n))
				want += v * complex(c, s)
				sum += math.Hypot(real(v), imag(v))
			}
			if d := y[where] - want; math.Hypot(real(d), imag(d)) > 2*fftError*6*sum { // twice: the sum here rounds too
				t.Errorf("frequency %d is off by %v", k, d)
			}
		}
	}
	if len(seen) != tr.n {
		t.Errorf("%d of %d positions", len(seen), tr.n)
	}
	tr.backward(y)
	for i, v := range y {
		if d := v/64 - x[i]; math.Hypot(real(d), imag(d)) > 1e-14 {
			t.Errorf("%d: %v", i, d)
		}
	}
}

func TestProperties(t *testing.T) {
	for _, seed := range []uint64{4, 5, 6} { // three kinds of steps, and two times one: all quick
		r := rand.New(rand.NewPCG(seed, 4))
		var steps, more, rarer, quieter []Step
		for range 1 + r.IntN(3) {
			s := sampled(1/(0.6+3*r.Float64()), math.Pow(10, -1-2*r.Float64()), 1+r.IntN(2000))
			steps = append(steps, s)
			more = append(more, Step{s.Pairs, s.Rate, s.Count + s.Count/10 + 1, s.Subsets})
			rarer = append(rarer, Step{s.Pairs, 0.9 * s.Rate, s.Count, s.Subsets})
			quieter = append(quieter, sampled(0.9*s.Pairs[0].size, s.Rate, s.Count))
		}
		delta := math.Pow(10, -3-9*r.Float64())
		base := epsilon(t, steps, false, delta)
		if x := epsilon(t, more, false, delta); x.Upper < base.Lower {
			t.Errorf("%v: more steps %v, %v", steps, base, x)
		}
		if x := epsilon(t, rarer, false, delta); x.Lower > base.Upper {
			t.Errorf("%v: smaller rate %v, %v", steps, base, x)
		}
		if x := epsilon(t, quieter, false, delta); x.Lower > base.Upper {
			t.Errorf("%v: more noise %v, %v", steps, base, x)
		}
		if x := epsilon(t, steps, true, delta); x.Upper < base.Lower {
			t.Errorf("%v: replace-one %v, add-remove %v", steps, x, base)
		}
		at, err := Delta(steps, false, base.Upper)
		if err != nil || at.Lower > delta*(1+1e-6) {
			t.Errorf("%v: delta at %v is %v, want at most %v, %v", steps, base.Upper, at, delta, err)
		}
		if at, err = Delta(steps, false, base.Lower); err != nil || at.Upper < delta*(1-1e-6) {
			t.Errorf("%v: delta at %v is %v, want at least %v, %v", steps, base.Lower, at, delta, err)
		}
		var split []Step
		for _, s := range steps {
			split = append(split, Step{s.Pairs, s.Rate, s.Count / 2, s.Subsets}, Step{s.Pairs, s.Rate, s.Count - s.Count/2, s.Subsets})
		}
		if x := epsilon(t, split, false, delta); x != base {
			t.Errorf("%v: in two halves %v, %v", steps, x, base)
		}
	}
}

// A calibration by secants needs an upper end without jumps.
func TestUpperIsSmoothInTheNoise(t *testing.T) {
	at := func(sigma float64) float64 {
		return epsilon(t, []Step{sampled(1/sigma, 0.02, 3000)}, false, 1e-5).Upper
	}
	const step = 1e-4
	slope := (at(1.1*(1+20*step)) - at(1.1)) / 20
	for i := range 8 {
		s := 1.1 * (1 + float64(i)*step)
		if d := at(s*(1+step)) - at(s); math.Abs(d-slope) > 0.1*math.Abs(slope) {
			t.Errorf("sigma %v: a step of %v, on average %v", s, d, slope)
		}
	}
}

func TestMoreKindsThanAreComposed(t *testing.T) {
	var steps []Step
	for i := range 600 {
		steps = append(steps, sampled(1/(1+0.002*float64(i%15)), 0.01+0.000005*float64(i/15), 1))
	}
	c, err := prepare(steps, false)
	if err != nil || len(c.kinds) > maxKinds {
		t.Fatalf("%d kinds, %v", len(c.kinds), err)
	}
	count := 0
	for _, k := range c.kinds {
		count += k.count
	}
	if count != 600 {
		t.Errorf("%d of 600 steps", count)
	}
	low := epsilon(t, []Step{sampled(1/1.028, 0.01, 600)}, false, 1e-5)
	high := epsilon(t, []Step{sampled(1, 0.0102, 600)}, false, 1e-5)
	// The same merging, further, where it costs less to compose.
	last := Interval{low.Lower, high.Upper}
	for _, most := range []int{1, 4, 12} {
		if c.kinds, err = merge(c.kinds[:len(c.kinds):len(c.kinds)], maxKinds); err != nil {
			t.Fatal(err)
		}
		few := *c
		if few.kinds, err = merge(c.kinds, most); err != nil || len(few.kinds) > most {
			t.Fatalf("%d kinds, %v", len(few.kinds), err)
		}
		few.spacing, few.measures = 0, map[string]*[directions]ends{}
		check(t, few.refine(1e-5))
		r, err := few.epsilon(1e-5)
		slack := 2 * width(r.Upper)
		if err != nil || r.Lower > r.Upper || r.Upper > last.Upper+slack || r.Lower < last.Lower-slack {
			t.Errorf("%d kinds: %v, fewer: %v, %v", most, r, last, err)
		}
		last = r
	}
	if last.Upper-last.Lower > 0.1*last.Upper {
		t.Error(last)
	}
}

// Bounded time and memory, and valid ends, far from any sensible use.
func TestExtremes(t *testing.T) {
	for _, x := range []struct {
		mu, q float64
		n     int
	}{{20, 1e-3, 1}, {20, 0.5, 1}, {20, 0.999, 100}, {1e-4, 1e-6, 1e7}, {1e-4, 0.5, 1000}, {1, 1e-6, 1000}, {1, 0.01, 1}} {
		r, err := Epsilon([]Step{sampled(x.mu, x.q, x.n)}, false, 1e-6)
		// μ²/2-type reasoning gives what no answer may exceed: without sampling.
		most := gaussianEpsilon(x.mu*math.Sqrt(float64(x.n)), 1e-6)
		if err != nil || !(r.Lower <= r.Upper && r.Lower >= 0 && r.Lower <= most) {
			t.Errorf("%v: %v, unsampled %v, %v", x, r, most, err)
		}
		if x.mu == 20 && x.q == 0.5 && !(r.Lower >= 250 && r.Upper <= 300 && r.Upper-r.Lower <= width(r.Upper)) {
			t.Error(r)
		}
	}
}

func TestRefusals(t *testing.T) {
	ok := []Step{sampled(1, 0.1, 1)}
	for want, f := range map[string]func() error{
		"delta is 0":       func() error { _, err := Epsilon(ok, false, 0); return err },
		"delta is 1":       func() error { _, err := Epsilon(ok, false, 1); return err },
		"delta is NaN":     func() error { _, err := Epsilon(ok, false, math.NaN()); return err },
		"epsilon is -1":    func() error { _, err := Delta(ok, false, -1); return err },
		"rate is 0":        func() error { _, err := Epsilon([]Step{sampled(1, 0, 1)}, false, 1e-5); return err },
		"rate is 1.5":      func() error { _, err := Epsilon([]Step{sampled(1, 1.5, 1)}, false, 1e-5); return err },
		"count is -1":      func() error { _, err := Epsilon([]Step{sampled(1, 0.1, -1)}, false, 1e-5); return err },
		"mu is -1":         func() error { _, err := Epsilon([]Step{sampled(-1, 0.1, 1)}, false, 1e-5); return err },
		"raise it to 0.04": func() error { _, err := Epsilon([]Step{sampled(30, 0.1, 1)}, false, 1e-5); return err },
		"not supported un": func() error { _, err := Epsilon([]Step{{[]Pair{Laplace(1)}, 0.1, 1, false}}, true, 1e-5); return err },
		"nil pair":         func() error { _, err := Epsilon([]Step{{[]Pair{{}}, 0.1, 1, false}}, true, 1e-5); return err },
		"pure epsilon":     func() error { _, err := Epsilon([]Step{{[]Pair{Pure(1e4)}, 1, 1, false}}, false, 1e-5); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if r, err := Epsilon(nil, false, 1e-5); err != nil || r != (Interval{}) {
		t.Error("nothing costs", r, err)
	}
}
