package exact

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

func laplaceSampler(t *testing.T, scale float64, purpose string) *Sampler {
	t.Helper()
	g, err := NewLaplace(scale, testStream(t, purpose), 3)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func direction(t *testing.T, scale float64, dimension int, purpose string) *Direction {
	t.Helper()
	g, err := NewDirection(scale, dimension, testStream(t, purpose), 4)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The draws of testdata/golden.json were computed in another language: ChaCha20 by RFC
// 8439's own description, all digits of every uniform variable at once, and logarithms,
// cosine and the inverse error function of an arbitrary-precision library at 1,400 bits.
func TestGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Law       string
		Scale     float64
		Step      uint64
		Tensor    uint32
		Dimension int
		Draws     []int64
	}
	if err := json.Unmarshal(b, &golden); err != nil || len(golden) == 0 {
		t.Fatalf("%d cases: %v", len(golden), err)
	}
	for _, c := range golden {
		s := testStream(t, "golden")
		got := make([]int64, len(c.Draws))
		if c.Law == "laplace" {
			g, err := NewLaplace(c.Scale, s, c.Tensor)
			if err != nil {
				t.Fatal(err)
			}
			g.Add(got, c.Step, 0)
		} else {
			g, err := NewDirection(c.Scale, c.Dimension, s, c.Tensor)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Add(got, c.Step); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, c.Draws) {
			t.Errorf("%s, scale %v, %d dimensions:\n got %d\nwant %d", c.Law, c.Scale, c.Dimension, got, c.Draws)
		}
	}
}

// Probabilities of the rounded Laplace, which are e^(-(k-½)/b)·(1 - e^(-1/b))/2
// and 1 - e^(-1/2b) at 0.
func TestLaplaceDistribution(t *testing.T) {
	const n = 1 << 20
	for _, b := range []float64{0.5, 1, 3, 17.5} {
		limit := int64(0)
		upper := func(k int64) float64 { return math.Exp(-(float64(k)-0.5)/b) / 2 } // P(draw ≥ k), k ≥ 1
		for n*(upper(limit+1)-upper(limit+2)) > 20 {
			limit++
		}
		p := make([]float64, 2*limit+1)
		for i := range p {
			if k := max(int64(i)-limit, limit-int64(i)); k == 0 {
				p[i] = 1 - 2*upper(1)
			} else if k == limit {
				p[i] = upper(k)
			} else {
				p[i] = upper(k) - upper(k+1)
			}
		}
		counts := make([]int, len(p))
		for _, k := range draws(t, laplaceSampler(t, b, "laplace"), n, 1) {
			counts[min(max(k, -limit), limit)+limit]++
		}
		chiSquare(t, fmt.Sprintf("scale %v", b), counts, p, n)
	}
}

// Bins of equal probability over the whole line, last digits, and the tails.
func TestLaplaceOfLargeDraws(t *testing.T) {
	const n, bins = 1 << 19, 1 << 10
	for _, b := range []float64{0x1.fp20, MaxStd} {
		p := slices.Repeat([]float64{1. / bins}, bins)
		size, low := make([]int, bins), make([]int, bins)
		beyond := 0
		for _, k := range draws(t, laplaceSampler(t, b, "large"), n, 2) {
			z := float64(k) / b
			u := math.Exp(-math.Abs(z)) / 2
			if z > 0 {
				u = 1 - u
			}
			size[min(int(u*bins), bins-1)]++
			low[k&(bins-1)]++
			if math.Abs(z) > 10 {
				beyond++
			}
		}
		chiSquare(t, fmt.Sprintf("size at scale %v", b), size, p, n)
		chiSquare(t, fmt.Sprintf("last digits at scale %v", b), low, p, n)
		// 23.8 expected; 0 or above 75 have a probability below 1e-10 (Poisson).
		if beyond == 0 || beyond > 75 {
			t.Errorf("scale %v: %d of %d draws lie beyond 10 scales, expected %.1f", b, beyond, n, n*math.Exp(-10))
		}
	}
}

// What TestBoundOfTheFastPath shows for normals, for Laplace noise and for a scale that
// is a sum of two: V's interval lies between the tails at both ends of the bound. A sum's
// low part comes behind a table that is tried without one: a third of the values will do.
func TestBoundOfOtherLaws(t *testing.T) { boundsOfOtherLaws(t, 3) }

// TestLongBoundOfOtherLaws takes every value also with a low part.
func TestLongBoundOfOtherLaws(t *testing.T) { boundsOfOtherLaws(t, 1) }

