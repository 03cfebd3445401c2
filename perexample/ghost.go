package perexample

import "github.com/privgrad/privgrad/internal/plan"

// ghost measures dense layers without forming their gradients: δxᵀ is an
// outer product, so ‖δxᵀ‖² = ‖δ‖²‖x‖² and the bias adds ‖δ‖². Their clipped sum
// is then one matrix product over δ scaled by the factors. A convolution's
// gradient sums many outer products; it is stored once and combined, so that
// nothing is computed twice.
func ghost(p *plan.Program) *plan.Schedule {
	kind := func(dense, conv plan.StepKind) func(*plan.Op) plan.StepKind {
		return func(op *plan.Op) plan.StepKind {
			if op.Kind == plan.Dense {
				return dense
			}
			return conv
		}
	}
	return twoPass(p, kind(plan.NormGhost, plan.GradStore), kind(plan.GradSum, plan.Combine))
}
