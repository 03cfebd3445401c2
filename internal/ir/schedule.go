package ir

import (
	"fmt"
	"slices"
	"strings"
)

// StepKind is one thing that a device does for a whole batch.
type StepKind uint8

const (
	Forward         StepKind = iota // the op's output
	LossGrad                        // the gradient δ of each example's loss at the logits
	InputGrad                       // δ at the op's inputs from δ at its output
	NormGhost                       // adds each example's squared gradient norm of a dense op, from ‖x‖² and ‖δ‖² alone
	NormGram                        // adds each example's squared gradient norm of a convolution, from the Gram matrices of columns and δ
	NormInstantiate                 // adds each example's squared gradient norm of a convolution, from a gradient that is not kept
	GradStore                       // keeps each example's parameter gradient and adds its squared norm
	Factor                          // each example's clipping factors; an example with a norm that is not finite gets none
	GradSum                         // adds Σ factor·gradient to the sum without keeping the single gradients; without clipping, of any op
	Combine                         // adds Σ factor·(kept gradient) to the sum
)

// stepKinds has a name for each, in their order.
var stepKinds = [...]string{"forward", "loss", "input-grad", "norm-ghost", "norm-gram", "norm-instantiate", "grad-store", "factor", "grad-sum", "combine"}

func (k StepKind) String() string {
	if int(k) >= len(stepKinds) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return stepKinds[k]
}

// Measures says that a step adds to the examples' squared norms.
func (k StepKind) Measures() bool {
	switch k {
	case NormGhost, NormGram, NormInstantiate, GradStore:
		return true
	}
	return false
}

// NoOp is the Op of a step that belongs to no single op.
const NoOp = -1

// Step is one row of a schedule.
type Step struct {
	Kind StepKind
	Op   int
}

// Schedule turns a batch into one (clipped) sum of gradients.
type Schedule struct {
	Program  *Program
	Steps    []Step
	Clipping Clipping
	// Chunk is the number of records that go through the steps together;
	// 0 leaves it to the device.
	Chunk int
	// Several views of a record go through the network, each gathered by the table's maps and then by Augment, whose random
	// maps read a word of the view. The record's gradient is the mean of its views': it is complete before it is measured.
	// 0 stands for one view, of which no word is read where Augment is empty.
	Several int
	Augment Gather
	// UnitRows is how many rows of a table are one unit, one behind the other. Where it is more than one, each is a view of the
	// unit. 0 stands for one: a unit is a row, and all of its views are of that row.
	UnitRows int
}

// Row is the row of the table of a unit's view. A table has so few rows that each has a number of 32 bits.
func (s *Schedule) Row(unit int32, view int) int32 {
	if s.UnitRows < 2 {
		return unit
	}
	return unit*int32(s.UnitRows) + int32(view)
}

// MostViews bounds the views of a record.
const MostViews = 256

// Views is how many of each record go through the network.
func (s *Schedule) Views() int { return max(s.Several, 1) }

// Ways lists how op i's gradient can be measured and summed. That of several views is a sum of products, complete before
// it is measured.
func (s *Schedule) Ways(i int) []Way {
	op := &s.Program.Ops[i]
	return op.WaysOf(s.Views())
}

// Private reports whether every example's influence on the sum is bounded.
func (s *Schedule) Private() bool { return s.Clipping != Unclipped }

// Stored is the number of gradient values that the schedule keeps an example.
func (s *Schedule) Stored() int {
	n := 0
	for _, st := range s.Steps {
		if st.Kind == GradStore {
			n += s.Program.OpParams(st.Op)
		}
	}
	return n
}

// OpParams is the number of parameters of op i, those of its function included.
func (p *Program) OpParams(i int) int {
	op, n := &p.Ops[i], 0
	for _, q := range [...]int{op.Weight, op.Bias} {
		if q != None {
			n += p.Params[q].Size()
		}
	}
	for _, q := range op.Given {
		n += p.Params[q].Size()
	}
	return n
}