// boundsOfOtherLaws takes one in so many values where the scale has a low part.
func boundsOfOtherLaws(t *testing.T, oneIn int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const prec = 160 // tails are off by 2⁻¹⁴⁰
	for _, c := range []struct {
		law *law
		low bool
	}{{&laplace, false}, {&laplace, true}, {&normal, true}} {
		tight, vs := false, hardOf(c.law, rnd)
		if c.low {
			vs = slices.DeleteFunc(vs, func(uint64) bool { return rnd.IntN(oneIn) > 0 })
		}
		for i, v := range vs {
			s, low := []float64{0.5, 1, 17.5, 0x1.3p20, math.Pi * 0x1p30, MaxStd}[i%6], 0.0
			scale := new(big.Float).SetPrec(prec).SetFloat64(s)
			if c.low {
				low = s * unit * (2*rnd.Float64() - 1)
				scale.Add(scale, big.NewFloat(low))
				// The part beyond low that scaled has room for.
				scale.Add(scale, big.NewFloat(s*4*unit*unit*(2*rnd.Float64()-1)))
			}
			cell := c.law.cellOf(v)
			whole, rest, bound := cell.scaled(v, s, low)
			inside := func(bound float64) bool {
				at := func(shift float64) *big.Float {
					x := new(big.Float).SetPrec(prec).SetFloat64(whole)
					x.Add(x, big.NewFloat(rest))
					return x.Quo(x.Add(x, big.NewFloat(shift)), scale)
				}
				edge := func(n uint64) *big.Float { return new(big.Float).SetMantExp(new(big.Float).SetUint64(n), -63) }
				if c.law.tail(at(bound)).Cmp(edge(v)) > 0 {
					return false
				}
				low := at(-bound)
				return low.Sign() <= 0 || c.law.tail(low).Cmp(edge(v+1)) >= 0
			}
			if !inside(bound) {
				t.Fatalf("scale %v + %v, v %#x: %v + %v is not within %v", s, low, v, whole, rest, bound)
			}
			tight = tight || s > 1e6 && !inside(bound/2)
		}
		if !tight {
			t.Error("half the bound holds everywhere: the test sees no error at all")
		}
	}
}

// Both paths agree for Laplace noise and for a Direction's coordinates.
func TestPathsOfOtherLawsAgree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var samplers []*Sampler
	for _, scale := range []float64{MinStd, 0.5, 2.5, 0x1.23456p21, MaxStd} {
		samplers = append(samplers, laplaceSampler(t, scale, "paths"))
	}
	for i, scale := range []float64{MinStd, 0.5, 0x1.23456p21, maxScale} {
		g := direction(t, scale, 1+i, "paths")
		samplers = append(samplers, g.sampler(g.mixture(uint64(i))))
	}
	decided := 0
	vs := hardOf(&laplace, rnd)[:800]
	for i := range 400 {
		vs = append(vs, rnd.Uint64()>>1>>(i%40))
	}
	for i, v := range vs {
		g := samplers[i%len(samplers)]
		var more [64]byte
		for j := range more {
			more[j] = byte(rnd.Uint32())
		}
		if k, ok := g.fast(v); ok {
			decided++
			if want := g.slow(v, &more); k != want {
				t.Fatalf("scale %v, v %#x: the fast path gives %d, math/big %d", g.std, v, k, want)
			}
		}
	}
	if decided < len(vs)/2 {
		t.Errorf("the fast path decided %d of %d draws", decided, len(vs))
	}
}

