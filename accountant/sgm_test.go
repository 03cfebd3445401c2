package accountant

import (
	"fmt"
	"math"
	"testing"
)

// renyi integrates D_α(P‖Q) by Simpson's rule, independent of the package's
// own quadrature: ln P and ln Q are computed as they are written, and the
// integrand is P^α·Q^{1−α} itself.
func renyi(logP, logQ func(float64) float64, alpha, from, to float64) float64 {
	const perUnit = 160
	n := 2 * int(math.Ceil((to-from)*perUnit/2))
	h := (to - from) / float64(n)
	logs, top := make([]float64, n+1), math.Inf(-1)
	for i := range logs {
		z := from + float64(i)*h
		logs[i] = alpha*logP(z) - (alpha-1)*logQ(z)
		top = math.Max(top, logs[i])
	}
	sum := 0.0
	for i, l := range logs {
		w := 2.0 + 2*float64(i%2)
		if i == 0 || i == n {
			w = 1
		}
		sum += w * math.Exp(l-top)
	}
	return (top + math.Log(sum*h/3)) / (alpha - 1)
}

// mixture is ln((1−q)N(0,1)+qN(mean,1)).
func mixture(q, mean float64) func(float64) float64 {
	a, b := math.Log1p(-q), math.Log(q)
	return func(z float64) float64 {
		x, y := a-z*z/2, b-(z-mean)*(z-mean)/2
		if x < y {
			x, y = y, x
		}
		return x + math.Log1p(math.Exp(y-x)) - math.Log(2*math.Pi)/2
	}
}

// Simpson's rule at this spacing is exact to rounding, which is 1e-12 on the
// moment and so 1e-12/(α−1) on the divergence.
func closeTo(t *testing.T, what string, got, want, alpha float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-11*want+2e-12/(alpha-1)) {
		t.Errorf("%s: got %.17g, want %.17g", what, got, want)
	}
}

func TestReplaceOneAgainstIndependentIntegration(t *testing.T) {
	for _, q := range []float64{1e-4, 0.01, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6} {
		for _, sigma := range []float64{0.3, 0.5, 1, 2, 10} {
			for _, alpha := range []float64{1.1, 1.5, 2, 3.7, 8, 20, 63} {
				mu := 1 / sigma
				up, down := mixture(q, mu), mixture(q, -mu)
				from, to := -2*mu-12, 2*alpha*mu+12
				got := rdpSampledGaussian(q, sigma, alpha, ReplaceOne)
				at := fmt.Sprintf("q %v, sigma %v, order %v", q, sigma, alpha)
				closeTo(t, at, got, renyi(up, down, alpha, from, to), alpha)
				closeTo(t, at+", other direction", got, renyi(down, up, alpha, -to, -from), alpha)
			}
		}
	}
}

func TestAddRemoveAgainstIndependentIntegration(t *testing.T) {
	for _, q := range []float64{1e-4, 0.01, 0.5, 0.999, 1 - 1e-6} {
		for _, sigma := range []float64{0.3, 1, 2, 10} {
			for _, alpha := range []float64{1.1, 1.5, 2, 3.7, 8, 10.9, 63} {
				mu := 1 / sigma
				with, without := mixture(q, mu), mixture(0, 0)
				got := rdpSampledGaussian(q, sigma, alpha, AddRemove)
				at := fmt.Sprintf("q %v, sigma %v, order %v", q, sigma, alpha)
				closeTo(t, at, got, renyi(with, without, alpha, -12, alpha*mu+12), alpha)
				// Adding is the worse direction.
				if other := renyi(without, with, alpha, -alpha*mu-12, 12); other > got*(1+1e-9)+1e-11/(alpha-1) {
					t.Errorf("%s: removing costs %v, more than adding, %v", at, other, got)
				}
			}
		}
	}
}

