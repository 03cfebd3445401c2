package perexample

import "github.com/privgrad/privgrad/internal/ir"

// materialise keeps every example's gradient of every parameter: simple, and
// for a dense layer bound by memory.
func materialise(p *ir.Program, _ *Options, c choices) {
	c.fill(p, ir.Dense, always(Store))
	c.fill(p, ir.Conv, always(Store))
}
