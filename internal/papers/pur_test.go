package papers

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestGoldenPUR(t *testing.T) {
	var all []struct {
		Kind           PURKind
		N, D           int
		L, M, Rho      float64
		F0, R          float64
		Mu             float64 `json:"lam"`
		PaperSteps     float64 `json:"T_paper"`
		PaperSpent     float64 `json:"rho_spent_at_T_paper"`
		Steps          int     `json:"T_exact"`
		Spent          float64 `json:"rho_spent"`
		First          float64 `json:"sigma_first"`
		Last           float64 `json:"sigma_last"`
		ClosedFormOfUs float64 `json:"T_closed"`
	}
	golden(t, "pur_schedules.json", &all)
	if len(all) < 9 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		if v.F0 == 0 {
			v.F0 = math.Ln2
		}
		s := must(NewPUR(v.Kind, Problem{Records: v.N, Dim: v.D, Lipschitz: v.L, Smoothness: v.M, StrongConvexity: v.Mu, InitialGap: v.F0, Radius: v.R}, v.Rho))(t)
		if s.Steps != v.Steps {
			t.Errorf("(%s) N=%d rho=%v: %d steps, want %d", v.Kind, v.N, v.Rho, s.Steps, v.Steps)
		}
		near(t, "rho spent", s.Spent, v.Spent, 1e-9)
		near(t, "the paper's steps", s.PaperSteps, v.PaperSteps, 1e-9)
		near(t, "learning rate", s.LearningRate, 1/(2*v.M), 1e-15)
		if v.First != 0 {
			near(t, "first deviation", s.Sigma(0), v.First, 1e-12)
			near(t, "last deviation", s.Sigma(s.Steps-1), v.Last, 1e-12)
		}
		if v.PaperSpent != 0 {
			near(t, "the paper's price", s.PaperSpent, v.PaperSpent, 1e-9)
		}
		if overspends := s.PaperSpent > v.Rho; overspends != (v.Kind == PURStronglyConvex) {
			t.Errorf("(%s): the paper's %v steps cost %v of %v", v.Kind, s.PaperSteps, s.PaperSpent, v.Rho)
		}
	}
}

// The deviations that a run would use, not the closed forms, keep the budget,
// and one more step would not.
func TestPURKeepsItsBudget(t *testing.T) {
	plain := Problem{Records: 1000, Dim: 7, Lipschitz: 1.3, Smoothness: 0.3, InitialGap: 0.69, Radius: 3, StrongConvexity: 0.01}
	flat := plain
	flat.StrongConvexity = 1e-12 // r differs from 1 in the twelfth digit
	sharp := plain
	sharp.StrongConvexity = plain.Smoothness // κ = 1, the cost doubles every step
	for _, c := range []struct {
		kind PURKind
		p    Problem
		rho  float64
	}{
		{PURNonConvex, plain, 0.1}, {PURNonConvex, plain, 50}, {PURConvex, plain, 0.1}, {PURConvex, plain, 3},
		{PURStronglyConvex, plain, 0.1}, {PURStronglyConvex, plain, 1e6}, {PURStronglyConvex, flat, 1e10}, {PURStronglyConvex, sharp, 1e9},
	} {
		s := must(NewPUR(c.kind, c.p, c.rho))(t)
		spend := func(steps int) *big.Float { // Σ Δ²/(2σ_t²) of the float64 deviations, in 300 bits
			wide := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
			sum := wide(0)
			for i := range steps {
				ratio := wide(2 * c.p.Lipschitz) // doubling is exact
				ratio.Quo(ratio, wide(float64(c.p.Records)))
				ratio.Quo(ratio, wide(s.Sigma(i)))
				sum.Add(sum, ratio.Mul(ratio, ratio))
			}
			return sum.Quo(sum, wide(2))
		}
		if got := spend(s.Steps); got.Cmp(big.NewFloat(s.Spent)) > 0 || s.Spent > c.rho {
			t.Errorf("(%s) rho %v: the steps cost %v, stated is %v", c.kind, c.rho, got, s.Spent)
		}
		got, _ := spend(s.Steps).Float64()
		near(t, "the sum of all costs", s.Spent, got, 1e-14)
		if more, _ := spend(s.Steps + 1).Float64(); more <= c.rho {
			t.Errorf("(%s) rho %v: step %d would have fitted, at %v", c.kind, c.rho, s.Steps+1, more)
		}
		for i := 1; i < s.Steps; i++ {
			if s.Sigma(i) > s.Sigma(i-1) {
				t.Fatalf("(%s): the noise grows at step %d", c.kind, i)
			}
		}
	}
}

