package papers

import (
	"cmp"
	"fmt"
	"math"
)

// AnalyticGaussian is the least σ/Δ of Gaussian noise for which releasing a
// vector of L2 sensitivity Δ once is (ε, δ)-DP, by the exact condition
// Φ(Δ/2σ−εσ/Δ) − e^ε·Φ(−Δ/2σ−εσ/Δ) ≤ δ (Balle and Wang 2018, theorem 8).
// The result errs upwards, by what rounding may hide.
func AnalyticGaussian(epsilon, delta float64) (float64, error) {
	if err := cmp.Or(positive("epsilon", epsilon), probability("delta", delta)); err != nil {
		return 0, err
	}
	const least, most = 1e-9, 1e9
	hi := 1.0
	for gaussianDelta(epsilon, hi) > delta {
		if hi *= 2; hi > most {
			return 0, fmt.Errorf("epsilon %v at delta %v needs noise beyond %g times the sensitivity: raise epsilon or delta", epsilon, delta, most)
		}
	}
	lo := hi / 2
	for gaussianDelta(epsilon, lo) <= delta {
		if hi, lo = lo, lo/2; lo < least {
			return 0, fmt.Errorf("epsilon %v at delta %v is met with almost no noise: lower epsilon", epsilon, delta)
		}
	}
	for hi-lo > 1e-15*hi {
		if mid := lo + (hi-lo)/2; gaussianDelta(epsilon, mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, nil
}

// GaussianBudget is the zCDP budget ρ of (ε, δ) for Gaussian releases on all records:
// together they are one Gaussian of μ² = Σ(Δ/σ_t)² = 2ρ (Dong, Roth and Su 2022,
// corollary 3.3), which is (ε, δ)-DP exactly where AnalyticGaussian says so. It is rounded down.
func GaussianBudget(epsilon, delta float64) (float64, error) {
	a, err := AnalyticGaussian(epsilon, delta)
	if err != nil {
		return 0, err
	}
	return 1 / (2 * a * a) * (1 - 0x1p-50), nil
}

// gaussianDelta is an upper bound on δ of noise σ (in units of Δ) at ε. The
// difference of the two tails may cancel; each is padded by what rounding
// does to it: some units in the last place of erfc, and a relative error u of
// its argument x, which erfc magnifies 2x² times.
func gaussianDelta(epsilon, sigma float64) float64 {
	a := 1/(2*sigma) - epsilon*sigma
	b := -1/(2*sigma) - epsilon*sigma
	x := math.Max(1/(2*sigma), epsilon*sigma)
	pad := 0x1p-52 * (8 + 8*x*x)
	first := math.Erfc(-a/math.Sqrt2) / 2
	return first*(1+pad) - scaledTail(epsilon, a, b)*math.Max(1-pad, 0)
}

// scaledTail is e^ε·Φ(b) for b² = a²+2ε. Where e^ε and Φ(b) leave float64's
// range it is φ(a) times Mills' ratio at −b, by its alternating expansion:
// beyond 30 the first term left out is below 1e-17 of the sum, and the sum is
// cut after a negative term, which errs upwards for δ.
func scaledTail(epsilon, a, b float64) float64 {
	if b > -30 {
		return math.Exp(epsilon) * math.Erfc(-b/math.Sqrt2) / 2
	}
	z := 1 / (b * b)
	series := 1 - z*(1-3*z*(1-5*z*(1-7*z*(1-9*z*(1-11*z*(1-13*z))))))
	return math.Exp(-a*a/2) / math.Sqrt(2*math.Pi) / -b * series
}
