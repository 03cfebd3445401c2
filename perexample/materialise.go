package perexample

import "github.com/privgrad/privgrad/internal/plan"

// materialise keeps every example's gradient of every parameter: simple, and
// for a dense layer bound by memory.
func materialise(p *plan.Program, _ *Options, c choices) {
	c.fill(p, plan.Dense, always(Store))
	c.fill(p, plan.Conv, always(Store))
}
