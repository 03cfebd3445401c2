// Package btls bounds what a NoisyBTLS search costs: the backtracking line
// search by sparse vector of Chen and Lee 2020, "Stochastic adaptive line search
// for differentially private optimization", algorithm 1.
//
// Mechanism. Queries q_1..q_K of a private batch meet a public threshold T. The
// search draws λ once and ν_1..ν_K, and returns the first i with
// q_i+ν_i ≥ T+λ, or none. Noise is Gaussian or Laplace, scaled in units of Δ.
//
// Relation. Everything is stated for add-remove, where one record moves the
// queries by d·Δ. Generic queries: d ∈ [−1,1]^K. A shared baseline,
// q_i = Σf(w) − Σf(w−η_i·g) with f clipped to [0,Δ]: the record adds f(w) to all
// of them and takes something in [0,Δ] off each, so d ∈ [a−1,a]^K for some
// a ∈ [0,1]. Both sets contain −d with d: a bound covers both directions.
// Under replace-one generic queries move by twice as much, and a shared baseline
// by the difference of two such d, which lies in [A−1,A+1]^K for some A ∈ [−1,1]:
// in units of 2Δ that is [a−1,a]^K with a = (A+1)/2. See [Search.Scaled].
//
// Moving along. Put z = λ+c for D and z = λ for D′, c = 1 for generic queries
// and c = 1−a for a shared baseline. Given z, every query of D is as far above
// the threshold as that of D′ or farther, by at most s·Δ: s = 2 or 1. So
// "below" is no more likely under D, and "above" is so by a bounded amount. The
// bounds below follow as a divergence of what is seen together with z is at
// least that of what is seen. Queries may be chosen adaptively: all that is
// known at query i is that nothing has stopped.
//
// Bounds, for outcomes 1..K and none, proved in docs/linesearch-privacy.md:
//
//   - gdp: what is seen is a function of the K numbers q_i+ν_i−λ, a Gaussian
//     vector of covariance s₂²I+s₁²11ᵀ.
//   - recursion: α/(2s₁²)+ln(V_K)/(α−1), see the type tail.
//   - union: α/(2s₁²)+s²α/(2s₂²)+ln(1+K)/(α−1), which follows from the recursion
//     by H(t)^α·H(t+δ)^{1−α} ≤ e^{α(α−1)δ²/2} (Zhu and Wang 2020, "Improving
//     sparse vector technique with Rényi differential privacy", has its like).
//   - pure and threshold, for Laplace noise and any number of trials.
//
// Results are rounded up, by a margin above the rounding of the computation.
package btls