// Digits on both sides of a boundary that differ only late are told apart, and
// close to them nothing is decided early.
func TestBoundariesOfOtherLaws(t *testing.T) {
	d := direction(t, 0x1.3p20, 6, "boundaries")
	for _, g := range []*Sampler{
		laplaceSampler(t, 0.5, "boundaries"), laplaceSampler(t, 17.5, "boundaries"), laplaceSampler(t, MaxStd, "boundaries"),
		d.sampler(d.mixture(1)),
	} {
		for _, z := range []float64{0, 0.7, 3, 12, 20, 200} {
			k := int64(z * g.std)
			x := new(big.Float).SetPrec(mostDigits + guard).SetInt64(2*k + 1)
			x.Quo(x, g.wide)
			x.SetMantExp(x, -1)
			if f, _ := x.Float64(); f > g.end.most-1 {
				continue
			}
			v := g.law.tail(x)
			all, _ := v.SetMantExp(v, mostDigits).Int(nil)
			lasts := []uint{90, 300} // a Direction knows its scale to some 490 digits
			if g.slack == 0 {
				lasts = append(lasts, 20)
			}
			for _, last := range lasts {
				if all.BitLen() < int(last)+40 {
					continue
				}
				change := new(big.Int).Lsh(big.NewInt(1), last)
				for want, digits := range map[int64]*big.Int{k: new(big.Int).Add(all, change), k + 1: new(big.Int).Sub(all, change)} {
					var more [64]byte
					new(big.Int).And(digits, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 512), big.NewInt(1))).FillBytes(more[:])
					first := new(big.Int).Rsh(digits, 512).Uint64()
					if k, ok := g.fast(first); ok {
						t.Errorf("scale %v: the fast path calls a boundary at %v decided, %d", g.std, z, k)
					}
					if got := g.slow(first, &more); got != want {
						t.Errorf("scale %v, boundary at %v, digit %d from the end: got %d, want %d", g.std, z, last, got, want)
					}
				}
			}
		}
	}
}

func TestFarEnds(t *testing.T) {
	limit := new(big.Float).SetMantExp(big.NewFloat(1), -448)
	if p := alternating(t, farEnd.most); p.Cmp(limit) >= 0 {
		t.Errorf("a normal exceeds farEnd.most with probability %.3g, not below 2⁻⁴⁴⁸", p)
	}
	if p := math.Exp(-laplaceEnd.most); p >= 0x1p-448 {
		t.Errorf("a Laplace variable exceeds laplaceEnd.most with probability %v", p)
	}
	for _, x := range []float64{14, 20, farEnd.most, farEnd.most + 1} {
		off := new(big.Float).SetPrec(1400)
		if off.Sub(tail(new(big.Float).SetPrec(mostDigits+guard).SetFloat64(x)), alternating(t, x)).Abs(off).Cmp(tailError(mostDigits+guard)) > 0 {
			t.Errorf("tail(%v) is off by %.3g", x, off)
		}
	}
	for _, b := range []float64{0.5, MaxStd} {
		g := laplaceSampler(t, b, "ends")
		if got, want := g.slow(0, &[64]byte{}), int64(laplaceEnd.most*b); got != want {
			t.Errorf("scale %v: V = 0 gives %d, want the bound %d", b, got, want)
		}
		// 2⁻⁴⁰⁰: digit 400 of V is digit 337 of the further ones.
		var more [64]byte
		more[336/8] = 1 << 7
		if got, want := float64(g.slow(0, &more)), 400*math.Ln2*b; math.Abs(got-want) > 0.5+1e-12*want {
			t.Errorf("scale %v: V = 2⁻⁴⁰⁰ gives %v, want %v", b, got, want)
		}
	}
}

// A Direction's normals go on where those of New end.
func TestFarNormals(t *testing.T) {
	d := direction(t, 0x1p20, 6, "far")
	g := d.sampler(d.mixture(1))
	for _, digits := range []uint{130, 200, 440} {
		v := new(big.Int).Lsh(big.NewInt(1), mostDigits-digits)
		var more [64]byte
		v.FillBytes(more[:])
		k := g.slow(0, &more)
		x := func(shift int64) *big.Float {
			y := new(big.Float).SetPrec(mixturePrec).SetInt64(2*k + shift)
			y.Quo(y, g.wide)
			return y.SetMantExp(y, -1)
		}
		want := new(big.Float).SetMantExp(big.NewFloat(1), -int(digits))
		if tail(x(-1)).Cmp(want) < 0 || tail(x(1)).Cmp(want) > 0 {
			t.Errorf("V = 2^-%d gives %d, or %v deviations", digits, k, float64(k)/g.std)
		}
	}
}

// What the scale's error may move a tail by is left open.
func TestSlackIsLeftOpen(t *testing.T) {
	d := direction(t, 0x1p20, 6, "slack")
	length, _ := d.mixture(1)
	g := d.sampler(length, 0x1p-100)
	const k = 1 << 20
	x := new(big.Float).SetPrec(mixturePrec).SetInt64(2*k + 1)
	x.Quo(x, g.wide)
	boundary := tail(x.SetMantExp(x, -1))
	for _, test := range []struct {
		change float64
		want   answer
	}{{0x1p-110, unknown}, {-0x1p-110, unknown}, {0x1p-99, no}, {-0x1p-99, yes}} {
		v := new(big.Float).Add(boundary, new(big.Float).SetPrec(mixturePrec).SetFloat64(test.change))
		known, _ := v.SetMantExp(v, 255).Int(nil)
		if got := g.above(k, known, 255); got != test.want {
			t.Errorf("V %v above a boundary of slack 2⁻¹⁰⁰: the answer is %v, want %v", test.change, got, test.want)
		}
	}
}

