// Package prv is a second opinion on what a list of noisy releases costs in
// (ε, δ): the privacy random variables of Gopi, Lee and Wutschitz, "Numerical
// Composition of Differential Privacy", 2021 (arXiv 2106.02848). It shares no
// code with any other accountant of this module, so that an error in one shows
// as a disagreement between the two.
//
// # Neighbouring relations and pairs
//
// The privacy random variable of a pair of densities (P, Q) is Y = ln P(x)/Q(x)
// with x drawn from P, and δ(ε) = E[(1−e^{ε−Y})₊]. Variables of one direction
// add up over releases, adaptive ones too. With N noise of
// scale 1 and μ the distance that one record moves it, in units of that scale,
// at Poisson rate q the pairs are
//
//	one record removed   (1−q)N(0)+qN(μ)  against  N(0)
//	one record added     N(0)             against  (1−q)N(0)+qN(μ)
//	one replaced         (1−q)N(0)+qN(μ)  against  (1−q)N(0)+qN(−μ)  (Gaussian)
//	one replaced, q = 1  N(2μ)            against  N(0)
//
// Zhu, Dong and Wang 2022 (arXiv 2106.08567) show that the first
// two dominate what Poisson sampling does. Under add-remove the answer is the
// worse of the whole list in the one direction and in the other.
//
// # Bounds
//
// Lower and Upper of a [Result] enclose the exact value of the pairs above, by
// theorem 5.5 of Gopi, Lee and Wutschitz, whose argument is repeated here because
// its constants are:
//
// Each Y_i is rounded to the nearest point of a lattice of mesh h and then
// moved by the mean of what rounding changed (algorithm 2, which matches the
// means). The rounding errors D_i are independent, have mean 0 and lie in an
// interval of width h, so that by Hoeffding's inequality the k of a list stay within
//
//	ε_error = h·√(k/2·ln(4/δ_error)),  |ΣD_i| ≤ ε_error,
//
// but for probability δ_error/2. The lattice is periodic, since the fast
// Fourier transform is; its period covers [A−ε_error, B+ε_error], where
// Chernoff's bound over the Rényi divergences (remark 5.6) leaves a probability of δ_error/4
// for ΣY_i < A and as much for ΣY_i > B. Where none of this happens, the
// lattice's sum is within ε_error of the exact one. As y ↦ (1−e^{ε−y})₊ rises and
// has values in [0, 1], the lattice's curve δ̃ and the exact one satisfy
//
//	δ̃(ε+ε_error) − δ_error ≤ δ(ε) ≤ δ̃(ε−ε_error) + δ_error.
//
// The published constants, ln(12/δ_error) among them, come from splitting δ_error
// differently. To δ_error are added k·2Φ(−9), for the tails of one release that
// are moved onto the last lattice point, and an allowance for rounding in the
// transform, which is measured and not proved; see [Result].
package prv