// A budget that is met to the last bit is met; one a bit smaller is not.
func TestPURAtTheEdge(t *testing.T) {
	// ρ_1 = L²d/(8N²M²F0) = 1/9 is no binary fraction, but Σt² of 13 steps, 819, makes it 91.
	nine := Problem{Records: 3, Dim: 8, Lipschitz: 1, Smoothness: 1, InitialGap: 1}
	// ρ_1 = L²d/(N²μF0) = 1 and r = ½: 2^T − 1.
	half := Problem{Records: 1, Dim: 1, Lipschitz: 1, Smoothness: 1, InitialGap: 1, StrongConvexity: 1}
	for _, c := range []struct {
		kind  PURKind
		p     Problem
		rho   float64
		steps int
	}{
		{PURNonConvex, nine, 91, 13}, {PURNonConvex, nine, math.Nextafter(91, 0), 12},
		{PURStronglyConvex, half, 1023, 10}, {PURStronglyConvex, half, math.Nextafter(1023, 0), 9},
	} {
		s := must(NewPUR(c.kind, c.p, c.rho))(t)
		if s.Steps != c.steps || s.Spent > c.rho {
			t.Errorf("(%s) rho %v: %d steps at %v, want %d", c.kind, c.rho, s.Steps, s.Spent, c.steps)
		}
	}
	near(t, "σ of step 4", must(NewPUR(PURNonConvex, nine, 91))(t).Sigma(3), 4/(math.Sqrt(8)*4), 1e-15)
	near(t, "σ of step 4", must(NewPUR(PURStronglyConvex, half, 1023))(t).Sigma(3), math.Sqrt(2./8), 1e-15)
}

// Ten million steps are planned without walking through them, and their sum is
// right to the last bit: Σt² is 3.3e20 then, beyond what float64 counts.
func TestPURLong(t *testing.T) {
	p := Problem{Records: 1, Dim: 8, Lipschitz: 1, Smoothness: 1, InitialGap: 1} // costs t² exactly
	const steps = 10_000_000
	sum := new(big.Int).SetUint64(steps)
	sum.Mul(sum, big.NewInt(steps+1))
	sum.Mul(sum, big.NewInt(2*steps+1))
	sum.Quo(sum, big.NewInt(6))
	rho, _ := new(big.Float).SetInt(sum).Float64()
	if sum.Cmp(new(big.Int).SetUint64(1<<63)) < 0 {
		t.Fatal("the sum fits a machine word")
	}
	if r, _ := new(big.Float).SetFloat64(rho).Int(nil); r.Cmp(sum) < 0 {
		rho = math.Nextafter(rho, math.Inf(1))
	}
	if s := must(NewPUR(PURNonConvex, p, rho))(t); s.Steps != steps {
		t.Errorf("%d steps, want %d", s.Steps, steps)
	}
	if s := must(NewPUR(PURNonConvex, p, math.Nextafter(math.Nextafter(rho, 0), 0)))(t); s.Steps != steps-1 {
		t.Errorf("%d steps for a little less, want %d", s.Steps, steps-1)
	}
	c := Problem{Records: 1000, Dim: 1, Lipschitz: 1, Smoothness: 1, InitialGap: 1, StrongConvexity: 1e-6} // ρ_1 = 1
	if s := must(NewPUR(PURStronglyConvex, c, 1e9))(t); s.Steps < 10_000_000 || s.Steps > 20_000_000 || s.Spent > 1e9 || s.Spent < 1e9*(1-1e-6) {
		t.Errorf("%d steps at %v", s.Steps, s.Spent)
	}
}

