package kernels

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Ghost is what NormGhosts takes, or Factors: that adds it to a group's norm at once, this to Norm2.
type Ghost struct {
	Op    *ir.Op
	Math  Math // float32 for values in planes, else they are in pixels
	X, Dy Ptr
	Norm2 Ptr
	Group int
}

// MostGhosts is how many dense ops NormGhosts and Factors take.
const MostGhosts = 4

// NormGhosts adds the squared norm of each live example's gradient of a few dense
// ops to their Norm2[b], float64, in one launch:
//
//	‖dy‖²·(‖x‖² + 1)   with a bias,   ‖dy‖²·‖x‖²   without,
//
// and infinity where inputs are too long, as host.Ghost.
//
// Squares are exact in float64 and added there: element i in lane (i div 4) mod 32 of a warp, in order, in the (i mod 4)-th of its sums;
// then a lane's sums two by two, then the lanes in a tree of halves. In bf16 it is lane (i div 8) mod 32, and sum (i div 2) mod 4. The relative
// error is below γ(n/64+20) with u = 2⁻⁵³, n the longer row; this and nothing else separates it
// from the norm of the rounded f·dy times x that DenseSum adds up, so that the margin of the
// factors covers it (docs/proofs/rounding.md, `ghost`). Dead examples' norms stay as they are.
func NormGhosts(b Batch, g ...Ghost) Launch {
	l := Launch{Module: "norms", Name: "norm_ghost", Grid: [3]int{b.Capacity, len(g), 1}, Block: [3]int{2 * warp, 1, 1}, Args: b.args()}
	l.Args = append(l.Args, ghostArgs(g, func(i int) uint64 { return g[i].Norm2 })...)
	return l
}

// ghostArgs are the parameters GHOSTS of squares.cuh.
func ghostArgs(g []Ghost, more func(i int) uint64) []uint64 {
	var args []uint64
	for i := range MostGhosts {
		if i >= len(g) {
			args = append(args, 0, 0, 0, 0, 0, 0)
			continue
		}
		out, in, _ := g[i].Op.Columns()
		kind := flag(g[i].Op.Bias != ir.None)
		if !g[i].Math.plain() { // the zeros behind a row add nothing
			out, in = padded(out), padded(in)
		}
		if device.Precision(g[i].Math) == device.BF16 {
			kind |= 2
		}
		args = append(args, g[i].X, g[i].Dy, more(i), I(in), I(out), kind)
	}
	return args
}