// kolmogorov compares a sample with a distribution. By the inequality of
// Dvoretzky, Kiefer and Wolfowitz with Massart's constant it rejects a true one
// with probability at most 2e⁻²⁵, 2.8e-11.
func kolmogorov(t *testing.T, what string, x []float64, cdf func(float64) float64) {
	t.Helper()
	slices.Sort(x)
	n, off := float64(len(x)), 0.0
	for i, v := range x {
		p := cdf(v)
		off = max(off, p-float64(i)/n, float64(i+1)/n-p)
	}
	if limit := math.Sqrt(25 / (2 * n)); off > limit {
		t.Errorf("%s: the distribution function is off by %.4f, limit %.4f", what, off, limit)
	}
}

// erlang is the distribution function of Gamma(d, 1).
func erlang(d int) func(float64) float64 {
	return func(x float64) float64 {
		sum, term := 0.0, math.Exp(-x)
		for k := range d {
			if k > 0 {
				term *= x / float64(k)
			}
			sum += term
		}
		return 1 - sum
	}
}

// The radius is Gamma(d, scale) and the direction uniform, in even and odd
// dimensions: a definition of the noise that knows of no mixture. Rounding at
// this scale moves neither by 1e-5.
func TestDirectionDistribution(t *testing.T) {
	const n, scale = 4000, 0x1.8p20
	for _, d := range []int{1, 2, 3, 4, 7} {
		g := direction(t, scale, d, "distribution")
		radius, first, angle := make([]float64, n), make([]float64, n), make([]float64, n)
		var mean, product []float64 // of coordinates over the radius
		mean, product = make([]float64, d), make([]float64, d*d)
		together := 0.0 // of the radius, as a quantile, with the first coordinate's square
		z := make([]int64, d)
		for i := range n {
			clear(z)
			if err := g.Add(z, uint64(i)); err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, k := range z {
				sum += float64(k) * float64(k)
			}
			r := math.Sqrt(sum)
			radius[i], first[i] = r/scale, float64(z[0])/r
			angle[i] = math.Atan2(float64(z[0]), float64(z[d-1]))
			for a := range z {
				mean[a] += float64(z[a]) / r
				for b := range z {
					product[a*d+b] += float64(z[a]) * float64(z[b]) / (r * r)
				}
			}
			together += (erlang(d)(r/scale) - 0.5) * (first[i]*first[i] - 1/float64(d))
		}
		kolmogorov(t, fmt.Sprintf("radius in %d dimensions", d), radius, erlang(d))
		switch d {
		case 2:
			kolmogorov(t, "angle", angle, func(x float64) float64 { return x/(2*math.Pi) + 0.5 })
		case 3: // Archimedes
			kolmogorov(t, "first coordinate in 3 dimensions", first, func(x float64) float64 { return (x + 1) / 2 })
		case 4: // density (2/π)·√(1-x²)
			kolmogorov(t, "first coordinate in 4 dimensions", first, func(x float64) float64 {
				return 0.5 + (x*math.Sqrt(max(1-x*x, 0))+math.Asin(x))/math.Pi
			})
		}
		// The terms of each sum lie in an interval of length 2, and less: by
		// Hoeffding's inequality it leaves ±√(2·30·n) with probability below 2e⁻³⁰, and one of
		// the 99 sums with one below 2e-11.
		limit := math.Sqrt(2 * 30 * n)
		for a := range d {
			if math.Abs(mean[a]) > limit {
				t.Errorf("%d dimensions: coordinate %d has sum %.1f, limit %.1f", d, a, mean[a], limit)
			}
			for b := range d {
				want := 0.0
				if a == b {
					want = n / float64(d)
				}
				if math.Abs(product[a*d+b]-want) > limit {
					t.Errorf("%d dimensions: the product of coordinates %d and %d has sum %.1f, want %.1f within %.1f", d, a, b, product[a*d+b], want, limit)
				}
			}
		}
		if math.Abs(together) > limit {
			t.Errorf("%d dimensions: radius and direction go together, %.1f, limit %.1f", d, together, limit)
		}
	}
}

