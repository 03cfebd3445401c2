package cuda

import (
	"math"

	"github.com/privgrad/privgrad/cuda/kernels"
)

// gamma is γ(n) = nu/(1−nu), the bound of n roundings one after the other.
func gamma(n, u float64) float64 { return n * u / (1 - n*u) }

// Rounding is 2·rows·η, the factor 2 for the two batches that are compared, where
// η bounds the relative error of an example's clipped gradient on its way into the
// sum: in its block the root mean square of 1 to ExampleBlock roundings of float32; behind it
// float64, in which a block meets at most as many others as there are rows.
// docs/numerics.md derives it.
func (n *net) Rounding(rows int) float64 {
	if rows <= 0 || !n.schedule.Private() || n.options.Exact {
		return 0
	}
	const b = kernels.ExampleBlock
	single, double := gamma(math.Sqrt((b+1)*(2*b+1)/6.0), 0x1p-24), gamma(float64(rows)+2, 0x1p-53)
	return 2 * float64(rows) * (single + double + single*double)
}
