package banco

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("%s: got %.17g, want %.17g within %g", what, got, want, tolerance)
	}
}

// The vectors are integrals in 50 digits.
func TestGoldenMagnitude(t *testing.T) {
	raw, err := os.ReadFile("testdata/banco_m.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		A, X, Y float64
		Log     float64 `json:"log_abs_m"`
		Sign    int
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		got, sign := logMagnitude(v.X, v.A, v.Y)
		near(t, "log|m|", got, v.Log, 1e-12)
		if sign != v.Sign {
			t.Errorf("sign at x = %v is %d, want %d", v.X, sign, v.Sign)
		}
	}
}

// Far from the vectors, by the same integral in 60 digits (mpmath's quadrature
// around the peak): both sides of the seam x = 2ay, sums of all sizes.
func TestMagnitudeAtTheEdges(t *testing.T) {
	for _, v := range []struct{ x, a, y, want float64 }{
		{0.5, 0.25, 4.6, -4.7324811874839533631},
		{2.2999, 0.25, 4.6, -3.17615724319668016},
		{2.3, 0.25, 4.6, -3.1761110087276281055},
		{2.3001, 0.25, 4.6, -3.1760647760312052231},
		{50, 0.25, 4.6, 7.563560187011031957},
		{1e7, 0.25, 4.6, 2499982.9012569984815},
		{1e12, 0.6838, 4.02, 683799999969.7961137},
		{1e5, 0.6838, 1, 68367.326343965893634},
		{1.3, 0.6838, 1, -1.7953974849045211719},
		{3000, 0.01, 1e6, -6.6756575015032635973},
		{19999, 0.01, 1e6, 92.210787300447136814},
		{20001, 0.01, 1e6, 92.229697432015235436},
		{25000, 0.01, 1e6, 140.70370866056336869},
	} {
		got, _ := logMagnitude(v.x, v.a, v.y)
		near(t, "log|m|", got, v.want, 1e-12)
	}
	small, _ := logMagnitude(1e-6, 0.25, 4.6)
	tiny, _ := logMagnitude(1e-200, 0.25, 4.6) // m is linear there
	near(t, "log|m| near 0", tiny, small+math.Log(1e-200)-math.Log(1e-6), 1e-12)
	if got, sign := logMagnitude(0, 0.25, 4.6); !math.IsInf(got, -1) || sign != 0 {
		t.Errorf("m(0) is %d·exp(%v)", sign, got)
	}
	if got, _ := logMagnitude(math.NaN(), 0.25, 4.6); !math.IsNaN(got) {
		t.Errorf("m of no number has logarithm %v", got)
	}
}

func TestScaledTail(t *testing.T) {
	for _, v := range []struct{ z, erfcx, gap float64 }{
		{0, 1, 1},
		{0.1, 0.896456979969126637, 0.841107137368259236},
		{1, 0.427583576155807004, 0.242127843858687894},
		{5, 0.110704637733068626, 0.0189056926846120856},
		{10, 0.0561409927438225859, 0.00492681217553025262},
		{24.999, 0.0225504730140420841, 0.000798151335738258683},
		{25.001, 0.0225486719231123269, 0.000798023946478733767},
		{30, 0.0187958888614167515, 0.000554632191693512293},
		{100, 0.0056416137829894329, 4.99925018743440452e-5},
		{1e6, 5.64189583547474192e-7, 4.9999999999925e-13},
	} {
		if got := erfcx(v.z); math.Abs(got-v.erfcx) > 2e-15*v.erfcx {
			t.Errorf("erfcx(%v) = %.17g, want %.17g", v.z, got, v.erfcx)
		}
		near(t, "gap", tailGap(v.z), v.gap, 1e-15)
	}
}

func TestParams(t *testing.T) {
	for _, v := range []struct {
		epsilon, bound      float64
		dim                 int
		radius, tail, limit float64
	}{
		{1, 1, 5, 2, 4, 0.25},
		{0.5, 1, 100, 4, 8, 0.125},
		{4, 1, 20, 0.5, 1, 0.6838}, // bets are bounded for another reason than the noise
		{1, 3, 5, 6, 12, 1. / 12},
	} {
		p, err := New(v.epsilon, v.bound, v.dim)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "radius scale", p.RadiusScale(), v.radius, 1e-15)
		near(t, "tail", p.Tail(), v.tail, 1e-15)
		near(t, "bet limit", p.BetLimit(), v.limit, 1e-15)
		near(t, "seven uses", p.Cost(7), 7*v.epsilon, 1e-15)

		// Sub-exponential with (σ²_1D, b): ln E[e^{β⟨ξ,u⟩}] ≤ β²σ²_1D/2 for
		// |β| ≤ 1/b, and no smaller σ²_1D will do.
		most := 1 / p.Tail()
		generating := func(beta float64) float64 {
			s := beta * p.RadiusScale()
			return -float64(v.dim+1) / 2 * math.Log1p(-s*s)
		}
		for i := 1; i <= 100; i++ {
			beta := most * float64(i) / 100
			if g, bound := generating(beta), beta*beta*p.DirectionVariance()/2; g > bound*(1+1e-12) {
				t.Errorf("at %v of 1/b the noise's generating function %v is above %v", float64(i)/100, g, bound)
			}
		}
		near(t, "the bound at 1/b", most*most*p.DirectionVariance()/2, generating(most), 1e-12)

		y := p.Curvature(3)
		near(t, "y", y, 3*(p.DirectionVariance()/2+v.bound*v.bound), 1e-15)
		// What the first closed form needs.
		if a := p.BetLimit(); a*a*p.Curvature(1) < 0.28 {
			t.Errorf("a²y is %v", a*a*p.Curvature(1))
		}
		up, plus := p.LogMagnitude(2, 3)
		down, minus := p.LogMagnitude(-2, 3)
		if want, _ := logMagnitude(2, p.BetLimit(), y); up != want || down != want || plus != 1 || minus != -1 {
			t.Errorf("bets of %d·exp(%v) and %d·exp(%v), want exp(%v) both ways", plus, up, minus, down, want)
		}
	}
}