// In one dimension the noise is Laplace, rounded: exact probabilities at a scale of a grid step.
func TestDirectionInOneDimension(t *testing.T) {
	const n, limit = 1 << 14, 5
	g := direction(t, 1, 1, "one")
	upper := func(k int) float64 { return math.Exp(-(float64(k) - 0.5)) / 2 }
	counts, p := make([]int, 2*limit+1), make([]float64, 2*limit+1)
	for i := range p {
		switch k := max(i-limit, limit-i); k {
		case 0:
			p[i] = 1 - 2*upper(1)
		case limit:
			p[i] = upper(k)
		default:
			p[i] = upper(k) - upper(k+1)
		}
	}
	for i := range n {
		var z [1]int64
		if err := g.Add(z[:], uint64(i)); err != nil {
			t.Fatal(err)
		}
		counts[min(max(z[0], -limit), limit)+limit]++
	}
	chiSquare(t, "one dimension", counts, p, n)
}

// The pieces of S against other series and identities at full precision.
func TestMixtureFunctions(t *testing.T) {
	near := func(what string, got, want *big.Float, exponent int) {
		t.Helper()
		off := new(big.Float).Sub(got, want)
		if limit := new(big.Float).SetMantExp(big.NewFloat(1), exponent); off.Abs(off).Cmp(limit) > 0 {
			t.Errorf("%s is off by %.3g, more than %.3g", what, off, limit)
		}
	}
	at := func(x float64) *big.Float { return new(big.Float).SetPrec(mixturePrec).SetFloat64(x) }
	one := at(1)
	for _, x := range []float64{1e-30, 0.001, 0.24, 0.25, 0.3, 0.5, 0.7, 0.749, 0.75, 0.751, 0.99, 1 - 0x1p-53} {
		got := minusLog(at(x))
		// exp(-ln v)·v = 1.
		near(fmt.Sprintf("the logarithm of %v", x), exponential(got).Mul(exponential(got), at(x)), one, -600)
	}
	tiny := at(1)
	tiny.SetMantExp(tiny, -5000)
	ln2 := minusLog(at(0.5))
	near("the logarithm of 2⁻⁵⁰⁰⁰", minusLog(tiny), ln2.Mul(ln2, at(5000)), -600)
	nearOne := new(big.Float).Sub(one, new(big.Float).SetMantExp(big.NewFloat(1), -400))
	got := minusLog(nearOne) // 2⁻⁴⁰⁰ + 2⁻⁸⁰¹ + …
	near("the logarithm of 1 - 2⁻⁴⁰⁰", got.SetMantExp(got, 400), one, -280)

	for u, want := range map[float64]float64{1. / 2: 0.5, 0x1p-40: math.Pow(math.Cos(math.Pi*0x1p-41), 2)} {
		near(fmt.Sprintf("the squared cosine at %v", u), squaredCosine(at(u)), at(want), -51)
	}
	third := new(big.Float).Quo(one, at(3))
	near("cos²(π/6)", squaredCosine(third), at(0.75), -600)
	near("cos²(π/3)", squaredCosine(third.Mul(third, at(2))), at(0.25), -600)
	near("cos²(π/4)", squaredCosine(at(0.5)), at(0.5), -600)
}

// S is known to some 490 digits, and less by what a small uniform variable costs.
func TestMixtureIsWellKnown(t *testing.T) {
	for _, d := range []int{1, 2, 3, 784, 2001} {
		g := direction(t, 1, d, "known")
		for step := range uint64(20) {
			if _, slack := g.mixture(step); !(slack > 0 && slack < 0x1p-460) {
				t.Errorf("%d dimensions: S is known within %v", d, slack)
			}
		}
	}
	// A bad S leaves everything open, and to the guess.
	g := direction(t, 0x1p20, 1, "known")
	s := g.sampler(big.NewFloat(1).SetPrec(mixturePrec), 1)
	if _, ok := s.fast(1 << 61); ok {
		t.Error("the fast path decides with an unknown scale")
	}
}

// Coordinates are those of the same tensor's words, the S of its far blocks,
// and of nothing else.
// The uniform variables of S follow each other from mixtureBlock on, whatever the cipher's blocks.
func TestMixtureDigits(t *testing.T) {
	const n = 200
	for _, c := range ciphers {
		d := &Direction{1, 2 * n, samplerOf(t, 1, c, "mixture").source}
		raw := make([]byte, 64*n)
		d.stream.Fill(raw, 8, uint64(d.tensor)<<32|mixtureBlock)
		uniform := d.uniforms(8)
		for i := range n {
			v, _ := uniform()
			whole, _ := v.SetMantExp(v, mixtureDigits).Int(nil)
			if want := new(big.Int).SetBytes(raw[64*i:][:64]); whole.Cmp(want) != 0 {
				t.Fatalf("%v: variable %d has other digits", c, i)
			}
		}
	}
}

