package record

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// A Repertoire is what a device can compute.
type Repertoire struct {
	Device     string             // its name
	Precisions []device.Precision // beside Float32
	Ops        func(ir.Kind) bool
	Functions  func(ir.Function) bool // of weights; Identity is nobody's question
	Views      func(ir.MapKind) bool  // maps of views; nil: a record has one view, as its table has it

	ClassWeights bool
}

// Check finds what no net of a schedule can be on a device.
func Check(s *ir.Schedule, o device.Options, r Repertoire) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := r.Check(s.Program); err != nil {
		return err
	}
	if err := r.checkViews(s); err != nil {
		return err
	}
	if o.Capacity < 1 {
		return fmt.Errorf("a network needs room for at least one row, has capacity %d", o.Capacity)
	}
	if o.Precision != device.Float32 {
		if !slices.Contains(r.Precisions, o.Precision) {
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

// Check names what a device lacks of a program.
func (r Repertoire) Check(p *ir.Program) error {
	lacks := func(what, node string) error {
		return fmt.Errorf("network %s: device %s does not have %s (%s): choose another device, or another layer", p.Name, r.Device, what, node)
	}
	if p.ClassWeights != nil && !r.ClassWeights {
		return fmt.Errorf("network %s: device %s has no class weights: choose device cpu, or leave class_weights out", p.Name, r.Device)
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		if !r.Ops(op.Kind) {
			return lacks("the op "+op.Kind.String(), op.Name)
		}
		if op.Function != ir.Identity && !r.Functions(op.Function) {
			return lacks("the function "+op.Function.String()+" of a weight", op.Name)
		}
	}
	return nil
}

// checkViews names what a device lacks of the views of records.
func (r Repertoire) checkViews(s *ir.Schedule) error {
	if r.Views == nil && s.Views() > 1 {
		return fmt.Errorf("device %s takes one view of a record, not %d: choose another device", r.Device, s.Views())
	}
	for _, m := range s.Augment {
		if r.Views == nil || !r.Views(m.Kind) {
			return fmt.Errorf("device %s does not have the map %s for views of records: choose another device", r.Device, m.Kind)
		}
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
