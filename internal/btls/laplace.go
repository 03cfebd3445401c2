package btls

import "math"

// LaplacePure is the ε of pure differential privacy of the search with Laplace
// noise under add-remove, with any number of trials: ε₁+s·ε₂ for ε₁ = 1/Threshold,
// ε₂ = 1/Query, s = 1 for a shared baseline and 2 for generic queries (where it
// is theorem 1 of Chen and Lee 2020). It is rounded up; scales that are not
// above 0 give +Inf.
func (s Search) LaplacePure() float64 {
	if !(s.Threshold > 0 && s.Query > 0) {
		return math.Inf(1)
	}
	return (1/s.Threshold + s.reach()/s.Query) * up
}

// LaplaceRDP bounds the Rényi divergence of order alpha > 1, in both directions,
// of the search with Laplace noise under add-remove: by the worst mechanism of
// LaplacePure's ε, or by the divergence of the threshold's noise and s·ε₂. It is
// rounded up; an order that is not above 1 has no bound, +Inf.
func (s Search) LaplaceRDP(alpha float64) float64 {
	epsilon := s.LaplacePure()
	if !(alpha > 1) || math.IsInf(alpha, 1) || math.IsInf(epsilon, 1) {
		return math.Inf(1)
	}
	pure := pureRDP(epsilon, alpha) * up
	if r := (laplaceRDP(1/s.Threshold, alpha) + s.reach()/s.Query) * up; r < pure {
		return r
	}
	return pure
}

// pureRDP is the largest divergence of order alpha that ε-differential privacy
// allows. L^α is convex in the likelihood ratio L ∈ [e^{−ε}, e^ε], whose mean is
// 1, so it is largest with the ratio at the ends, as in randomised response:
// ln[p·e^x + (1−p)·e^{−x}]/(α−1) with x = (α−1)ε and p = 1/(1+e^{−ε}). It is
// below ε and, by Bun and Steinke 2016, proposition 3.3, below αε²/2.
func pureRDP(eps, alpha float64) float64 {
	x := (alpha - 1) * eps
	if x > 1 {
		return (x - math.Log1p(math.Exp(-eps)) + math.Log1p(math.Exp(-eps-2*x))) / (alpha - 1)
	}
	half := math.Sinh(x / 2)
	return math.Log1p(2*half*half+math.Tanh(eps/2)*math.Sinh(x)) / (alpha - 1)
}

// laplaceRDP is the divergence of order alpha of Laplace noise of scale 1/ε
// against itself moved by 1 (Mironov 2017, proposition 6), rounded up.
func laplaceRDP(eps, alpha float64) float64 {
	x, y := (alpha-1)*eps, alpha*eps
	if x > 1 {
		return (x + math.Log(alpha/(2*alpha-1)) + math.Log1p((alpha-1)/alpha*math.Exp(-x-y))) / (alpha - 1)
	}
	// The two nearly cancel for a small ε; what that can lose is added.
	a, b := alpha/(2*alpha-1)*math.Expm1(x), (alpha-1)/(2*alpha-1)*math.Expm1(-y)
	return math.Log1p(a+b+1e-15*(a-b)) / (alpha - 1)
}
