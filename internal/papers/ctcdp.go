package papers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// CtCDP is how learning to protect (Hong et al. 2021, "Learning Model-Based
// Privacy Protection", algorithm 3) divides an (ε, δ) budget over steps, in
// a-constrained truncated concentrated DP: (ρ, ω)-tCDP of Bun et al. 2018 at
// the one ω_a that the budget fixes. Batches are subsets of a fixed size,
// drawn anew without replacement; under Poisson sampling none of it holds.
type CtCDP struct {
	Epsilon, Delta float64
	SamplingRate   float64 // q = n_B/N

	A     float64 // a = ln(1/δ)/ε
	Omega float64 // ω_a = 1+a+√(a(a+1))
	Total float64 // ρ_a = (√(ln(1/δ)+ε)−√ln(1/δ))², the whole run's ρ after amplification
	Step  float64 // ρ_0 = ρ_a/(13q²T), a step's ρ before amplification
	Limit float64 // ρ_ub = ln(1/q)/(4ω_a), which every step's ρ must stay below

	// Constraints are the conditions of lemma A.6 on ρ_0 and q.
	Constraints []Constraint
}

// A Constraint is a condition of a method, with the figures that decide it.
type Constraint struct {
	Name   string // the condition, as a formula
	Holds  bool
	Reason string // both sides in figures
}

// NewCtCDP plans T steps at sampling rate q. The rate is taken as given,
// never re-estimated, and a plan that breaks a constraint is returned, not
// refused: see Valid.
func NewCtCDP(epsilon, delta, rate float64, steps int) (CtCDP, error) {
	if err := cmp.Or(positive("epsilon", epsilon), probability("delta", delta), checkRate(rate), atLeastOne("steps", steps)); err != nil {
		return CtCDP{}, err
	}
	log := -math.Log(delta)
	c := CtCDP{Epsilon: epsilon, Delta: delta, SamplingRate: rate, A: log / epsilon}
	c.Omega = 1 + c.A + math.Sqrt(c.A*(c.A+1))
	root := epsilon / (math.Sqrt(log+epsilon) + math.Sqrt(log)) // the difference of the roots, without cancellation
	c.Total = root * root
	c.Step = c.Total / AmplifiedCost(rate, float64(steps))
	c.Limit = math.Log(1/rate) / (4 * c.Omega)

	all := c.Total / AmplifiedCost(rate, 1)
	c.Constraints = append(samplingConstraints("rho_0", c.Step, rate),
		compare("rho_0 < ln(1/q)/(4 omega_a)", c.Step, "<", c.Limit),
		compare("rho_0 < rho_a/(13 q^2)", c.Step, "<", all))
	return c, nil
}

// Valid says whether every constraint holds. Where one does not, ρ_0 has no
// meaning as a price.
func (c CtCDP) Valid() bool {
	return !slices.ContainsFunc(c.Constraints, func(x Constraint) bool { return !x.Holds })
}

func checkRate(q float64) error {
	if !(q > 0) || q > 1 {
		return fmt.Errorf("sampling rate %v: must be above 0 and at most 1", q)
	}
	return nil
}

// samplingConstraints are those of the amplification theorem for
// tCDP (Bun et al. 2018; theorem A.3 and equation 9 of Hong et al.) on a
// step's ρ before amplification.
func samplingConstraints(name string, rho, q float64) []Constraint {
	return []Constraint{
		compare(name+" <= 0.1", rho, "<=", 0.1),
		compare("q <= 0.1", q, "<=", 0.1),
		compare("3 "+name+" (2 + log2(1/"+name+")) <= ln(1/q)", 3*rho*(2-math.Log2(rho)), "<=", -math.Log(q)),
	}
}

func compare(name string, left float64, relation string, right float64) Constraint {
	c := Constraint{Name: name, Holds: left < right || relation == "<=" && left == right}
	if !c.Holds {
		relation = map[string]string{"<": ">=", "<=": ">"}[relation]
	}
	c.Reason = fmt.Sprintf("%.6g %s %.6g", left, relation, right)
	return c
}

// AmplifiedCost is 13q²ρ, what a step that satisfies ρ-zCDP on its batch costs
// the whole data set (lemma A.6).
func AmplifiedCost(q, rho float64) float64 { return 13 * q * q * rho }

// Steps are Count batches of the same ρ, before amplification.
type Steps struct {
	Rho   float64
	Count int
}

// CtCDPEpsilon is the least ε for which the constraints hold and the steps,
// each on a fixed-size batch at rate q, are (ε, δ)-DP together under replace-one. The price Σ13q²ρ_t needs
// ε ≥ ρ+2√(ρ·ln(1/δ)), and a step of ρ_t needs ω_a ≤ ln(1/q)/(4ρ_t), hence
// a ≤ (ω−1)²/(2ω−1) there and ε ≥ ln(1/δ)/a: both grow with ε, so the larger
// of the two is enough (lemmas A.1, A.4 and A.6). It refuses, naming the
// constraint, steps that no ε makes valid. No step costs 0.
func CtCDPEpsilon(steps []Steps, q, delta float64) (float64, error) {
	if err := cmp.Or(probability("delta", delta), checkRate(q)); err != nil {
		return 0, err
	}
	var total, most float64
	for i, s := range steps {
		r := s.Rho
		if s.Count < 0 {
			return 0, fmt.Errorf("step %d: count %d: must not be negative", i, s.Count)
		}
		if !(r >= 0) || math.IsInf(r, 0) {
			return 0, fmt.Errorf("step %d: rho %v: must be a finite number, 0 or more", i, r)
		}
		if r == 0 || s.Count == 0 {
			continue
		}
		for _, c := range samplingConstraints("rho", r, q) {
			if !c.Holds {
				return 0, fmt.Errorf("step %d breaks a constraint of ctCDP, %s: %s; raise its noise or lower the sampling rate", i, c.Name, c.Reason)
			}
		}
		total += float64(s.Count) * AmplifiedCost(q, r)
		most = max(most, r)
	}
	if total == 0 {
		return 0, nil
	}
	log := -math.Log(delta)
	// ω−1 > 0: q ≤ 0.1 and ρ ≤ 0.1 make ω at least ln(10)/0.4.
	omega := -math.Log(q) / (4 * most)
	a := (omega - 1) * (omega - 1) / (2*omega - 1)
	return max(total+2*math.Sqrt(total*log), log/a), nil
}
