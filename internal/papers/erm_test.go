package papers

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestGoldenAnalyticGaussian(t *testing.T) {
	var all []struct {
		Eps, Delta float64
		Ratio      float64 `json:"sigma_over_Delta"`
	}
	golden(t, "analytic_gaussian.json", &all)
	if len(all) < 14 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		got := must(AnalyticGaussian(v.Eps, v.Delta))(t)
		near(t, "sigma", got, v.Ratio, 1e-10)
		if got < v.Ratio*(1-1e-14) {
			t.Errorf("ε %v, δ %v: %v is below %v", v.Eps, v.Delta, got, v.Ratio)
		}
	}
}

// Where e^ε leaves float64's range, and where the two tails all but cancel.
// The values are the root of the same equation in 60 digits (mpmath); in
// the first two rounding hides eight and six digits of δ, and σ errs upwards.
func TestAnalyticGaussianFar(t *testing.T) {
	for _, v := range []struct{ epsilon, delta, want, tolerance float64 }{
		{1e-6, 1e-10, 3062226.80631928101, 1e-7},
		{0.001, 1e-12, 5412.30219384392706, 1e-9},
		{0.01, 1e-30, 1062.47897186792836, 1e-10},
		{1, 1e-100, 21.0094090423006208, 1e-10},
		{50, 1e-5, 0.149760607560836019, 1e-10},
		{800, 1e-5, 0.0277891140822507918, 1e-10},
		{5000, 1e-12, 0.0107270531921401308, 1e-10},
		{0.001, 0.5, 0.740869185195626355, 1e-10},
		{3, 0.9, 0.225538503612803563, 1e-10},
	} {
		got := must(AnalyticGaussian(v.epsilon, v.delta))(t)
		near(t, "sigma", got, v.want, v.tolerance)
		if got < v.want*(1-1e-15) {
			t.Errorf("ε %v, δ %v: %.17g is below %.17g", v.epsilon, v.delta, got, v.want)
		}
	}
	for _, v := range [][2]float64{{0, 0.1}, {math.Inf(1), 0.1}, {1, 0}, {1, 1}, {math.NaN(), 0.1}, {1e-300, 1e-300}} {
		if s, err := AnalyticGaussian(v[0], v[1]); err == nil {
			t.Errorf("ε %v, δ %v gives %v", v[0], v[1], s)
		}
	}
}

// Two runs of gradient descent on losses that attain the bounds: linear in one
// coordinate, with a common quadratic.
func TestDescentSensitivity(t *testing.T) {
	const n, lipschitz, smoothness = 50, 1.7, 0.8
	for _, mu := range []float64{0, 0.01, 0.3, 0.8} {
		eta := 1.2 / (smoothness + mu)
		for _, steps := range []int{1, 10, 1000} {
			g := Descent{n, steps, lipschitz, smoothness, mu, eta}
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			var w, v float64
			for range steps {
				w -= eta * (mu*w + lipschitz*float64(n-2)/n)
				v -= eta * (mu*v + lipschitz)
			}
			near(t, "sensitivity", g.Sensitivity(), w-v, 1e-9)
			if g.PaperSensitivity() < g.Sensitivity() {
				t.Errorf("the paper's bound %v is below the true sensitivity %v", g.PaperSensitivity(), g.Sensitivity())
			}
		}
	}
	near(t, "paper, convex", Descent{100, 20, 2, 0.5, 0, 1}.PaperSensitivity(), 1.2, 1e-12)
	near(t, "paper, strongly convex", Descent{100, 20, 2, 0.5, 0.5, 1}.PaperSensitivity(), 0.4, 1e-12)
	for _, c := range []struct {
		g    Descent
		want string
	}{
		{Descent{0, 1, 1, 1, 0, 1}, "records"}, {Descent{1, 0, 1, 1, 0, 1}, "steps"}, {Descent{1, 1, 0, 1, 0, 1}, "lipschitz"},
		{Descent{1, 1, 1, 0, 0, 1}, "smoothness"}, {Descent{1, 1, 1, 1, 2, 0.1}, "strong convexity 2"}, {Descent{1, 1, 1, 1, -1, 0.1}, "strong convexity -1"},
		{Descent{1, 1, 1, 1, math.NaN(), 0.1}, "strong convexity"}, {Descent{1, 1, 1, 1, 0, 2.1}, "learning rate 2.1"},
		{Descent{1, 1, 1, 1, 0.5, 1.4}, "learning rate 1.4"}, {Descent{1, 1, 1, 1, 0, 0}, "learning rate 0"},
	} {
		if err := c.g.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.g, err, c.want)
		}
	}
	if err := (Descent{1, 1, 1, 1, 0, 2}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestGoldenRRPSGD(t *testing.T) {
	var all []struct {
		N          int
		Eps, Delta float64
		Noise      float64 `json:"noise_mult"`
	}
	golden(t, "rrpsgd.json", &all)
	if len(all) < 4 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		r := must(NewRRPSGD(v.N, v.Eps, v.Delta))(t)
		near(t, "noise multiplier", r.NoiseMultiplier, v.Noise, 1e-12)
		if r.Steps != v.N*v.N || !r.Claimed {
			t.Errorf("n %d: %+v", v.N, r)
		}
	}
	if r := must(NewRRPSGD(100, 1.01, 1e-3))(t); r.Claimed {
		t.Error("theorem 4 does not cover ε above 1")
	}
	for _, err := range []error{
		func() error { _, err := NewRRPSGD(0, 1, 0.1); return err }(),
		func() error { _, err := NewRRPSGD(math.MaxInt, 1, 0.1); return err }(),
		func() error { _, err := NewRRPSGD(10, 0, 0.1); return err }(),
		func() error { _, err := NewRRPSGD(10, 1, 1); return err }(),
	} {
		if err == nil {
			t.Error("bad input is accepted")
		}
	}
}

