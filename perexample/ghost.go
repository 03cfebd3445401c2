package perexample

import "github.com/privgrad/privgrad/internal/ir"

// ghost forms no gradient for a norm where that saves memory: in dense layers
// always, in convolutions where two Gram matrices are smaller than the
// gradient, 2T² < p for T output positions and p parameters (Bu, Mao and Xu
// 2022, section 4). The other convolutions are stored.
func ghost(p *ir.Program, _ *Options, c choices) {
	c.fill(p, ir.Dense, always(GhostNorm))
	c.fill(p, ir.Conv, func(op *ir.Op) Choice {
		out, k, positions := op.Columns()
		if 2*positions*positions < out*k {
			return Gram
		}
		return Store
	})
}
