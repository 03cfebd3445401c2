package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// gamma is γ(n) = nu/(1−nu) of float32, the bound of n roundings one after the other.
func gamma(n float64) float64 {
	const u = 0x1p-24
	return n * u / (1 - n*u)
}

// Rounding is 2·rows·γ(w), where w is the root mean square of the number of
// roundings that an example's clipped gradient goes through on its way into
// the sum, and the factor 2 is for the two batches that are compared. There are
// at most as many blocks of examples as rows, whatever the chunk and the capacity.
// docs/proofs/rounding.md derives it.
func (n *net) Rounding(rows int) float64 {
	if rows <= 0 || !n.Schedule.Private() || n.Options.Exact {
		return 0
	}
	w := kernels.SumRoundings(rows, rows)
	for i, pixels := range n.arena.pixels {
		if pixels && n.Schedule.Program.Ops[i].Kind == ir.Dense {
			w = n.arena.math.DenseSumRoundings(rows, rows)
		}
	}
	if n.Options.CuBLAS { // an unknown order is worse than the order of whatever else adds
		w = kernels.ProductRoundings(rows, rows)
	}
	return 2 * float64(rows) * gamma(w)
}
