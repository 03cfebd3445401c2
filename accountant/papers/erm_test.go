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
	near(t, "radius", RadiusScale(0.3, 2), 0.15, 1e-15)
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