// R follows 2η−βη². The counts of 200,000 draws with a fixed seed are compared
// with their expectations by a chi-squared statistic of 7 degrees of freedom;
// above 60 it would be with probability 1.5e-10 were R right, with another seed.
func TestDrawRounds(t *testing.T) {
	const beta, draws = 2.0, 200_000
	rates := []float64{0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.05, 0.5}
	random := rand.New(rand.NewPCG(7, 11))
	counts := make([]float64, len(rates))
	for range draws {
		r := must(DrawRounds(len(rates), func(k int) float64 { return rates[k] }, beta, 0.5, random.Float64))(t)
		counts[r-1]++
	}
	sum := 0.0
	for _, eta := range rates {
		sum += 2*eta - beta*eta*eta
	}
	statistic := 0.0
	for k, eta := range rates {
		want := draws * (2*eta - beta*eta*eta) / sum
		statistic += (counts[k] - want) * (counts[k] - want) / want
	}
	if statistic > 60 {
		t.Errorf("counts %v: chi-squared %v", counts, statistic)
	}

	constant := func(int) float64 { return 0.1 }
	for u, want := range map[float64]int{0: 1, 0.999999: 1_000_000} { // the ends of n² rounds
		sequence := []float64{u, 0}
		r := must(DrawRounds(1_000_000, constant, beta, 0.1, func() float64 { x := sequence[0]; sequence = sequence[1:]; return x }))(t)
		if r != want {
			t.Errorf("R is %d, want %d", r, want)
		}
	}
	for _, c := range []struct {
		steps         int
		rate          float64
		beta, largest float64
	}{{0, 0.1, 1, 0.1}, {1, 0.1, 0, 0.1}, {1, 0.1, 1, 1.1}, {1, 0.2, 1, 0.1}, {1, 0, 1, 0.1}, {1, math.NaN(), 1, 0.1}, {1, 1e-12, 1, 1}} {
		if r, err := DrawRounds(c.steps, func(int) float64 { return c.rate }, c.beta, c.largest, random.Float64); err == nil {
			t.Errorf("%+v gives %d", c, r)
		}
	}
}

