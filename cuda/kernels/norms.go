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
	return NormGhosts(b, Ghost{op, x, dy, norm2})
}

// Ghost is what NormGhost takes.
type Ghost struct {
	Op           *plan.Op
	X, Dy, Norm2 Ptr
}

// MostGhosts is how many dense ops NormGhosts takes.
const MostGhosts = 4

// NormGhosts is NormGhost of a few ops, with different places for their norms, in one launch.
func NormGhosts(b Batch, g ...Ghost) Launch {
	l := Launch{Module: "norms", Name: "norm_ghost", Grid: [3]int{b.Capacity, len(g), 1}, Block: [3]int{normThreads, 1, 1}, Args: b.args()}
	for i := range MostGhosts {
		if i >= len(g) {
			l.Args = append(l.Args, 0, 0, 0, 0, 0, 0)
			continue
		}
		out, in, _ := g[i].Op.Columns()
		l.Args = append(l.Args, g[i].X, g[i].Dy, g[i].Norm2, I(in), I(out), flag(g[i].Op.Bias != plan.None))
	}
	return l
}