func TestPURRefuses(t *testing.T) {
	good := Problem{Records: 1000, Dim: 2, Lipschitz: 1, Smoothness: 0.25, StrongConvexity: 0.1, InitialGap: 1, Radius: 1}
	nan := math.NaN()
	for _, c := range []struct {
		kind   PURKind
		change func(*Problem)
		rho    float64
		want   string
	}{
		{"d", func(*Problem) {}, 1, `"d"`},
		{"a", func(p *Problem) { p.Records = 0 }, 1, "records 0"},
		{"a", func(p *Problem) { p.Dim = -1 }, 1, "dim -1"},
		{"a", func(p *Problem) { p.Lipschitz = 0 }, 1, "lipschitz 0"},
		{"b", func(p *Problem) { p.Smoothness = math.Inf(1) }, 1, "smoothness +Inf"},
		{"a", func(p *Problem) { p.InitialGap = 0 }, 1, "f0 0"},
		{"c", func(p *Problem) { p.InitialGap = -1 }, 1, "f0 -1"},
		{"b", func(p *Problem) { p.Radius = nan }, 1, "radius NaN"},
		{"c", func(p *Problem) { p.StrongConvexity = 0 }, 1, "strong convexity 0"},
		{"c", func(p *Problem) { p.StrongConvexity = 0.26 }, 1, "condition number"},
		{"constant", func(*Problem) {}, 1, "sigma 0"},
		{"b", func(p *Problem) { p.K = -1 }, 1, "k -1"},
		{"a", func(*Problem) {}, 0, "rho 0"},
		{"a", func(*Problem) {}, nan, "rho NaN"},
		{"b", func(p *Problem) { p.Smoothness, p.Radius, p.Lipschitz = 1e200, 1e200, 1e300 }, 1e-206, "first noise deviation +Inf"},
		{"b", func(p *Problem) { p.Smoothness, p.Radius, p.Lipschitz = 1e-310, 1e308, 1e-3 }, 1e3, "learning rate +Inf"},
		{"a", func(p *Problem) { p.Records = math.MaxInt32 }, 1e60, "pays for more"},
	} {
		p := good
		c.change(&p)
		if _, err := NewPUR(c.kind, p, c.rho); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrBudget) {
			t.Errorf("(%s): %v, want %q", c.kind, err, c.want)
		}
	}
	for _, kind := range []PURKind{PURNonConvex, PURConvex, PURStronglyConvex} {
		if _, err := NewPUR(kind, good, 1e-12); !errors.Is(err, ErrBudget) {
			t.Errorf("(%s): %v for a budget below the first step", kind, err)
		}
	}
}

// Roundings go one way, by one unit: against exact rationals, a deviation is
// the least float64 that is not below σ_t, a price the least that is not below
// Σρ_t, and the geometric weight is never too small.
func TestPURRoundsTowardsPrivacy(t *testing.T) {
	p := Problem{Records: 1013, Dim: 7, Lipschitz: 1.3, Smoothness: 0.3, InitialGap: 0.69, Radius: 3.1, StrongConvexity: 0.07}
	for _, kind := range []PURKind{PURNonConvex, PURConvex, PURStronglyConvex} {
		s := must(NewPUR(kind, p, 0.013))(t)
		delta := product(big.NewRat(2, 1013), exact(1.3))
		spent, weight, power := new(big.Rat), new(big.Rat), big.NewRat(1, 1) // power = r^i
		for i := range s.Steps {
			variance := new(big.Rat).Mul(s.variance, power)
			if kind != PURStronglyConvex {
				variance.Quo(s.variance, big.NewRat(int64(i+1)*int64(i+1), 1))
			} else {
				weight.Add(weight, new(big.Rat).Inv(power))
				if got := s.weight(i + 1); got.Cmp(weight) < 0 {
					t.Fatalf("the weight of %d steps is too small", i+1)
				}
				power.Mul(power, s.decay)
			}
			sigma := s.Sigma(i)
			if below := math.Nextafter(sigma, 0); product(exact(sigma), exact(sigma)).Cmp(variance) < 0 || product(exact(below), exact(below)).Cmp(variance) >= 0 {
				t.Fatalf("(%s): deviation %v of step %d is not the least above the exact one", kind, sigma, i)
			}
			rho := product(delta, delta, big.NewRat(1, 2))
			spent.Add(spent, rho.Quo(rho, variance))
		}
		if exact(s.Spent).Cmp(spent) < 0 || exact(math.Nextafter(s.Spent, 0)).Cmp(spent) >= 0 {
			t.Errorf("(%s): %v is not the least above the exact sum", kind, s.Spent)
		}
	}
}

