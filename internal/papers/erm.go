package papers

import (
	"cmp"
	"fmt"
	"math"
)

// This file follows Zhang, Zheng, Mou and Wang 2017, "Efficient Private ERM
// for Smooth Objectives".

// Descent is full-batch gradient descent on an empirical risk of n records,
// whose last iterate alone is released, with noise (algorithm 1, output
// perturbation).
type Descent struct {
	Records         int     // n
	Steps           int     // T
	Lipschitz       float64 // L, as in Problem
	Smoothness      float64 // β, of the loss with its regularizer
	StrongConvexity float64 // μ; 0 for a loss that is only convex
	LearningRate    float64 // η
}

// Validate refuses a descent for which no bound on the sensitivity holds: η must be at most 2/(β+μ),
// where the paper's lemmas ask for 1/β, and 1/(β+μ) with strong convexity.
func (g Descent) Validate() error {
	err := cmp.Or(atLeastOne("records", g.Records), atLeastOne("steps", g.Steps), positive("lipschitz", g.Lipschitz),
		positive("smoothness", g.Smoothness), positive("learning rate", g.LearningRate))
	if err != nil {
		return err
	}
	switch mu, most := g.StrongConvexity, 2/(g.Smoothness+g.StrongConvexity); {
	case !(mu >= 0) || mu > g.Smoothness:
		return fmt.Errorf("strong convexity %v: must be between 0 and the smoothness %v", mu, g.Smoothness)
	case g.LearningRate > most:
		return fmt.Errorf("learning rate %v: steps above 2/(smoothness + strong convexity) = %v expand distances, and the sensitivity has no bound; lower it",
			g.LearningRate, most)
	}
	return nil
}

// Sensitivity is how far the last iterate moves in L2 when one record is
// exchanged: a step multiplies the distance of the two runs by at most 1−ημ
// and adds at most 2Lη/n. That gives 2LηT/n, or (2L/(nμ))(1−(1−ημ)^T); linear
// losses, with a common quadratic, attain it.
func (g Descent) Sensitivity() float64 {
	move := 2 * g.Lipschitz / float64(g.Records)
	if g.StrongConvexity == 0 {
		return move * g.LearningRate * float64(g.Steps)
	}
	return move / g.StrongConvexity * -math.Expm1(float64(g.Steps)*math.Log1p(-g.LearningRate*g.StrongConvexity))
}

// PaperSensitivity is the paper's own bound, lemmas 2 and 3: 3LηT/n, or
// 5L(μ+β)/(nμβ). It is valid for η ≤ 1/β or 1/(β+μ), and loose.
func (g Descent) PaperSensitivity() float64 {
	n := float64(g.Records)
	if g.StrongConvexity == 0 {
		return 3 * g.Lipschitz * g.LearningRate * float64(g.Steps) / n
	}
	return 5 * g.Lipschitz * (g.StrongConvexity + g.Smoothness) / (n * g.StrongConvexity * g.Smoothness)
}

// PaperSteps is the number of steps of theorems 2 and 3 with 1 as the constant of their Θ, for a
// minimum of norm at most radius in so many dimensions; δ = 0 is a pure ε.
func (g Descent) PaperSteps(epsilon, delta, radius float64, dimension int) float64 {
	n, beta, mu := float64(g.Records), g.Smoothness, g.StrongConvexity
	ratio := math.Pow(n*epsilon*radius/g.Lipschitz, 2) / float64(dimension) // theirs, but for β², or μ²
	if delta == 0 {
		ratio /= float64(dimension)
	} else {
		ratio /= -math.Log(delta)
	}
	if mu == 0 {
		return math.Max(1, math.Ceil(math.Cbrt(beta*beta*ratio)))
	}
	return math.Max(1, math.Ceil((mu*mu+beta*beta)/(mu*beta)*math.Log(mu*mu*ratio)))
}

// PaperNoise is the deviation of algorithm 1's Gaussian noise, √(2·ln(2/δ))/ε, over the sensitivity.
func PaperNoise(epsilon, delta float64) float64 { return math.Sqrt(2*math.Log(2/delta)) / epsilon }

