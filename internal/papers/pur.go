package papers

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// A PURKind is one of the data-independent schedules of Fay, Magnússon,
// Sjölund and Johansson 2023, "Adaptive Hyperparameter Selection for
// Differentially Private Gradient Descent": the three of proposition 3, and the
// constant one that they compare with. Their schedule (6) reads the gradient's
// norm without noise, and has no price.
//
// Each is for noise k times the size of the expected gradient, with learning rate
// 1/(M(1+k²)). The paper has k = 1; the proofs for other k are in
// docs/proofs/pur.md.
type PURKind string

const (
	// PURNonConvex is (a), for any smooth loss: σ_t = 4M√F0/(√d·t), t = 1…T, as
	// published. With a k it is σ_t = 4k√(MF0)/(√d·t), which scales as the gradient
	// does where the loss is multiplied by a constant.
	PURNonConvex PURKind = "a"
	// PURConvex is (b), for convex losses with iterates projected to a ball of
	// radius R: σ_t = 4kMR/(√d·t), t = 1…T.
	PURConvex PURKind = "b"
	// PURStronglyConvex is (c), for μ-strongly convex losses:
	// σ_t² = k²·2μF0·r^t/d, r = 1−μ/(M(1+k²)), t = 0…T−1.
	PURStronglyConvex PURKind = "c"
	// PURConstant has the same σ in every step.
	PURConstant PURKind = "constant"
)

// ErrBudget says that a proper budget does not pay for what was asked: here a
// single step. It is that of package accountant, which imports this one.
var ErrBudget = errors.New("the privacy budget does not allow it")

// Refuse is an error that is ErrBudget in words of its own, which say what would be allowed.
func Refuse(format string, a ...any) error { return refusal(fmt.Sprintf(format, a...)) }

type refusal string

func (r refusal) Error() string { return string(r) }
func (r refusal) Unwrap() error { return ErrBudget }

// A Problem is what is publicly known of an empirical risk
// F(θ) = (1/N)·Σ f(θ; x_n). A schedule is a guarantee only where every field
// that it uses is public and, as to Lipschitz, enforced.
type Problem struct {
	Records int // N
	Dim     int // d, the number of parameters
	// Lipschitz is L: a bound on the gradient's norm of what a record contributes,
	// without a regulariser, which cancels between neighbors. For logistic
	// regression it is the clip of the features' norm.
	Lipschitz       float64
	Smoothness      float64 // M, of F with its regulariser
	StrongConvexity float64 // μ, schedule (c) only
	InitialGap      float64 // F0 ≥ F(θ_0)−F*, schedules (a) and (c): ln 2 at θ_0 = 0 for logistic loss
	Radius          float64 // R, schedule (b) only
	K               float64 // k: noise over the size of the gradient; 0 for the schedule as published
	Sigma           float64 // σ, constant schedule only
	Most            int     // steps to plan, at most; 0: as many as the budget pays for
}

// PUR is a schedule of full-batch gradient steps θ −= η(∇F(θ)+N(0, σ_t²I)).
// One step costs ρ_t = Δ²/(2σ_t²) in zCDP, Δ = 2L/N (replace-one; Bun and
// Steinke 2016, proposition 1.6), and costs add.
type PUR struct {
	Steps        int     // T, the largest with Σρ_t ≤ ρ, and Most at most
	Spent        float64 // Σρ_t, rounded up; never above ρ
	LearningRate float64 // η = 1/(M(1+k²)), 1/(2M) as published

	// PaperSteps is T by the closed form of the paper's proposition 4, before
	// rounding to an integer, and PaperSpent what its whole steps cost. In (a) and (b) the form bounds Σt² by T³ and stops early;
	// in (c) it loses a factor κ and overspends. Neither is a guarantee. Both are of the
	// schedule as published, whatever k; the constant schedule has none.
	PaperSteps, PaperSpent float64

	kind     PURKind
	variance *big.Rat // σ² of the first step
	decay    *big.Rat // r in (c), nil otherwise
}

// maxSteps keeps an absurd budget from an endless search.
const maxSteps = 1 << 29

// precision, in bits, of what is not computed in rationals. All of that is
// rounded towards more noise or more cost.
const precision = 512

