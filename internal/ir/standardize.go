package ir

import "slices"

// StandardFloor is the least fan-in·variance that Standardize divides by the root of.
const StandardFloor = 1e-4

// standardize is scaled weight standardization (De et al. 2022, section 3.1; Brock et al. 2021, equation 5): of each
// output channel's weights w, of which there are fan-in many with mean μ and variance v,
//
//	(w − μ) · gain / √max(fan-in·v, StandardFloor)
//
// with a gain of each channel. From the gradient G of the result, ŵ being (w − μ)/√max(…), come that of the gain, ⟨G, ŵ⟩,
// and that of w: gain/√max(…) · (G − mean G − ŵ·⟨G, ŵ⟩), without the last term where the floor is not exceeded.
var standardize = function{
	name:  "standardize",
	of:    Conv,
	given: func(op *Op) [][]int { return [][]int{op.Out[:1]} },
	// Weights of zero leave the gains no gradient, and gains of zero the weights none: only one of them may be zero.
	muting: func(op *Op) []int { return slices.Clone(op.Given) },
}