// With any k, deviations and steps follow the closed forms, the noise is k times what the
// gradient is expected to be, and the costs of the float64 deviations sum to what is stated.
func TestPURFamily(t *testing.T) {
	p := Problem{Records: 5000, Dim: 7, Lipschitz: 1.3, Smoothness: 0.3, InitialGap: 0.69, Radius: 3, StrongConvexity: 0.01, Sigma: 0.02}
	for _, k := range []float64{0, 0.5, 1, 2, 3.7} {
		p.K = k
		one := k
		if k == 0 {
			one = 1
		}
		rate := 1 / (p.Smoothness * (1 + one*one))
		scale := math.Sqrt(p.Smoothness * p.InitialGap)
		if k == 0 {
			scale = p.Smoothness * math.Sqrt(p.InitialGap)
		}
		for kind, sigma := range map[PURKind]func(i int) float64{
			PURNonConvex: func(i int) float64 { return 4 * one * scale / math.Sqrt(7) / float64(i+1) },
			PURConvex:    func(i int) float64 { return 4 * one * p.Smoothness * p.Radius / math.Sqrt(7) / float64(i+1) },
			PURStronglyConvex: func(i int) float64 {
				return one * math.Sqrt(2*p.StrongConvexity*p.InitialGap/7*math.Pow(1-p.StrongConvexity*rate, float64(i)))
			},
			PURConstant: func(int) float64 { return p.Sigma },
		} {
			s := must(NewPUR(kind, p, 0.02))(t)
			near(t, "learning rate", s.LearningRate, rate, 1e-14)
			spent := 0.0
			for i := range s.Steps {
				near(t, "deviation", s.Sigma(i), sigma(i), 1e-12)
				ratio := 2 * p.Lipschitz / float64(p.Records) / sigma(i)
				spent += ratio * ratio / 2
			}
			near(t, "rho spent", s.Spent, spent, 1e-12)
			if ratio := 2 * p.Lipschitz / float64(p.Records) / sigma(s.Steps); spent > 0.02 || spent+ratio*ratio/2 <= 0.02 {
				t.Errorf("(%s) k=%v: %d steps spend %v of 0.02", kind, k, s.Steps, spent)
			}
		}
	}
}

// At the same bound F0·r^T on the excess, the cost of schedule (c) is κ+(κ−1)/k² over
// 2κ−1 of that of k = 1: k = 2 saves 37 % where κ is large, for 2.5 times the steps.
func TestPURSavesByK(t *testing.T) {
	p := Problem{Records: 60000, Dim: 10, Lipschitz: 1, Smoothness: 0.251, StrongConvexity: 0.001, InitialGap: math.Ln2}
	kappa := p.Smoothness / p.StrongConvexity
	cost := func(k float64) (rho, steps float64) { // until r^T = 1/1000
		p.K = k
		s := newPUR(PURStronglyConvex, p)
		r, _ := s.decay.Float64()
		steps = math.Round(math.Log(1e-3) / math.Log(r))
		rho, _ = product(s.cost(p), s.weight(int(steps))).Float64()
		return rho * (1e3 - 1) / (math.Pow(r, -steps) - 1), steps // steps are whole
	}
	one, few := cost(1)
	for _, k := range []float64{0.5, 1.5, 2, 4} {
		rho, steps := cost(k)
		near(t, "the cost", rho/one, (kappa+(kappa-1)/(k*k))/(2*kappa-1), 1e-9)
		near(t, "the steps", steps/few, (1+k*k)/2, 2e-3)
	}
	if two, _ := cost(2); two/one > 0.63 || two/one < 0.62 {
		t.Errorf("k = 2 costs %v of k = 1", two/one)
	}
}

