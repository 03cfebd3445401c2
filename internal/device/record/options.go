package record

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Check finds what no net of a schedule can be. has are the precisions of the device beside Float32.
func Check(s *ir.Schedule, o device.Options, has []device.Precision) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if o.Capacity < 1 {
		return fmt.Errorf("a network needs room for at least one row, has capacity %d", o.Capacity)
	}
	if o.Precision != device.Float32 {
		if !slices.Contains(has, o.Precision) {
			return fmt.Errorf("precision %s: this device multiplies in float32 or better; choose precision float32, or a GPU by device cuda, which has tf32 and bf16", o.Precision)
		}
		if o.Exact {
			return fmt.Errorf("precision %s: exact sums are of float32 gradients; choose precision float32, or other noise than exact", o.Precision)
		}
	}
	if o.Exact {
		return checkExact(s)
	}
	return nil
}

// checkExact says whether a schedule can run on a grid.
func checkExact(s *ir.Schedule) error {
	if s.Clipping != ir.Flat {
		return fmt.Errorf("exact sums of %s need flat clipping, not %s: their bound is one norm over all parameters", s.Program.Name, s.Clipping)
	}
	for i := range s.Program.Ops {
		op := &s.Program.Ops[i]
		formed := slices.Contains(s.Steps, ir.Step{Kind: ir.GradStore, Op: i}) && slices.Contains(s.Steps, ir.Step{Kind: ir.Combine, Op: i})
		if op.Weight != ir.None && !formed {
			return fmt.Errorf("exact sums truncate every coordinate of every example's gradient, which the schedule never forms for %s: use strategy materialise or microbatch", op.Name)
		}
	}
	return nil
}