// RRPSGD is stochastic gradient descent on one record a step, drawn uniformly
// with replacement, that stops after a random, public number R of steps
// (algorithm 2). Only the last iterate is released.
type RRPSGD struct {
	// NoiseMultiplier is σ/(2L), L an enforced bound on a record's gradient:
	// √(ln(3n/δ)·ln(2/δ))/ε. Note the unit: σ over the sensitivity, not over L.
	NoiseMultiplier float64
	// Steps is n², the most that R can be. What is charged is this number,
	// whatever R turns out to be.
	Steps int
	// Claimed says whether ε is within theorem 4, which is for ε ≤ 1 only.
	Claimed bool
}

// NewRRPSGD is the noise of theorem 4 for n records.
func NewRRPSGD(records int, epsilon, delta float64) (RRPSGD, error) {
	if err := cmp.Or(atLeastOne("records", records), positive("epsilon", epsilon), probability("delta", delta)); err != nil {
		return RRPSGD{}, err
	}
	if records > math.MaxInt/records {
		return RRPSGD{}, fmt.Errorf("records %d: their square, the number of steps, does not fit an integer", records)
	}
	// ln(3n)−ln δ, for deltas so small that 3n/δ overflows.
	product := (math.Log(3*float64(records)) - math.Log(delta)) * (math.Ln2 - math.Log(delta))
	return RRPSGD{NoiseMultiplier: math.Sqrt(product) / epsilon, Steps: records * records, Claimed: epsilon <= 1}, nil
}

// Rounds is what theorem 5 says of so many steps on a β-smooth loss F ≥ 0 that starts below a bound,
// where the gradient of a step has at most this variance, all coordinates together.
type Rounds struct {
	Steps      int
	Smoothness float64 // β
	Start      float64 // bound on F(w₀)
	Variance   float64 // σ²
}

// distance is D_F = √(2F(w₀)/β).
func (r Rounds) distance() float64 { return math.Sqrt(2 * r.Start / r.Smoothness) }

// Rate is the theorem's η = min(1/β, D_F/(σn)), n² being the number of steps.
func (r Rounds) Rate() float64 {
	return math.Min(1/r.Smoothness, r.distance()/math.Sqrt(r.Variance*float64(r.Steps)))
}

// Bound is the theorem's, on E‖∇F‖² at the result for steps of η.
func (r Rounds) Bound(eta float64) float64 {
	n, d := float64(r.Steps), r.distance()
	return r.Smoothness * (d*d + r.Variance*n*eta*eta) / (n * eta * (2 - r.Smoothness*eta))
}

// DrawRounds draws R with P(R = k+1) proportional to 2η_k−βη_k² (theorem 5),
// k from 0 to steps−1, by rejection: rate gives η_k in (0, 1/β], largest is no
// less than any of them, uniform is a source on [0, 1). It refuses rates out
// of range, and gives up where nearly every rate is far below largest.
func DrawRounds(steps int, rate func(k int) float64, smoothness, largest float64, uniform func() float64) (int, error) {
	if steps < 1 || int64(steps) > 1<<53 {
		return 0, fmt.Errorf("steps %d: must be between 1 and 2^53", steps)
	}
	if err := positive("smoothness", smoothness); err != nil {
		return 0, err
	}
	if !(largest > 0) || largest*smoothness > 1 {
		return 0, fmt.Errorf("learning rate %v: must be above 0 and at most 1/smoothness = %v", largest, 1/smoothness)
	}
	weight := func(eta float64) float64 { return eta * (2 - smoothness*eta) } // grows up to 1/β
	const tries = 1 << 20
	for range tries {
		k := min(int(uniform()*float64(steps)), steps-1)
		eta := rate(k)
		if !(eta > 0) || eta > largest {
			return 0, fmt.Errorf("learning rate %v of step %d: must be above 0 and at most %v", eta, k, largest)
		}
		if uniform()*weight(largest) < weight(eta) {
			return k + 1, nil
		}
	}
	return 0, fmt.Errorf("no round accepted in %d draws: nearly all learning rates are far below %v", tries, largest)
}
