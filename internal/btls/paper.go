package btls

// The bounds that Chen and Lee 2020 print. Neither is a guarantee: they are
// here to reproduce the paper's figures, in a mode that says so.

// Theorem2RDP is theorem 2 of Chen and Lee 2020 for Laplace noise and generic
// queries. It has no proof: the paper's derivation bounds the divergence under an
// integral by one whose factors no longer depend on the same event.
func (s Search) Theorem2RDP(alpha float64) float64 {
	return laplaceRDP(1/s.Threshold, alpha) + laplaceRDP(2/s.Query, alpha)
}

// Theorem3RDP is theorem 3 of Chen and Lee 2020 for Gaussian noise and generic
// queries, α(4s₁²+s₂²)/(2s₁²s₂²). It is false: the search with scales 1 and 1 over
// 300 trials has a divergence of order 2 of 5.084 for some queries, where this
// says 5 (docs/proofs/line-search.md).
func (s Search) Theorem3RDP(alpha float64) float64 {
	return alpha / 2 * (1/(s.Threshold*s.Threshold) + 4/(s.Query*s.Query))
}
