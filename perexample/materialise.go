package perexample

import "github.com/privgrad/privgrad/internal/plan"

// materialise keeps every example's gradient of every parameter: simple, and
// for a dense layer bound by memory.
func materialise(p *plan.Program) *plan.Schedule {
	return twoPass(p,
		func(*plan.Op) plan.StepKind { return plan.GradStore },
		func(*plan.Op) plan.StepKind { return plan.Combine })
}