// NewPUR plans a schedule for a zCDP budget ρ. The number of steps comes from
// comparing the sum of all costs with ρ in exact arithmetic ((a), (b)), or in
// 512 bits rounded up ((c)): a sum that exceeds ρ is never taken for one that
// does not. It fails where a field is missing or out of range, and with
// ErrBudget where ρ does not pay for one step.
func NewPUR(kind PURKind, p Problem, budget float64) (*PUR, error) {
	if err := cmp.Or(p.validate(kind), positive("rho", budget)); err != nil {
		return nil, err
	}
	s := newPUR(kind, p)
	first := s.cost(p)
	limit := new(big.Rat).Quo(exact(budget), first)
	affordable := func(steps int) bool { return s.weight(steps).Cmp(limit) <= 0 }
	if !affordable(1) {
		return nil, Refuse("a budget of rho %v does not pay for one step, which costs %.4g: raise epsilon or rho, or the number of records", budget, up(first))
	}
	lo, hi := 1, 2 // lo is affordable, hi will not be
	if p.Most > 0 && affordable(p.Most) {
		lo, hi = p.Most, p.Most+1
	}
	for p.Most != lo && affordable(hi) {
		if lo, hi = hi, 2*hi; hi > maxSteps {
			return nil, fmt.Errorf("a budget of rho %v pays for more than %d steps: lower it", budget, maxSteps)
		}
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; affordable(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	s.Steps = lo
	s.Spent = up(product(first, s.weight(lo)))
	s.paper(p, budget)
	err := cmp.Or(positive("first noise deviation", s.Sigma(0)), positive("last noise deviation", s.Sigma(lo-1)), positive("learning rate", s.LearningRate))
	if err != nil { // beyond float64's range
		return nil, fmt.Errorf("%w; give smoothness and the other bounds in units nearer to 1", err)
	}
	return s, nil
}

// newPUR is a schedule without its steps.
func newPUR(kind PURKind, p Problem) *PUR {
	m, k := exact(p.Smoothness), exact(cmp.Or(p.K, 1))
	k2 := product(k, k)
	most := product(m, new(big.Rat).Add(big.NewRat(1, 1), k2)) // 1/η
	s := &PUR{kind: kind}
	s.LearningRate, _ = new(big.Rat).Inv(most).Float64()
	switch kind {
	case PURNonConvex:
		s.variance = product(big.NewRat(16, 1), k2, m, exact(p.InitialGap))
		if p.K == 0 {
			s.variance.Mul(s.variance, m)
		}
	case PURConvex:
		s.variance = product(big.NewRat(16, 1), k2, m, m, exact(p.Radius), exact(p.Radius))
	case PURStronglyConvex:
		mu := exact(p.StrongConvexity)
		s.variance = product(big.NewRat(2, 1), k2, mu, exact(p.InitialGap))
		s.decay = new(big.Rat).Quo(mu, most)
		s.decay.Sub(big.NewRat(1, 1), s.decay)
	case PURConstant:
		s.variance = product(exact(p.Sigma), exact(p.Sigma))
		return s
	}
	s.variance.Quo(s.variance, new(big.Rat).SetInt64(int64(p.Dim)))
	return s
}

// cost is ρ of the first step.
func (s *PUR) cost(p Problem) *big.Rat {
	delta := product(big.NewRat(2, int64(p.Records)), exact(p.Lipschitz))
	first := product(delta, delta, big.NewRat(1, 2))
	return first.Quo(first, s.variance)
}

func (p Problem) validate(kind PURKind) error {
	var own error // of the kind's own fields
	switch kind {
	case PURNonConvex:
		own = positive("f0", p.InitialGap)
	case PURConvex:
		own = positive("radius", p.Radius)
	case PURStronglyConvex:
		own = cmp.Or(positive("f0", p.InitialGap), positive("strong convexity", p.StrongConvexity))
		if own == nil && p.StrongConvexity > p.Smoothness {
			own = fmt.Errorf("strong convexity %v exceeds smoothness %v: no loss has a condition number below 1", p.StrongConvexity, p.Smoothness)
		}
	case PURConstant:
		own = positive("sigma", p.Sigma)
	default:
		return fmt.Errorf("PUR schedule %q: choose a, b, c or constant", string(kind))
	}
	if p.K != 0 {
		own = cmp.Or(own, positive("k", p.K))
	}
	return cmp.Or(atLeastOne("records", p.Records), atLeastOne("dim", p.Dim), positive("lipschitz", p.Lipschitz), positive("smoothness", p.Smoothness), own)
}

// paper fills in the closed forms of the paper's proposition 4.
func (s *PUR) paper(p Problem, budget float64) {
	if s.kind == PURConstant {
		return
	}
	p.K = 0
	first := up(newPUR(s.kind, p).cost(p))
	if s.decay == nil {
		s.PaperSteps = math.Cbrt(budget / first)
		t := math.Floor(s.PaperSteps)
		s.PaperSpent = first * t * (t + 1) * (2*t + 1) / 6
		return
	}
	kappa := p.Smoothness / p.StrongConvexity
	growth := -math.Log1p(-1 / (2 * kappa)) // ln(2κ/(2κ−1))
	s.PaperSteps = math.Log(budget/(2*first)) / growth
	s.PaperSpent = first * (2*kappa - 1) * math.Expm1(max(math.Floor(s.PaperSteps), 0)*growth)
}

// weight is the cost of a number of steps over that of the first: Σt² in (a)
// and (b), exactly, or Σr^{−t} in (c), rounded up; T in the constant one. The geometric sum is built
// by doubling, G(2n) = G(n)(1+s^n), which only adds and multiplies numbers
// above 0: nothing cancels however near r is to 1.
func (s *PUR) weight(steps int) *big.Rat {
	if s.kind == PURConstant {
		return new(big.Rat).SetInt64(int64(steps))
	}
	if s.decay == nil {
		t := big.NewInt(int64(steps))
		one := big.NewInt(1)
		sum := new(big.Int).Mul(t, new(big.Int).Add(t, one))
		sum.Mul(sum, new(big.Int).Add(new(big.Int).Lsh(t, 1), one))
		return new(big.Rat).SetFrac(sum, big.NewInt(6))
	}
	one := upward().SetInt64(1)
	growth := upward().SetRat(new(big.Rat).Inv(s.decay))
	sum, power := upward(), upward().SetInt64(1) // G(n) and s^n, from n = 0
	for i := 63; i >= 0; i-- {
		sum.Mul(sum, upward().Add(one, power))
		power.Mul(power, power)
		if steps>>i&1 == 1 { // G(n+1) = 1+s·G(n)
			sum.Add(one, sum.Mul(sum, growth))
			power.Mul(power, growth)
		}
	}
	r, _ := sum.Rat(nil)
	return r
}

// Sigma is the deviation of the noise on each coordinate of the mean gradient
// in a step, counted from 0; the paper's t is step+1 in (a) and (b), and step
// in (c). It is rounded up, so that what a run with these float64 values
// costs stays within Spent.
func (s *PUR) Sigma(step int) float64 {
	v := upward().SetRat(s.variance)
	switch {
	case s.kind == PURConstant:
	case s.decay == nil:
		t := upward().SetInt64(int64(step) + 1)
		v.Quo(v, t.Mul(t, t))
	default:
		r := upward().SetRat(s.decay)
		for n := step; n > 0; n >>= 1 {
			if n&1 == 1 {
				v.Mul(v, r)
			}
			r.Mul(r, r)
		}
	}
	// v = m·4^k with m in [½, 2).
	m := upward()
	e := v.MantExp(m)
	if e&1 != 0 {
		m.Add(m, m)
		e--
	}
	f, _ := m.Float64()
	root := math.Sqrt(f)
	for square := upward(); square.SetFloat64(root).Mul(square, square).Cmp(m) < 0; { // 106 bits: exact
		root = math.Nextafter(root, 2)
	}
	return math.Ldexp(root, e/2)
}

func upward() *big.Float { return new(big.Float).SetPrec(precision).SetMode(big.ToPositiveInf) }

// exact is a finite number as a rational.
func exact(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

func product(factors ...*big.Rat) *big.Rat {
	p := big.NewRat(1, 1)
	for _, f := range factors {
		p.Mul(p, f)
	}
	return p
}

// up is the least float64 that is not below a rational.
func up(r *big.Rat) float64 {
	f, isExact := r.Float64()
	if !isExact && !math.IsInf(f, 0) && exact(f).Cmp(r) < 0 {
		f = math.Nextafter(f, math.Inf(1))
	}
	return f
}

// BestSteps is the number of steps of gradient descent with the same noise in each that makes the
// public bound of docs/proofs/pur.md on the excess least. Without strong convexity the bound is for a
// minimum of norm Radius.
func (p Problem) BestSteps(budget float64) int {
	const most = 10000
	move := 2 * p.Lipschitz / float64(p.Records)
	noise := float64(p.Dim) * move * move / (2 * budget) // dσ² of one step
	best, steps := math.Inf(1), 1
	for t := 1; t <= most; t++ {
		n := float64(t)
		var bound float64
		if mu := p.StrongConvexity; mu > 0 {
			left := math.Exp(n * math.Log1p(-mu/p.Smoothness))
			bound = left*p.InitialGap + n*noise/(2*mu)*(1-left)
		} else {
			bound = p.Smoothness*p.Radius*p.Radius/(2*n) + n*noise/p.Smoothness
		}
		if bound < best {
			best, steps = bound, t
		}
	}
	return steps
}
