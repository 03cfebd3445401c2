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
type Bassily struct {
	// NoiseMultiplier is σ/L of the sum of a batch's gradients: √(32·ln(n/δ)·ln(1/δ))/ε.
	NoiseMultiplier float64
	Steps           int // ⌊(n/m)²⌋, at least 1

	batch float64
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
		batch:           batch,
	}, nil
}

// FirstRate is the step size on the mean gradient of a batch, of step 1. For a convex loss on a ball of
// radius R it is 2R/√(E‖g‖²), with the theorem's bound G²+dσ² on the noised gradient's square, and step t
// has it over √t. For a μ-strongly convex loss it is 1/μ, and step t has it over t. G bounds
// the gradient with its penalty; clip is the bound L without.
func (b Bassily) FirstRate(radius, gradient, clip, strongConvexity float64, dim int) float64 {
	if strongConvexity > 0 {
		return 1 / strongConvexity
	}
	noise := 0.0
	if b.NoiseMultiplier > 0 {
		noise = b.NoiseMultiplier * clip / b.batch
	}
	return 2 * radius / math.Sqrt(gradient*gradient+float64(dim)*noise*noise)
}
