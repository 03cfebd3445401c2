package perexample

import "github.com/privgrad/privgrad/internal/ir"

// bookkeeping computes every gradient once. A dense layer's is an outer
// product δxᵀ, so ‖δxᵀ‖² = ‖δ‖²‖x‖², the bias adds ‖δ‖², and the clipped sum is
// one matrix product over δ scaled by the factors. A convolution's sums many
// outer products; it is stored and combined.
func bookkeeping(p *ir.Program, _ *Options, c choices) {
	c.fill(p, ir.Dense, always(GhostNorm))
	c.fill(p, ir.Conv, always(Store))
}
