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
// q_i = Σf(w) − Σf(w−η_i·g) with f clipped to [0,Δ]: d ∈ [a−1,a]^K for some
// a ∈ [0,1]. Both sets contain −d with d: a bound covers both directions.
//
// Bounds, for outcomes 1..K and none, proved in docs/proofs/line-search.md;
// s is 2 for generic queries and 1 for a shared baseline:
//
//   - gdp: what is seen is a function of the K numbers q_i+ν_i−λ, a Gaussian
//     vector of covariance s₂²I+s₁²11ᵀ.
//   - recursion: α/(2s₁²)+ln(V_K)/(α−1), see the type tail.
//   - union: α/(2s₁²)+s²α/(2s₂²)+ln(1+K)/(α−1), which follows from the recursion
//     (Zhu and Wang 2020, "Improving sparse vector technique with Rényi
//     differential privacy", has its like).
//   - pure and threshold, for Laplace noise and any number of trials.
//
// Queries may be chosen adaptively. Results are rounded up, by a margin above the
// rounding of the computation.
package btls
