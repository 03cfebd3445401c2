package accountant

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// A Selection makes a random number of private trials, and releases the one with the best score. The settings of each trial
// are drawn uniformly, with replacement, and independently of all else. The score follows from what the trial releases
// and from public data; equal scores are told apart by lot. The number of trials, and all that was not chosen, stay secret.
//
// The price is a Rényi bound of the whole, under the relation and the unit of the trials (Papernot and Steinke 2022,
// "Hyperparameter Tuning with Rényi Differential Privacy"). It holds for the released trial with its settings and score.
type Selection struct {
	Candidates [][]Event // what one trial releases, for each choice of settings
	Trials     Trials
}

// Trials is the distribution of the number of trials.
type Trials interface {
	// Expected is the mean number of trials.
	Expected() float64
	// String is the distribution as ParseTrials reads it.
	String() string
	// Least is the smallest number of trials, and Ratio the probability of k+1 over that of k, to the precision of x, which it
	// sets.
	Least() int
	Ratio(x *big.Float, k int)

	// price is the divergence of the selection at an order, for a curve that bounds every trial. The curve has the order
	// as its i-th.
	price(c Curve, i int) float64
	check() error
}

// TruncatedNegativeBinomial is a number of trials K ≥ 1 with
//
//	P(K = k) ∝ (1−γ)^k · Γ(k+η)/k!,  η > −1,  0 < γ < 1
//
// It is the geometric distribution at η = 1, and the logarithmic one at η = 0. Its mean is η(1−γ)/(γ(1−γ^η)), and
// (1/γ−1)/ln(1/γ) at η = 0 (definition 1 of the paper).
type TruncatedNegativeBinomial struct{ Eta, Gamma float64 }

// PoissonTrials is a number of trials K ≥ 0 from a Poisson distribution. Without a trial, a selection releases something that
// does not depend on the data.
type PoissonTrials struct{ Mean float64 }

// The names of distributions of trials.
const (
	tnbName     = "tnb"
	poissonName = "poisson"
)

// mostExpected is the largest mean number of trials: more would take too long, and cost too much.
const mostExpected = 1000

// ParseTrials reads "tnb:ETA,GAMMA" or "poisson:MEAN".
func ParseTrials(text string) (Trials, error) {
	name, rest, _ := strings.Cut(text, ":")
	var numbers []float64
	for word := range strings.SplitSeq(rest, ",") {
		x, err := written.Number(strings.TrimSpace(word))
		if err != nil {
			numbers = nil
			break
		}
		numbers = append(numbers, x)
	}
	var t Trials
	switch {
	case name == tnbName && len(numbers) == 2:
		t = TruncatedNegativeBinomial{numbers[0], numbers[1]}
	case name == poissonName && len(numbers) == 1:
		t = PoissonTrials{numbers[0]}
	default:
		return nil, usage.Errorf("trials %q: give %s:ETA,GAMMA or %s:MEAN, such as %s:0,0.1 or %[3]s:10", text, tnbName, poissonName, tnbName)
	}
	return t, usage.Wrap(t.check())
}

func (t TruncatedNegativeBinomial) String() string {
	return fmt.Sprintf("%s:%v,%v", tnbName, t.Eta, t.Gamma)
}

func (t PoissonTrials) String() string { return fmt.Sprintf("%s:%v", poissonName, t.Mean) }

func (t TruncatedNegativeBinomial) check() error {
	switch {
	case !(t.Eta > -1) || t.Eta > 100:
		return fmt.Errorf("trials %s: η is %v, and must be above −1, and 100 at most", t, t.Eta)
	case !(t.Gamma >= 1e-4 && t.Gamma < 1):
		return fmt.Errorf("trials %s: γ is %v, and must be below 1, and 1e-4 at least", t, t.Gamma)
	case t.Expected() > mostExpected:
		return fmt.Errorf("trials %s: they are %.6g on average, and may be %g at most: raise γ", t, t.Expected(), float64(mostExpected))
	}
	return nil
}