// The printed (a) is not in units of the gradient: of a loss that is multiplied by c the
// gradient is c times as long, and the noise √c·c times. With a k it is c times.
func TestPURScales(t *testing.T) {
	const c = 9
	p := Problem{Records: 1000, Dim: 3, Lipschitz: 1, Smoothness: 0.25, InitialGap: math.Ln2}
	scaled := p
	scaled.Lipschitz, scaled.Smoothness, scaled.InitialGap = c*p.Lipschitz, c*p.Smoothness, c*p.InitialGap
	for k, want := range map[float64]float64{0: c * math.Sqrt(c), 1: c, 2: c} {
		p.K, scaled.K = k, k
		near(t, "the factor", must(NewPUR(PURNonConvex, scaled, 1))(t).Sigma(0)/must(NewPUR(PURNonConvex, p, 1))(t).Sigma(0), want, 1e-12)
	}
	p.K = 0
	printed := must(NewPUR(PURNonConvex, p, 1))(t)
	p.K = 1
	near(t, "at M = 1/4", must(NewPUR(PURNonConvex, p, 1))(t).Sigma(0), 2*printed.Sigma(0), 1e-12)
}

// The budget of (ε, δ) against δ by quadrature over the privacy loss of one Gaussian,
// N(μ²/2, μ²): exactly met. It is more than zCDP's ρ+2√(ρ·ln(1/δ)) = ε allows.
func TestGaussianBudget(t *testing.T) {
	for _, c := range []struct{ epsilon, delta, least float64 }{{0.1, 1e-4, 2.5}, {1, 1e-4, 1.8}, {20, 1e-4, 1.2}, {1, 1e-6, 1.5}} {
		rho := must(GaussianBudget(c.epsilon, c.delta))(t)
		mu := math.Sqrt(2 * rho)
		const n = 200_000
		h := 18 * mu / n
		sum := 0.0
		for i := range n { // the midpoints of μ²/2 ± 9μ, from ε on
			if loss := mu*mu/2 - 9*mu + (float64(i)+0.5)*h; loss > c.epsilon {
				z := (loss - mu*mu/2) / mu
				sum += h / mu * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * -math.Expm1(c.epsilon-loss)
			}
		}
		near(t, "delta", sum, c.delta, 1e-4)
		l := -math.Log(c.delta)
		zcdp := math.Pow(math.Sqrt(l+c.epsilon)-math.Sqrt(l), 2)
		if rho < c.least*zcdp {
			t.Errorf("ε %v: ρ %v, by zCDP %v", c.epsilon, rho, zcdp)
		}
	}
	if _, err := GaussianBudget(1, 0); err == nil {
		t.Error("δ = 0 has a Gaussian budget")
	}
}

// Most ends a schedule early, also where the budget pays for more steps than are counted, and changes nothing else.
func TestPURMost(t *testing.T) {
	p := Problem{Records: 1000, Dim: 3, Lipschitz: 1, Smoothness: 0.25, StrongConvexity: 0.01, InitialGap: math.Ln2, Radius: 2, Sigma: 0.01}
	for _, kind := range []PURKind{PURNonConvex, PURConvex, PURStronglyConvex, PURConstant} {
		all := must(NewPUR(kind, p, 0.05))(t)
		for _, most := range []int{1, all.Steps - 1, all.Steps, all.Steps + 1} {
			few := p
			few.Most = most
			s := must(NewPUR(kind, few, 0.05))(t)
			if s.Steps != min(most, all.Steps) || s.Sigma(0) != all.Sigma(0) || s.Spent > all.Spent || most < all.Steps && !(s.Spent < all.Spent) {
				t.Errorf("(%s): %d steps of at most %d spend %v", kind, s.Steps, most, s.Spent)
			}
		}
	}
	p.Most = 7
	if s := must(NewPUR(PURConstant, p, 1e9))(t); s.Steps != 7 {
		t.Errorf("%d steps of at most 7", s.Steps)
	}
}
