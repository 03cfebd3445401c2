package perexample

import "github.com/privgrad/privgrad/internal/plan"

// ghost forms no gradient for a norm where that saves memory: in dense layers
// always, in convolutions where two Gram matrices are smaller than the
// gradient, 2T² < p for T output positions and p parameters (Bu, Mao and Xu
// 2022, section 4). The other convolutions are stored.
func ghost(p *plan.Program, _ *Options, c choices) {
	c.fill(p, plan.Dense, always(GhostNorm))
	c.fill(p, plan.Conv, func(op *plan.Op) Choice {
		out, k, positions := op.Columns()
		if 2*positions*positions < out*k {
			return Gram
		}
		return Store
	})
}