func (t PoissonTrials) check() error {
	if !(t.Mean > 0 && t.Mean <= mostExpected) {
		return fmt.Errorf("trials %s: the mean is %v, and must be above 0, and %g at most", t, t.Mean, float64(mostExpected))
	}
	return nil
}

// Expected is the mean number of trials.
func (t TruncatedNegativeBinomial) Expected() float64 {
	log := math.Log(t.Gamma)
	if math.Abs(t.Eta*log) < 1e-12 { // 1 − γ^η = −η ln γ, to rounding
		return (1 - t.Gamma) / (-log * t.Gamma)
	}
	return t.Eta * (1 - t.Gamma) / (t.Gamma * -math.Expm1(t.Eta*log))
}

// Expected is the mean number of trials.
func (t PoissonTrials) Expected() float64 { return t.Mean }

// Least is 1.
func (t TruncatedNegativeBinomial) Least() int { return 1 }

// Least is 0.
func (t PoissonTrials) Least() int { return 0 }

// Ratio is (1−γ)(k+η)/(k+1).
func (t TruncatedNegativeBinomial) Ratio(x *big.Float, k int) {
	of := func(v float64) *big.Float { return new(big.Float).SetPrec(x.Prec()).SetFloat64(v) }
	x.Sub(of(1), of(t.Gamma))
	x.Mul(x, of(float64(k)).Add(of(float64(k)), of(t.Eta)))
	x.Quo(x, of(float64(k+1)))
}

// Ratio is μ/(k+1).
func (t PoissonTrials) Ratio(x *big.Float, k int) {
	x.Quo(x.SetFloat64(t.Mean), new(big.Float).SetPrec(x.Prec()).SetFloat64(float64(k+1)))
}

// upward covers the rounding of a price, which is a few operations on figures near 1e-15.
const upward = 1 + 1e-12

// price is theorem 2: for every order λ̂ ≥ 1,
//
//	ε'(λ) ≤ ε(λ) + (1+η)(1−1/λ̂)·ε(λ̂) + (1+η)·ln(1/γ)/λ̂ + ln E[K]/(λ−1)
func (t TruncatedNegativeBinomial) price(c Curve, i int) float64 {
	log := -math.Log(t.Gamma)
	also := log // at λ̂ = 1
	for j, order := range c.Orders {
		also = math.Min(also, (1-1/order)*c.RDP[j]+log/order)
	}
	return upward * (c.RDP[i] + (1+t.Eta)*also + math.Log(t.Expected())/(c.Orders[i]-1))
}

// price is theorem 6 with the case of no trial. Where a trial is (ε̂, δ̂)-DP with e^ε̂ ≤ 1+1/(λ−1), the sum over all outcomes
// of P^λ·P'^(1−λ) is at most μ·exp((λ−1)(ε(λ)+μδ̂)) over those of a trial, and e^(−μ) without one:
//
//	ε'(λ) ≤ ln(μ·exp((λ−1)(ε(λ)+μδ̂)) + e^(−μ))/(λ−1)
//
// The theorem leaves out the last term, without which the bound would be below 0 for a small μ.
func (t PoissonTrials) price(c Curve, i int) float64 {
	above := c.Orders[i] - 1
	delta, _ := c.delta(math.Log1p(1 / above))
	trial := math.Log(t.Mean) + above*(c.RDP[i]+t.Mean*delta)
	most, least := math.Max(trial, -t.Mean), math.Min(trial, -t.Mean)
	return upward * (most + math.Log1p(math.Exp(least-most))) / above
}

// Curve bounds the divergence of the selection at orders; nil means the default ones.
func (s Selection) Curve(n Neighbouring, orders []float64) (Curve, error) {
	if orders == nil {
		orders = defaultOrders()
	}
	all := slices.Compact(slices.Sorted(slices.Values(append(defaultOrders(), orders...))))
	base, err := s.largest(n, all)
	if err != nil {
		return Curve{}, err
	}
	return s.priced(base, orders), nil
}