// The pair with both records at the bound, opposite to each other, is the
// worst that a replacement can do.
func TestReplaceOneIsWorstForOppositeRecords(t *testing.T) {
	const q, sigma = 0.2, 0.8
	mu := 1 / sigma
	for _, alpha := range []float64{1.3, 2, 6} {
		worst := rdpSampledGaussian(q, sigma, alpha, ReplaceOne)
		for _, x := range []float64{-1, -0.5, 0, 0.5, 1} {
			for _, y := range []float64{-0.9, -0.5, 0, 0.5, 0.9} {
				d := renyi(mixture(q, x*mu), mixture(q, y*mu), alpha, -2*alpha*mu-12, 2*alpha*mu+12)
				if d >= worst {
					t.Errorf("order %v: records at %v and %v cost %v, opposite ones %v", alpha, x, y, d, worst)
				}
			}
		}
		// In two dimensions, at an angle: the trapezoid rule on a square.
		for _, degrees := range []float64{0, 60, 120, 170} {
			angle := degrees * math.Pi / 180
			cx, cy := mu*math.Cos(angle), mu*math.Sin(angle)
			const h, half = 0.2, 24
			sum := 0.0
			for i := -int(half / h); i <= int(half/h); i++ {
				for j := -int(half / h); j <= int(half/h); j++ {
					x, y := float64(i)*h, float64(j)*h
					p := (1 - q) + q*math.Exp(mu*x-mu*mu/2)
					r := (1 - q) + q*math.Exp(cx*x+cy*y-mu*mu/2)
					sum += math.Exp(-(x*x+y*y)/2+alpha*math.Log(p/r)) * r
				}
			}
			d := math.Log(sum*h*h/(2*math.Pi)) / (alpha - 1)
			if d >= worst {
				t.Errorf("order %v: records %v degrees apart cost %v, opposite ones %v", alpha, degrees, d, worst)
			}
		}
	}
}

// dp_accounting #378: under replace-one a sum moves by twice the bound. Charging
// the add-remove pair, or the doubled distance without the mixture on both
// sides, misses the tight values of another accountant, 2.84 and 1.828.
func TestReplaceOneOffByTwo(t *testing.T) {
	steps := PoissonBatch(0.01, 1000, Gaussian{1})
	replace := account(t, RDP, ReplaceOne, 1e-5, steps).Epsilon
	if replace < 2.84 || replace > 3.2 {
		t.Errorf("replace-one epsilon is %v, below the tight 2.84 or far above it", replace)
	}
	add := account(t, RDP, AddRemove, 1e-5, steps).Epsilon
	if add < 1.8282 || add > 2.2 {
		t.Errorf("add-remove epsilon is %v, below the tight 1.8282 or far above it", add)
	}
	// On the full data both relations compare two normal densities.
	for _, sigma := range []float64{0.3, 1, 7, 400} {
		full := Event{Mechanisms: []Mechanism{Gaussian{sigma}}, Count: 3}
		half := Event{Mechanisms: []Mechanism{Gaussian{sigma / 2}}, Count: 3}
		near(t, "full batch", account(t, RDP, ReplaceOne, 1e-5, full).Epsilon, account(t, RDP, AddRemove, 1e-5, half).Epsilon, 1e-14)
	}
	// Sampling at a rate close to 1 tends to it.
	for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
		near(t, "rate near 1", rdpSampledGaussian(1-1e-9, 2, 3.5, n), rdpSampledGaussian(1, 2, 3.5, n), 1e-7)
	}
}

// grid visits rates, multipliers and orders where quadrature is what decides.
func grid(f func(q, sigma, alpha float64)) {
	for _, q := range []float64{1e-30, 1e-17, 1e-8, 1e-4, 0.01, 0.3, 0.9, 0.999, 1 - 1e-9, 1 - 1e-15} {
		for _, sigma := range []float64{0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3, 5, 10, 100, 1e6} {
			for _, alpha := range []float64{1.0000001, 1.001, 1.1, 1.5, 2, 3, 5.5, 10.9, 32, 128, 512} {
				if x := (alpha - 1) / (2 * sigma * sigma); x < far-math.Log(q)-math.Log1p(-q) {
					f(q, sigma, alpha)
				}
			}
		}
	}
}

// The quadrature is accurate to 1e-11 relative in ln A, however small.
func TestQuadratureEqualsBinomialSumAtIntegerOrders(t *testing.T) {
	worst := 0.0
	for _, q := range []float64{1e-8, 1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 0.999} {
		for _, sigma := range []float64{0.2, 0.3, 0.5, 0.8, 1, 2, 5, 20, 100} {
			for _, alpha := range []int{2, 3, 4, 7, 10, 16, 32, 63, 128} {
				got := logMoment(addPair{q, 1 / sigma}, float64(alpha))
				want := log1pExp(logBinomialExcess(q, sigma, alpha))
				worst = math.Max(worst, math.Abs(got/want-1))
				near(t, fmt.Sprintf("q %v, sigma %v, order %v", q, sigma, alpha), got, want, 1e-11)
			}
		}
	}
	t.Logf("worst relative difference %.2g", worst)
}