func TestDirectionLayout(t *testing.T) {
	const d = 3000
	at := func(dimension int, tensor uint32, step uint64, purpose string) []int64 {
		g, err := NewDirection(0x1p20, dimension, testStream(t, purpose), tensor)
		if err != nil {
			t.Fatal(err)
		}
		z := make([]int64, dimension)
		if err := g.Add(z, step); err != nil {
			t.Fatal(err)
		}
		return z
	}
	z := at(d, 4, 1, "layout")
	if !slices.Equal(z, at(d, 4, 1, "layout")) {
		t.Error("the same position gives another vector")
	}
	for what, other := range map[string][]int64{
		"step": at(d, 4, 2, "layout"), "tensor": at(d, 5, 1, "layout"), "key": at(d, 4, 1, "other"),
	} {
		same := 0
		for i := range z {
			if z[i] == other[i] {
				same++
			}
		}
		if same > 5 { // each with probability below 1e-7
			t.Errorf("another %s repeats %d coordinates", what, same)
		}
	}
	x := []int64{1, -2, 1 << 40}
	g := direction(t, 100, 3, "layout")
	if err := g.Add(x, 9); err != nil {
		t.Fatal(err)
	}
	zero := make([]int64, 3)
	if err := g.Add(zero, 9); err != nil {
		t.Fatal(err)
	}
	if x[0]-1 != zero[0] || x[1]+2 != zero[1] || x[2]-1<<40 != zero[2] {
		t.Errorf("noise %d became %d on another vector", zero, x)
	}
}

func TestOtherRefusals(t *testing.T) {
	good := testStream(t, "refusals")
	for _, scale := range []float64{0, MinStd / 2, math.Nextafter(MaxStd, math.Inf(1)), math.NaN(), math.Inf(1), -1} {
		if _, err := NewLaplace(scale, good, 0); err == nil || !strings.Contains(err.Error(), "must be in") {
			t.Errorf("Laplace of scale %v: %v", scale, err)
		}
		if _, err := NewDirection(scale, 3, good, 0); err == nil || !strings.Contains(err.Error(), "must be in") {
			t.Errorf("direction of scale %v: %v", scale, err)
		}
	}
	for _, d := range []int{0, -1, maxDimension + 1} {
		if _, err := NewDirection(1, d, good, 0); err == nil || !strings.Contains(err.Error(), "dimensions") {
			t.Errorf("%d dimensions: %v", d, err)
		}
	}
	if _, err := NewLaplace(1, nil, 0); err == nil {
		t.Error("Laplace noise without a stream")
	}
	if _, err := NewDirection(1, 1, good, MaxTensor); err == nil {
		t.Error("a direction of a tensor of further digits")
	}
	if err := direction(t, 1, 3, "refusals").Add(make([]int64, 2), 0); err == nil {
		t.Error("2 values in 3 dimensions are accepted")
	}
}

// A release of a Direction is the rounded number plus its draw.
func TestDirectionRelease(t *testing.T) {
	src := []float64{0.3, -0.75, 1e30, math.Inf(-1), 5}
	g := direction(t, 300, len(src), "release")
	k := make([]int64, len(src))
	if err := g.Add(k, 9); err != nil {
		t.Fatal(err)
	}
	dst := make([]float64, len(src))
	if err := g.Release64(dst, src, 0.5, 9); err != nil {
		t.Fatal(err)
	}
	for i, units := range []float64{1, -2, 0x1p49, -0x1p49, 10} { // 0.6 and -1.5 steps, and what is clamped
		if want := (units + float64(k[i])) / 2; dst[i] != want {
			t.Errorf("%v is released as %v, want %v", src[i], dst[i], want)
		}
	}
	for _, step := range []float64{0.3, 0, math.NaN(), MinGrid / 2} {
		if err := g.Release64(dst, src, step, 9); err == nil {
			t.Errorf("a grid of step %v was accepted", step)
		}
	}
	if err := g.Release64(dst[:2], src, 0.5, 9); err == nil {
		t.Error("five values were released into two")
	}
}
