package papers

import (
	"cmp"
	"math"
)

// Bassily is private stochastic gradient descent on a convex set (Bassily, Smith and
// Thakurta 2014, algorithm 1), with batches of m records in place of one. A step takes
// each record with probability m/n, adds noise to the sum of their gradients, and moves
// to the projection on the set; there are (n/m)² steps, so that m/n·√T, which the price
// depends on, is what it is for single records and n² steps.
//
// The paper's theorem 2.1 is for ε of at most 2√ln(1/δ).
type Bassily struct {
	// NoiseMultiplier is σ/L of the sum of a batch's gradients: √(32·ln(n/δ)·ln(1/δ))/ε.
	NoiseMultiplier float64
	Steps           int  // ⌊(n/m)²⌋, at least 1
	Claimed         bool // whether ε is within the theorem

	records, batch float64
}

// NewBassily is the noise of theorem 2.1 for n records in batches of m.
func NewBassily(records int, batch, epsilon, delta float64) (Bassily, error) {
	err := cmp.Or(atLeastOne("records", records), positive("batch", batch), positive("epsilon", epsilon), probability("delta", delta))
	if err != nil {
		return Bassily{}, err
	}
	n, l := float64(records), -math.Log(delta)
	return Bassily{
		NoiseMultiplier: math.Sqrt(32*(math.Log(n)+l)*l) / epsilon,
		Steps:           max(int(min(n/batch*n/batch, maxSteps)), 1),
		Claimed:         epsilon <= 2*math.Sqrt(l),
		records:         n, batch: batch,
	}, nil
}

// Rate is the step size on the mean gradient of a batch in a step, counted from 1. For a
// convex loss on a ball of radius R it is 2R/√(t·E‖g‖²), with the theorem's bound G²+dσ² on
// the noised gradient's square, G = lipschitz, which here has the gradient of a penalty. For a μ-strongly
// convex loss it is 1/(μt).
func (b Bassily) Rate(step int, radius, lipschitz, clip, strongConvexity float64, dim int) float64 {
	t := float64(step)
	if strongConvexity > 0 {
		return 1 / (strongConvexity * t)
	}
	noise := b.NoiseMultiplier * clip / b.batch
	return 2 * radius / math.Sqrt(t*(lipschitz*lipschitz+float64(dim)*noise*noise))
}
