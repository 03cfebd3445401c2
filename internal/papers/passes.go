package papers

import "math"

// Passes is stochastic gradient descent without noise: k passes over one secret, uniform
// permutation of n records, in batches of b. Its last iterate, or an average, is released once,
// with noise (Wu, Li, Kumar, Chaudhuri, Jha and Naughton 2017, "Bolt-on Differential Privacy for
// Scalable Stochastic Gradient Descent-based Analytics").
type Passes struct {
	Records         int     // n
	Passes          int     // k
	Batch           int     // b
	Lipschitz       float64 // L, of a record's loss without the regularizer
	StrongConvexity float64 // μ, that of the regularizer
	// LearningRate η is at most 2/(β+μ), β with the regularizer; 0, for μ > 0: min(1/β, 1/(μt)) in
	// step t.
	LearningRate float64
	Average      bool // of all iterates: equal weights at a constant rate, in proportion to t else
}

// Sensitivity is how far the result moves in L2 when one record is exchanged, in the worst place of
// the permutation. A step takes the record in once a pass, and moves by 2Lη/b then; every other
// step brings the two runs together by 1−ημ. That gives 2kLη/b, or 2L/(μn).
func (p Passes) Sensitivity() float64 {
	k, perPass := float64(p.Passes), math.Ceil(float64(p.Records)/float64(p.Batch))
	steps, move := k*perPass, 2*p.Lipschitz/float64(p.Batch)
	switch mu, eta := p.StrongConvexity, p.LearningRate; {
	case eta == 0 && p.Average:
		return move / mu * (k + 1) / (steps + 1)
	case eta == 0:
		return move / mu / perPass
	case mu == 0 && p.Average:
		return move * eta * (k + 1) / 2
	case mu == 0:
		return move * eta * k
	default:
		// The last place of a pass is the worst for the last iterate. An average lies no farther apart than
		// the farthest iterates, and those are the last of a pass.
		return move * eta * math.Expm1(steps*math.Log1p(-eta*mu)) / math.Expm1(perPass*math.Log1p(-eta*mu))
	}
}