// Halving the spacing, and widening the reach, change no moment by more than
// 1e-12 relative.
func TestQuadratureHasConverged(t *testing.T) {
	finer, wider := 0.0, 0.0
	grid(func(q, sigma, alpha float64) {
		for _, p := range []pair{addPair{q, 1 / sigma}, replacePair{q, 1 / sigma}} {
			h := p.step(alpha)
			base := logMoment(p, alpha)
			excess := func(u, d float64) float64 { return logExcess(alpha, u, d) }
			at := fmt.Sprintf("%T%v, order %v", p, p, alpha)
			a, b := log1pExp(trapezoid(p, alpha, h/2, reach, excess)), log1pExp(trapezoid(p, alpha, h, reach+6, excess))
			near(t, at+", half the spacing", a, base, 1e-12)
			near(t, at+", wider reach", b, base, 1e-12)
			finer, wider = math.Max(finer, math.Abs(a/base-1)), math.Max(wider, math.Abs(b/base-1))
		}
	})
	t.Logf("worst relative change %.2g by half the spacing, %.2g by a wider reach", finer, wider)
}

// For small q the divergence tends to α/2·χ², with χ² = q²(e^{μ²}−1) under
// add-remove and 2q²(e^{μ²}−e^{−μ²}) under replace-one, up to terms smaller by
// a factor of order α·q·e^{2μ²}.
func TestSmallDivergenceLimit(t *testing.T) {
	for _, q := range []float64{1e-140, 1e-30, 1e-12, 1e-9} {
		for _, mu := range []float64{1e-6, 0.01, 0.5, 1} {
			for _, alpha := range []float64{1.00001, 1.1, 2, 2.5, 7, 40.5} {
				// The ratio weighted by the k-th power grows like e^{k(k−1)μ²/2}.
				if (alpha-1)*mu*mu > 8 {
					continue
				}
				rel := 1e-11 + 3*alpha*q*math.Exp(alpha*alpha*mu*mu/2)
				if rel > 1e-4 {
					continue
				}
				near(t, fmt.Sprintf("add-remove, q %v, mu %v, order %v", q, mu, alpha),
					rdpSampledGaussian(q, 1/mu, alpha, AddRemove), alpha/2*q*q*math.Expm1(mu*mu), rel)
				near(t, fmt.Sprintf("replace-one, q %v, mu %v, order %v", q, mu, alpha),
					rdpSampledGaussian(q, 1/mu, alpha, ReplaceOne), 2*alpha*q*q*math.Sinh(mu*mu), rel)
			}
		}
	}
}

// Where noise is so small that the closed form takes over, it and the
// quadrature agree; and it is what an independent integration gives.
func TestClosedFormForLittleNoise(t *testing.T) {
	for _, q := range []float64{1e-6, 0.01, 0.5, 0.99} {
		for _, alpha := range []float64{1.1, 1.7, 4, 10.9, 40} {
			for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
				edge := far - math.Log(q)
				if n == ReplaceOne {
					edge -= math.Log1p(-q)
				}
				sigma := math.Sqrt((alpha - 1) / (2 * edge))
				inside := rdpSampledGaussian(q, sigma*(1+1e-14), alpha, n)
				beyond := rdpSampledGaussian(q, sigma*(1-1e-14), alpha, n)
				near(t, fmt.Sprintf("%s, q %v, order %v", n, q, alpha), beyond, inside, 1e-12)
			}
		}
	}
	for _, sigma := range []float64{0.001, 1e-6, 1e-100, 1e-154, 1e-200} {
		for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
			for _, alpha := range []float64{1.1, 2, 512} {
				got := rdpSampledGaussian(0.01, sigma, alpha, n)
				if math.IsNaN(got) || got < 1e4 {
					t.Errorf("%s: almost no noise, multiplier %v, costs %v at order %v", n, sigma, got, alpha)
				}
			}
		}
	}
}

// Extreme rates neither overflow nor turn into NaN, which a minimum over orders
// would pass over in silence.
func TestExtremeRates(t *testing.T) {
	for _, q := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-17, 1 - 1e-16} {
		for _, sigma := range []float64{0.01, 0.04, 0.3, 1, 1e9, math.Inf(1)} {
			for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
				last := 0.0
				for _, alpha := range []float64{1.1, 1.5, 2, 3, 10.9, 63, 512} {
					d := rdpSampledGaussian(q, sigma, alpha, n)
					if !(d >= last*(1-1e-12)) || math.IsInf(d, 0) {
						t.Errorf("%s, q %v, sigma %v: %v at order %v after %v", n, q, sigma, d, alpha, last)
					}
					last = d
				}
			}
		}
	}
}