// Passing says of every op whether a device may add each stored gradient to the
// sum at once, instead of keeping it for every example: from the op's GradStore
// to the factors no product over the whole batch remains, as those of dense ops
// are, so that one example can go through all of it before the next.
func (s *Schedule) Passing() []bool {
	passing := make([]bool, len(s.Program.Ops))
	for _, st := range s.Steps {
		switch {
		case st.Kind == Factor:
			return passing
		case st.Kind == GradStore:
			passing[st.Op] = true
		case st.Kind == InputGrad && s.Program.Ops[st.Op].Kind == Dense:
			clear(passing)
		}
	}
	return passing
}

// unit is how many examples at least share a partial sum of passing gradients.
const unit = 8

// ExampleBytes bounds the float32 memory that a device needs for one example
// of the batch: its values, their gradients and what the schedule keeps. On a
// device that passes gradients on (Costs.Passes) only a share of a partial sum
// is kept of those that can be, and of those of other ops than dense ones that are not stored.
func (s *Schedule) ExampleBytes(passes bool) int64 {
	kept := 4 * int64(s.Stored())
	if !passes {
		kept += s.again()
	} else {
		passing := s.Passing()
		for _, st := range s.Steps {
			size := 4 * int64(s.Program.OpParams(max(st.Op, 0)))
			switch {
			case st.Kind == GradStore && passing[st.Op]:
				kept -= size - (size+unit-1)/unit
			case st.Kind == GradSum && s.Program.Ops[st.Op].Kind != Dense:
				kept += (size + unit - 1) / unit
			}
		}
	}
	return 2*int64(s.Views())*s.Program.ValueBytes() + kept
}

// again is the memory for one op's complete gradient of an example that is computed for the sum, since its weight is a
// function, it has several views, or no product sums it: one op at a time has it. The gradients of single views take as much, of
// some examples at a time.
func (s *Schedule) again() int64 {
	var complete, single int64
	for _, st := range s.Steps {
		size := 4 * int64(s.Program.OpParams(max(st.Op, 0)))
		if op := st.Op; st.Kind == GradSum && (s.Views() > 1 || s.Program.Ops[op].Function != Identity || !s.Program.Ops[op].Has(GradSum)) {
			complete = max(complete, size)
		}
		if s.Views() > 1 && (st.Kind == GradSum || st.Kind == Combine) {
			single = max(single, size)
		}
	}
	return complete + single
}