// What is said of reports on a sphere: their norm is the integral's, with which the mean is the gradient; and the
// noise of a gradient of any length along an axis, in that axis, is sub-exponential as the bet needs it.
func TestSphere(t *testing.T) {
	for _, epsilon := range []float64{0.1, 1, 8} {
		for _, dim := range []int{2, 3, 5, 20, 100} {
			p, _ := New(epsilon, 3, dim)
			p = p.OnSphere()
			// Of a coordinate sin θ of a uniform direction θ has the density cos^{d−2}.
			integral := func(f func(u float64) float64) float64 {
				weight := func(x float64) float64 { return math.Pow(math.Cos(x), float64(dim-2)) }
				half := math.Pi / 2
				return simpson(half, func(x float64) float64 { return weight(x) * f(math.Sin(x)) }) / simpson(half, weight)
			}
			right := math.Tanh(epsilon / 2) // how much more often than not a report lies in the gradient's half
			mean := p.Radius() * right * integral(math.Abs)
			near(t, "a report's mean", mean, 3, 1e-6)
			near(t, "b", p.Tail()*math.Sqrt(float64(dim)), p.Radius(), 1e-12)
			for _, share := range []float64{0, 0.5, 1} { // of the bound
				for i := -4; i <= 4; i++ {
					beta := float64(i) / 4 / p.Tail()
					generating := integral(func(u float64) float64 {
						if math.Abs(u) < 1e-12 {
							return 1
						}
						return math.Exp(beta*p.Radius()*u) * (1 + share*right*math.Copysign(1, u))
					}) * math.Exp(-beta*share*mean)
					if bound := math.Exp(beta * beta * p.DirectionVariance() / 2); generating > bound*(1+1e-9) {
						t.Errorf("ε %v, d %d, at %v of 1/b: the noise's generating function %v is above %v", epsilon, dim, float64(i)/4, generating, bound)
					}
				}
			}
			if a := p.BetLimit(); a*a*p.Curvature(1) < 0.28 { // what the closed form of a bet needs
				t.Errorf("a²y is %v", a*a*p.Curvature(1))
			}
		}
	}
	p, _ := New(1, 2, 3)
	near(t, "the paper's variance", p.Printed().DirectionVariance(), 4*4*3*4, 1e-12)
	near(t, "E‖ξ‖²", p.SecondMoment(), 4*4*3*4, 1e-12)
	near(t, "that of a sphere", p.OnSphere().SecondMoment(), p.OnSphere().Radius()*p.OnSphere().Radius(), 1e-12)
	if p.Radius() != 0 {
		t.Error("noise that is added has a radius")
	}
}

// The bet scales: with gradients G times as large, and a sum as large, it is
// m/G, which is the only unit it can have.
func TestMagnitudeHasTheUnitOfAWeight(t *testing.T) {
	one, _ := New(1.5, 1, 4)
	big, _ := New(1.5, 8, 4)
	for _, x := range []float64{0.01, 3, 200, -1e4} {
		a, _ := one.LogMagnitude(x, 10)
		b, _ := big.LogMagnitude(8*x, 10)
		near(t, "log|m| for a bound of 8", b, a-math.Log(8), 1e-12)
	}
}

func TestRefusals(t *testing.T) {
	for _, v := range []struct {
		epsilon, bound float64
		dim            int
	}{{0, 1, 1}, {-1, 1, 1}, {math.NaN(), 1, 1}, {math.Inf(1), 1, 1}, {1, 0, 1}, {1, math.Inf(1), 1}, {1, math.NaN(), 1}, {1, 1, 0}, {1e-150, 1, 5}, {1e-80, 1e50, 5}} {
		if _, err := New(v.epsilon, v.bound, v.dim); err == nil {
			t.Errorf("New(%v, %v, %d) is accepted", v.epsilon, v.bound, v.dim)
		}
	}
}