// How much less noise there is than the paper's, as a ratio of variances, to the digits of
// docs/proofs/output-perturbation.md; and that of Chen and Lee 2020's baseline, in units of Δ.
func TestNoiseAgainstThePaper(t *testing.T) {
	const delta = 1e-3
	digits := func(what string, got, want, half float64) {
		t.Helper()
		if math.Abs(got-want) > half {
			t.Errorf("%s: %v, documented as %v", what, got, want)
		}
	}
	for i, epsilon := range []float64{0.1, 0.5, 1, 2} {
		ours := must(AnalyticGaussian(epsilon, delta))(t)
		ratio := func(mu, beta float64, steps int) float64 {
			g := Descent{1000, steps, 1, beta, mu, 1 / (beta + mu)}
			return math.Pow(g.PaperSensitivity()*PaperNoise(epsilon, delta)/(g.Sensitivity()*ours), 2)
		}
		digits("convex", ratio(0, 0.25, 77), []float64{11.3, 6.4, 5.2, 4.1}[i], 0.05)
		digits("strongly convex", ratio(0.1, 0.35, 1000), []float64{52, 30, 24, 19}[i], 0.5)
	}
	for i, epsilon := range []float64{0.1, 0.8} {
		digits("classical", math.Sqrt(2*math.Log(1.25/1e-8))/epsilon, []float64{61.1, 7.63}[i], []float64{0.05, 0.005}[i])
		digits("analytic", must(AnalyticGaussian(epsilon, 1e-8))(t), []float64{45.9, 6.30}[i], []float64{0.05, 0.005}[i])
	}
}

// Algorithm 1's Gaussian noise does not keep every ε that theorem 1 claims.
func TestPaperNoiseFails(t *testing.T) {
	for _, c := range []struct {
		epsilon float64
		holds   bool
	}{{0.1, true}, {1, true}, {8, true}, {20, false}} {
		if holds := gaussianDelta(c.epsilon, PaperNoise(c.epsilon, 1e-3)) <= 1e-3; holds != c.holds {
			t.Errorf("ε %v: δ holds: %v", c.epsilon, holds)
		}
	}
}

// Theorem 1 takes the Lipschitz bound on the ball in which one data set's minimum lies. Squared losses
// (w−y)²/2 are convex and smooth, and of |y| ≤ 1 have a minimum in [−1, 1]. A neighbor has a record far away.
func TestTheoremOneNeedsEveryDataSet(t *testing.T) {
	const n, steps, eta, radius = 10, 100, 0.5, 1.
	g := Descent{n, steps, 2*radius + 1, 1, 1, eta} // |w − y| ≤ 3 for |w| ≤ 2D
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	var w, v float64
	for range steps {
		w -= eta * w                    // all y are 0
		v -= eta * (v - 1e4/float64(n)) // and one is 10⁴
	}
	if moved := math.Abs(v - w); moved < 100*g.PaperSensitivity() {
		t.Errorf("a far record moves the result by %v, of a claimed %v", moved, g.PaperSensitivity())
	}
}

// The logistic loss as printed, log(1 + exp(1 + y⟨w, x⟩)), falls where the product is negative: its
// descent says the wrong class.
func TestPrintedLogisticLoss(t *testing.T) {
	var w float64
	for range 100 {
		w -= 1 / (1 + math.Exp(-(1 + w))) // records of x = y = 1 and x = y = −1
	}
	if w >= 0 {
		t.Errorf("the weight of a feature that is the class is %v", w)
	}
}

// A step of algorithm 2, of sensitivity 2L, against what theorem 4's proof says that it costs.
func TestTheoremFourStep(t *testing.T) {
	for _, n := range []int{100, 1000, 100000} {
		const epsilon, delta = 0.5, 1e-3
		r := must(NewRRPSGD(n, epsilon, delta))(t)
		step := math.Sqrt(2*math.Log(2.5*float64(n)/delta)) / r.NoiseMultiplier
		if off := step / (epsilon / (2 * math.Sqrt(2*math.Log(2/delta)))); math.Abs(off-4) > 0.05 {
			t.Errorf("n %d: a step costs %v times what the proof says", n, off)
		}
	}
}

// Steps of theorems 2 and 3, by their formulas.
func TestPaperSteps(t *testing.T) {
	g := Descent{1000, 1, 2, 0.5, 0, 1}
	near(t, "convex, pure", g.PaperSteps(1, 0, 10, 5), math.Ceil(math.Cbrt(0.25*1e6*100/(4*25))), 1e-12)
	near(t, "convex", g.PaperSteps(1, math.Exp(-4), 10, 5), math.Ceil(math.Cbrt(0.25*1e6*100/(4*5*4))), 1e-12)
	g.StrongConvexity = 0.1
	near(t, "strongly convex", g.PaperSteps(1, math.Exp(-4), 10, 5), math.Ceil(0.26/0.05*math.Log(0.01*1e6*100/(4*5*4))), 1e-12)
	if steps := g.PaperSteps(1e-6, 1e-5, 1, 5); steps != 1 {
		t.Errorf("where there is nothing to learn: %v steps", steps)
	}
}