// priced is the price at orders that a curve of the trials has.
func (s Selection) priced(base Curve, orders []float64) Curve {
	c := Curve{orders, make([]float64, len(orders))}
	for i, order := range orders {
		c.RDP[i] = s.Trials.price(base, slices.Index(base.Orders, order))
	}
	return c
}

// largest is the pointwise largest curve of the candidates, which bounds a trial whose settings are drawn, and told: of a mixture
// with public weights, exp((λ−1)·divergence) is the mean over its parts.
func (s Selection) largest(n Neighbouring, orders []float64) (Curve, error) {
	if len(s.Candidates) == 0 {
		return Curve{}, fmt.Errorf("a selection has one candidate at least")
	}
	if err := s.Trials.check(); err != nil {
		return Curve{}, err
	}
	most := Curve{orders, make([]float64, len(orders))}
	for i, events := range s.Candidates {
		if slices.ContainsFunc(s.Candidates[:i], func(e []Event) bool { return equalEvents(e, events) }) {
			continue
		}
		noNoise, err := check(events, n)
		if err != nil {
			return Curve{}, fmt.Errorf("candidate %d: %w", i+1, err)
		}
		if noNoise {
			return Curve{}, fmt.Errorf("candidate %d: some release has no noise", i+1)
		}
		c, err := NewCurve(events, n, orders)
		if err != nil {
			return Curve{}, fmt.Errorf("candidate %d: %w", i+1, err)
		}
		for j := range orders {
			most.RDP[j] = math.Max(most.RDP[j], c.RDP[j])
		}
	}
	return most, nil
}

func equalEvents(a, b []Event) bool {
	return slices.EqualFunc(a, b, func(a, b Event) bool {
		return a.Count == b.Count && a.Rate == b.Rate && a.Sampling == b.Sampling && a.Neighbouring == b.Neighbouring && slices.Equal(a.Mechanisms, b.Mechanisms)
	})
}

// Epsilon is ε of the selection at δ, by accountant RDP: an upper bound under a relation.
func (s Selection) Epsilon(n Neighbouring, delta float64) (Result, error) {
	if err := checkDelta(delta); err != nil {
		return Result{}, err
	}
	c, err := s.Curve(n, nil)
	if err != nil {
		return Result{}, err
	}
	epsilon, at := c.epsilon(delta, tight)
	return Result{
		Epsilon: epsilon, Delta: delta, Accountant: RDP, Neighbouring: n, Order: c.Orders[at],
		OrderAtEdge: at == 0 || at == len(c.Orders)-1,
	}, nil
}

// Risk is what the selection means for attacks, under a relation: its curve at many ε.
func (s Selection) Risk(n Neighbouring) (*Risk, error) {
	c, err := s.Curve(n, nil)
	if err != nil {
		return nil, err
	}
	return c.risk(), nil
}

// LargestTrial is the largest ε of a trial at which a selection costs a target at most, to one part in 10⁴. price is what the
// selection costs, and must not fall as the trial's ε grows. No ε is below least.
func LargestTrial(target, least float64, price func(trial float64) (float64, error)) (trial, reached float64, err error) {
	if err := checkTarget(target); err != nil {
		return 0, 0, err
	}
	good := point{x: target}
	bad := point{}
	for {
		if good.epsilon, err = price(good.x); err != nil {
			return 0, 0, err
		}
		if good.epsilon <= target {
			break
		}
		if bad, good.x = good, good.x/2; good.x < least {
			return 0, 0, &OutOfReach{bad.epsilon, fmt.Sprintf("epsilon %v does not pay for the tuning: with trials of ε = %.3g, it costs %.4g; raise epsilon, or make fewer trials", target, bad.x, bad.epsilon)}
		}
	}
	if bad.x == 0 { // a trial alone costs all of it
		return good.x, good.epsilon, nil
	}
	good, err = narrow(target, good, bad, secants(target, 1e-4), price)
	return good.x, good.epsilon, err
}
