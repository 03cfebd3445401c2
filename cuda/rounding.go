package cuda

import (
	"math"

	"github.com/privgrad/privgrad/cuda/kernels"
)

// gamma is γ(n) = nu/(1−nu), the bound of n roundings one after the other.
func gamma(n, u float64) float64 { return n * u / (1 - n*u) }

// Rounding is 2·rows·γ(w) in float32, with the root mean square w of the roundings
// that an example's clipped gradient goes through in its block, the factor 2 for
// the two batches that are compared; and the same for float64, in which a block may
// be added to as many others as there are rows. docs/numerics.md derives it.
func (n *net) Rounding(rows int) float64 {
	if rows <= 0 || !n.schedule.Private() || n.options.Exact {
		return 0
	}
	// Fused from zero, the first of b shares goes through b roundings, the last through one.
	const b = kernels.ExampleBlock
	w := math.Sqrt((b + 1) * (2*b + 1) / 6.0)
	return 2 * float64(rows) * (gamma(w+1, 0x1p-24) + gamma(float64(rows)+2, 0x1p-53))
}