// Validate checks the order of the steps, and that each op runs once, passes its gradient
// on once wherever a parameter lies before it, has its parameters' gradient summed once
// and, in a clipped schedule, its norm measured once.
func (s *Schedule) Validate() error {
	if err := s.Program.Validate(); err != nil {
		return err
	}
	if int(s.Clipping) >= len(clippings) {
		return s.fail("clipping %d is unknown", s.Clipping)
	}
	if s.Chunk < 0 {
		return s.fail("chunk %d is negative", s.Chunk)
	}
	if s.Several < 0 || s.Several > MostViews {
		return s.fail("%d views of a record: give 1 to %d", s.Several, MostViews)
	}
	if s.UnitRows < 0 || s.UnitRows > 1 && (s.UnitRows != s.Several || len(s.Augment) > 0) {
		return s.fail("a unit of %d rows with %d views and %d random maps: it has one view of each row, as the row is", s.UnitRows, s.Several, len(s.Augment))
	}
	if err := s.Augment.Validate(s.Program.Shape); err != nil {
		return s.fail("%w", err)
	}
	for _, m := range s.Augment {
		if !m.Kind.Drawn() {
			return s.fail("the map %s is not drawn for views; it belongs to a table", m.Kind)
		}
	}
	count, err := s.count()
	if err != nil {
		return err
	}
	for _, k := range []StepKind{LossGrad, Factor} {
		if n := count[Step{k, NoOp}]; n != 1 {
			return s.fail("needs one step %s, has %d", k, n)
		}
	}
	need := s.Program.NeedsGrad()
	for i := range s.Program.Ops {
		back := slices.ContainsFunc(s.Program.Ops[i].In, func(v Value) bool { return need[v] })
		if err := s.validateOp(i, back, func(k StepKind) int { return count[Step{k, i}] }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schedule) fail(format string, args ...any) error {
	return fmt.Errorf("schedule of %s: "+format, append([]any{s.Program.Name}, args...)...)
}

// count says how often each step stands in the schedule, whose order it checks.
func (s *Schedule) count() (map[Step]int, error) {
	count := map[Step]int{}
	for i, st := range s.Steps {
		if int(st.Kind) >= len(stepKinds) {
			return nil, s.fail("step %d is of no kind that is known", i)
		}
		if st.Kind == LossGrad || st.Kind == Factor {
			if st.Op != NoOp {
				return nil, s.fail("step %s belongs to no op, has op %d", st.Kind, st.Op)
			}
		} else if st.Op < 0 || st.Op >= len(s.Program.Ops) {
			return nil, s.fail("step %s has no op %d", st.Kind, st.Op)
		}
		if i > 0 && s.stage(st) < s.stage(s.Steps[i-1]) {
			return nil, s.fail("step %s stands after %s", s.name(st), s.name(s.Steps[i-1]))
		}
		count[st]++
	}
	return count, nil
}

// validateOp checks op i, whose steps n counts. back says that it has to pass its gradient on.
func (s *Schedule) validateOp(i int, back bool, n func(StepKind) int) error {
	op := &s.Program.Ops[i]
	if n(Forward) != 1 {
		return s.fail("%s runs forward %d times", op.Name, n(Forward))
	}
	want := 0
	if back {
		want = 1
	}
	if n(InputGrad) != want {
		return s.fail("%s passes its gradient on %d times, want %d", op.Name, n(InputGrad), want)
	}
	measured, summed := n(NormGhost)+n(NormGram)+n(NormInstantiate)+n(GradStore), n(GradSum)+n(Combine)
	if op.Weight == None {
		if measured+summed > 0 {
			return s.fail("%s has no parameters, yet a gradient of them", op.Name)
		}
		return nil
	}
	if summed != 1 {
		return s.fail("the gradient of %s is summed %d times", op.Name, summed)
	}
	if measured > 1 || s.Private() && measured != 1 {
		return s.fail("the norm of %s is measured %d times", op.Name, measured)
	}
	if measured == 0 && n(GradSum) == 1 {
		return nil // a plain sum, of which no record's gradient has to be complete
	}
	if !slices.ContainsFunc(op.WaysOf(s.Views()), func(w Way) bool { return n(w.Measure) == 1 && n(w.Sum) == 1 }) {
		return s.fail("%s cannot measure and sum its gradient so: a %s op %s", op.Name, op.Kind, ways(op.WaysOf(s.Views())))
	}
	return nil
}

// ways says how an op can measure and sum.
func ways(all []Way) string {
	var list []string
	for _, w := range all {
		list = append(list, fmt.Sprintf("measures by %s and sums by %s", w.Measure, w.Sum))
	}
	return strings.Join(list, ", or ")
}

func (s *Schedule) stage(st Step) int {
	ops := len(s.Program.Ops)
	switch st.Kind {
	case Forward:
		return st.Op
	case LossGrad:
		return ops
	case InputGrad, NormGhost, NormGram, NormInstantiate, GradStore:
		return 2*ops - st.Op
	case Factor:
		return 2*ops + 1
	default:
		return 2*ops + 2
	}
}

func (s *Schedule) name(st Step) string {
	if st.Op == NoOp {
		return st.Kind.String()
	}
	return st.Kind.String() + " of " + s.Program.Ops[st.Op].Name
}
