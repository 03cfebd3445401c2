package plan

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// StepKind is one thing that a device does for a whole batch.
type StepKind uint8

const (
	Forward   StepKind = iota // the op's output
	LossGrad                  // the gradient δ of each example's loss at the logits
	InputGrad                 // δ at the op's inputs from δ at its output
	NormGhost                 // adds each example's squared gradient norm of a dense op, from ‖x‖² and ‖δ‖² alone
	GradStore                 // keeps each example's parameter gradient and adds its squared norm
	Factor                    // each example's clipping factor; an example whose norm is not finite gets none
	GradSum                   // adds Σ factor·gradient to the sum without keeping the single gradients
	Combine                   // adds Σ factor·(kept gradient) to the sum
)

func (k StepKind) String() string {
	return [...]string{"forward", "loss", "input-grad", "norm-ghost", "grad-store", "factor", "grad-sum", "combine"}[k]
}

// NoOp is the Op of a step that belongs to no single op.
const NoOp = -1

// Step is one row of a schedule.
type Step struct {
	Kind StepKind
	Op   int
}

// Clipping says how an example's factor follows from its norm.
type Clipping uint8

const (
	// Unclipped: every factor is 1. Nothing bounds an example's influence.
	Unclipped Clipping = iota
	// Flat: min(1, C/‖g‖). Add/remove sensitivity C, replace-one 2C.
	Flat
)

func (c Clipping) String() string { return [...]string{"unclipped", "flat"}[c] }

// Schedule turns a batch into one (clipped) sum of gradients.
type Schedule struct {
	Program  *Program
	Steps    []Step
	Clipping Clipping
	// Chunk is the number of examples that go through the steps together;
	// 0 leaves it to the device.
	Chunk int
}

// Private reports whether every example's influence on the sum is bounded.
func (s *Schedule) Private() bool { return s.Clipping != Unclipped }

// Stored is the number of gradient values that the schedule keeps an example.
func (s *Schedule) Stored() int {
	n := 0
	for _, st := range s.Steps {
		if st.Kind == GradStore {
			n += s.Program.opParams(st.Op)
		}
	}
	return n
}

func (p *Program) opParams(i int) int {
	n := 0
	for _, q := range []int{p.Ops[i].Weight, p.Ops[i].Bias} {
		if q != None {
			n += p.Params[q].Size()
		}
	}
	return n
}

// ExampleBytes bounds the float32 memory that a device needs for one example
// of the batch: its values, their gradients and what the schedule keeps.
func (s *Schedule) ExampleBytes() int64 {
	return 2*s.Program.ValueBytes() + 4*int64(s.Stored())
}

// Validate checks that each op is run once, each parameter's gradient is
// summed once, and a clipped schedule measures every norm before its factor.
func (s *Schedule) Validate() error {
	if err := s.Program.Validate(); err != nil {
		return err
	}
	if s.Chunk < 0 {
		return fmt.Errorf("schedule of %s: chunk %d is negative", s.Program.Name, s.Chunk)
	}
	ops := len(s.Program.Ops)
	var count [Combine + 1][]int
	for k := range count {
		count[k] = make([]int, ops)
	}
	loss, factor := 0, 0
	for _, st := range s.Steps {
		if st.Kind == LossGrad || st.Kind == Factor {
			if st.Op != NoOp {
				return fmt.Errorf("schedule of %s: step %s belongs to no op, has op %d", s.Program.Name, st.Kind, st.Op)
			}
			if st.Kind == LossGrad {
				loss++
			} else {
				factor++
			}
			continue
		}
		if st.Op < 0 || st.Op >= ops {
			return fmt.Errorf("schedule of %s: step %s has no op %d", s.Program.Name, st.Kind, st.Op)
		}
		after := st.Kind == GradSum || st.Kind == Combine
		if (factor > 0) != after {
			return fmt.Errorf("schedule of %s: step %s of %s stands on the wrong side of the factors", s.Program.Name, st.Kind, s.Program.Ops[st.Op].Name)
		}
		count[st.Kind][st.Op]++
	}
	if loss != 1 || factor != 1 {
		return fmt.Errorf("schedule of %s: needs one loss and one factor step, has %d and %d", s.Program.Name, loss, factor)
	}
	for i := range s.Program.Ops {
		op := &s.Program.Ops[i]
		if count[Forward][i] != 1 {
			return fmt.Errorf("schedule of %s: %s runs forward %d times", s.Program.Name, op.Name, count[Forward][i])
		}
		if op.Weight == None {
			continue
		}
		if n := count[GradSum][i] + count[Combine][i]; n != 1 {
			return fmt.Errorf("schedule of %s: the gradient of %s is summed %d times", s.Program.Name, op.Name, n)
		}
		if n := count[NormGhost][i] + count[GradStore][i]; s.Private() && n != 1 {
			return fmt.Errorf("schedule of %s: the norm of %s is measured %d times", s.Program.Name, op.Name, n)
		}
		if count[Combine][i] > count[GradStore][i] {
			return fmt.Errorf("schedule of %s: %s combines gradients that were not kept", s.Program.Name, op.Name)
		}
		if count[NormGhost][i] > 0 && op.Kind != Dense {
			return fmt.Errorf("schedule of %s: %s is no dense op and has no ghost norm", s.Program.Name, op.Name)
		}
	}
	return nil
}

// String lists the steps.
func (s *Schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s clipping, %d values kept an example\n", s.Program.Name, s.Clipping, s.Stored())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, st := range s.Steps {
		name := ""
		if st.Op != NoOp {
			name = s.Program.Ops[st.Op].Name
		}
		fmt.Fprintf(w, "  %s\t%s\n", st.Kind, name)
	}
	w.Flush()
	return b.String()
}
