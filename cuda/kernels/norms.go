package kernels

import "github.com/privgrad/privgrad/internal/plan"

const normThreads = 128

// NormGhost adds the squared norm of each live example's gradient of a dense
// op to norm2[b], float64:
//
//	‖dy‖²·(‖x‖² + 1)   with a bias,   ‖dy‖²·‖x‖²   without.
//
// Squares are exact in float64 and added there, element i in
// lane i mod 128, in order, then the lanes in a tree of halves. The relative
// error is below γ(n/64+20) with u = 2⁻⁵³, n the longer row; this and nothing else separates it
// from the norm of the rounded f·dy times x that DenseSum adds up, so that the margin of the
// factors covers it (docs/numerics.md, `ghost`). Dead examples' norms stay as they are.
func NormGhost(b Batch, op *plan.Op, x, dy, norm2 Ptr) Launch {
	out, in, _ := op.Columns()
	return Launch{
		Module: "norms", Name: "norm_ghost", Grid: [3]int{b.Capacity, 1, 1}, Block: [3]int{normThreads, 1, 1},
		Args: b.args(x, dy, norm2, I(in), I(out), flag(op.Bias != plan.None)),
	}
}
