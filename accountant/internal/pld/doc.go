// Package pld gives certified lower and upper ends of the (ε, δ) of a
// composition, by privacy loss distributions.
//
// A release is described by a pair (P, Q) that dominates it: its hockey-stick
// curve H(ε) = E_P[(1−e^{ε−L})₊], L = ln dP/dQ, is at least that of the
// release on any two neighbors. Composition and sampling keep the order of
// curves, and H need not come from probabilities: mass may be left out of a
// lower end and added to an upper end. Two directions, adding and removing a
// record, are composed apart and the larger ends taken.
//
// Neighbours: pairs are stated for one record added or removed. Under
// replace-one the distance is doubled, and a sampled Gaussian is
// (1−q)N(0,1)+qN(μ,1) against (1−q)N(0,1)+qN(−μ,1) (docs/proofs/replace-one.md). Sampling is Poisson, or of
// subsets of a fixed size under replace-one (subset.go, docs/proofs/fixed-size.md). Several records at once are one
// record at a multiple of the distance, or on a Poisson batch a mixture (group.go, docs/proofs/groups.md).
//
// # Where each rounding goes
//
// One step. The line is cut at grid points of the loss (cells.go). Masses are
// differences of normal tails with a bound err on their error, relative to the
// tails. The upper end (connect) sends a cell's mass to its two ends so that P
// and Q are kept, moves from the lower to the upper one the error of that division,
// 2(err+…)/(1−e^{−h}), and adds err: a larger loss or more mass never lowers a curve.
// The lower end (fuse) joins cells until their
// ratio is that of a grid point, tested with err against it, and places there
// e^L·Q less err: a point at or below the true ratio, with no more Q than
// there is, lies below the curve everywhere. This is the pessimistic and the
// optimistic estimate of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
// (2022, arXiv 2207.04380), with cells for the points of the curve. Mass
// above the grid is an infinite loss of the upper end, and is left out of the
// lower one but for what balances a cell; mass below it moves up to the lowest point, or is fused.
// All that holds on any grid: of a spacing above all losses below 0, the lower end may have its own (balancing).
// Computed losses are off by at most slack a step (law.slack): the upper end
// is asked at ε−Σslack, the lower at ε+Σslack. The grid ends where a 1e-4 share of δ is left above it.
//
// Several releases on one batch that are not all Gaussian are composed by plain
// sums, rounded up or down, and every atom amplified: with the record ℓ →
// ln(1−q+q·e^ℓ) under (1−q)Q+qP, without it the mirror image. H of the sampled
// pair increases with H of the other (for the upper end Q is filled up to 1), so
// directions are kept (Zhu, Dong and Wang 2022, theorem 11).
//
// Releases of a bounded range that are made again and again, each with an interval that may
// follow from the ones before, have one curve together (ranged.go). It stands for them in any
// order among others, also interleaved with a second kind (Vadhan and Zhang 2023; docs/proofs/exponential-mechanism.md).
//
// Composition. With t the tilt, masses p·e^{tL−K(t)} are transformed, raised to
// their counts, multiplied, transformed back, and weighted by e^{ΣK−tL}. All of
// this is exact for any numbers K and t; only rounding is left:
//
//   - tilting and untilting: relative, bounded by Σcount·u(4|tL|+2|K|+8)+…, curve.rel;
//   - a transform: each frequency is off by at most Δ = 2.1·8u·log₂N (fft.go),
//     the total tilted mass being 1 for each of the two ends it carries. For many steps the
//     transform is that of what is left of φ−1 behind its first two terms (expand.go), and Δ counts |θ|² times;
//   - powers: |aⁿ−bⁿ| ≤ n|a−b|·max(|a|,|b|)^{n−1}, and 2n roundings of a
//     complex product, or of e^{n·ln φ}, relative to n|φ−1|. The bound uses |φ|+Δ for |φ|, summed over frequencies,
//     and e^{−80} for a frequency below that, whose value is taken as 0;
//   - the inverse: 8u·log₂N times the mean modulus. Together: curve.each, on
//     every mass; added for the upper end, taken off for the lower.
//
// The tilt is chosen where the answer is, so these bounds are relative to the
// masses that make up δ, however small δ is. Where δ is made of rare losses far above all others, a
// tilt would leave nothing but these: the least tilt is taken whose bound of Chernoff is near the best.
//
// The window. Chernoff's bound, evaluated on the composed measures themselves
// at further tilts, gives a window that holds all tilted mass but 1e-13 to 1e-10 on
// either side. What wraps round adds to the upper end, and is taken off the
// lower one at its largest weight. What lies above the window counts for the
// upper end as an infinite loss; what lies below has no part in δ at an ε
// within it. Sums of N masses are off by at most 4N·u, charged likewise.
//
// Not bounded: the rounding of the inputs themselves (μ, q and the norm of
// several μ are exact to a few units in the last place), and math.Exp,
// math.Log and math.Erfc beyond the few units that they document.
//
// Unsampled Gaussians alone have a closed form (Balle and Wang 2018, theorem
// 8), trusted to 2e-11. So have, all but a small shift of the loss, Gaussians of huge noise (near.go).
// More than 512 kinds of steps are merged into 512: the upper end from the largest, the lower from the smallest of each group's
// parameters, so that what merging costs shows in the interval.
//
// The spacing is a smooth function of the noise (see refine). Windows of 2²¹
// points do not suffice for 10⁷ steps with losses that are rare and a hundred times the usual ones.
package pld
