package ir

import (
	"slices"
	"testing"
)

// clipped stores the convolution's gradient and takes the dense layer's norm
// from its ghost.
func clipped() *Schedule {
	return &Schedule{Program: small(), Clipping: Flat, Steps: []Step{
		{Forward, 0}, {Forward, 1}, {Forward, 2}, {Forward, 3}, {LossGrad, NoOp},
		{NormGhost, 3}, {InputGrad, 3}, {InputGrad, 2}, {InputGrad, 1}, {GradStore, 0},
		{Factor, NoOp}, {Combine, 0}, {GradSum, 3},
	}}
}

func TestScheduleIsValid(t *testing.T) {
	s := clipped()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if !s.Private() {
		t.Error("a clipped schedule is not private")
	}
	if s.Stored() != 20 {
		t.Errorf("%d values are kept an example, want the convolution's 20", s.Stored())
	}
	if got, want := s.ExampleBytes(false), int64(2*444+4*20); got != want {
		t.Errorf("an example takes %d bytes, want %d", got, want)
	}
	// An eighth of the convolution's gradient where it passes into a partial sum.
	if got, want := s.ExampleBytes(true), int64(2*444+4*20/8); got != want {
		t.Errorf("an example takes %d bytes with passing gradients, want %d", got, want)
	}
	// Three views go through the network; beside the dense layer's complete gradient, which is not kept, lie those of views.
	s.Several = 3
	if got, want := s.ExampleBytes(false), int64(2*3*444+4*20+2*4*27); got != want {
		t.Errorf("a record of three views takes %d bytes, want %d", got, want)
	}
	s.Several = 0
	// Nothing has to be measured without clipping.
	s.Clipping = Unclipped
	s.Steps = slices.DeleteFunc(s.Steps, func(st Step) bool { return st.Kind == NormGhost })
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if s.Private() {
		t.Error("an unclipped schedule is private")
	}
}

func TestGroups(t *testing.T) {
	for c, want := range map[Clipping]struct {
		of []int
		n  int
	}{
		Unclipped: {[]int{0, 0, 0, 0}, 1}, Flat: {[]int{0, 0, 0, 0}, 1}, Automatic: {[]int{0, 0, 0, 0}, 1},
		PerLayer: {[]int{0, 0, 0, 1}, 2}, // the convolution and the dense layer
	} {
		s := clipped()
		s.Clipping = c
		if of, n := s.Groups(); !slices.Equal(of, want.of) || n != want.n {
			t.Errorf("%s clipping has %d groups %v, want %d %v", c, n, of, want.n, want.of)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s clipping: %v", c, err)
		}
	}
}

func TestScheduleFaults(t *testing.T) {
	drop := func(gone Step) func(*Schedule) {
		return func(s *Schedule) { s.Steps = slices.DeleteFunc(s.Steps, func(st Step) bool { return st == gone }) }
	}
	twice := func(st Step) func(*Schedule) {
		return func(s *Schedule) { s.Steps = slices.Insert(s.Steps, slices.Index(s.Steps, st), st) }
	}
	replace := func(old, now Step) func(*Schedule) {
		return func(s *Schedule) { s.Steps[slices.Index(s.Steps, old)] = now }
	}
	move := func(st, behind Step) func(*Schedule) {
		return func(s *Schedule) {
			drop(st)(s)
			s.Steps = slices.Insert(s.Steps, slices.Index(s.Steps, behind)+1, st)
		}
	}
	loss, factor := Step{LossGrad, NoOp}, Step{Factor, NoOp}
	for _, test := range []struct {
		name  string
		spoil func(*Schedule)
		want  string
	}{
		{"program", func(s *Schedule) { s.Program.Ops = nil }, "program small has no ops"},
		{"clipping", func(s *Schedule) { s.Clipping = Automatic + 1 }, "schedule of small: clipping 4 is unknown"},
		{"chunk", func(s *Schedule) { s.Chunk = -1 }, "schedule of small: chunk -1 is negative"},
		{"op of the loss", replace(loss, Step{LossGrad, 3}), "schedule of small: step loss belongs to no op, has op 3"},
		{"op of the factors", replace(factor, Step{Factor, 0}), "schedule of small: step factor belongs to no op, has op 0"},
		{"unknown op", replace(Step{Forward, 3}, Step{Forward, 4}), "schedule of small: step forward has no op 4"},
		{"no op", replace(Step{Combine, 0}, Step{Combine, NoOp}), "schedule of small: step combine has no op -1"},
		{"unknown step", func(s *Schedule) { s.Steps = append(s.Steps, Step{Combine + 1, 0}) }, "step 13 is of no kind that is known"},
		{"no loss", drop(loss), "schedule of small: needs one step loss, has 0"},
		{"two losses", twice(loss), "schedule of small: needs one step loss, has 2"},
		{"no factors", drop(factor), "schedule of small: needs one step factor, has 0"},
		{"two factors", twice(factor), "schedule of small: needs one step factor, has 2"},
		{"norm after the factors", move(Step{NormGhost, 3}, factor), "schedule of small: step norm-ghost of fc1 stands after factor"},
		{"gradient kept after the factors", move(Step{GradStore, 0}, factor), "schedule of small: step grad-store of conv1 stands after factor"},
		{"sum before the factors", move(Step{Combine, 0}, Step{GradStore, 0}), "schedule of small: step factor stands after combine of conv1"},
		{"norm before the loss", move(Step{NormGhost, 3}, Step{Forward, 3}), "schedule of small: step loss stands after norm-ghost of fc1"},
		{"gradient kept before it is there", move(Step{GradStore, 0}, Step{InputGrad, 3}), "schedule of small: step input-grad of pool1 stands after grad-store of conv1"},
		{"back in the wrong order", move(Step{InputGrad, 2}, Step{InputGrad, 1}), "schedule of small: step input-grad of pool1 stands after input-grad of relu1"},
		{"forward in the wrong order", move(Step{Forward, 0}, Step{Forward, 1}), "schedule of small: step forward of conv1 stands after forward of relu1"},
		{"forward after the loss", move(Step{Forward, 3}, loss), "schedule of small: step forward of fc1 stands after loss"},
		{"not forward", drop(Step{Forward, 1}), "schedule of small: relu1 runs forward 0 times"},
		{"forward twice", twice(Step{Forward, 1}), "schedule of small: relu1 runs forward 2 times"},
		{"gradient lost", drop(Step{InputGrad, 2}), "schedule of small: pool1 passes its gradient on 0 times, want 1"},
		{"gradient doubled", twice(Step{InputGrad, 2}), "schedule of small: pool1 passes its gradient on 2 times, want 1"},
		{"gradient of the input", replace(Step{GradStore, 0}, Step{InputGrad, 0}), "schedule of small: conv1 passes its gradient on 1 times, want 0"},
		{"not summed", drop(Step{Combine, 0}), "schedule of small: the gradient of conv1 is summed 0 times"},
		{"summed twice", twice(Step{GradSum, 3}), "schedule of small: the gradient of fc1 is summed 2 times"},
		{"summed in two ways", func(s *Schedule) { s.Steps = append(s.Steps, Step{GradSum, 0}) }, "schedule of small: the gradient of conv1 is summed 2 times"},
		{"not measured", drop(Step{NormGhost, 3}), "schedule of small: the norm of fc1 is measured 0 times"},
		{"measured twice", twice(Step{GradStore, 0}), "schedule of small: the norm of conv1 is measured 2 times"},
		{"measured twice without clipping", func(s *Schedule) { twice(Step{GradStore, 0})(s); s.Clipping = Unclipped }, "schedule of small: the norm of conv1 is measured 2 times"},
		{"not kept", func(s *Schedule) { drop(Step{GradStore, 0})(s); s.Clipping = Unclipped }, "schedule of small: conv1 cannot measure and sum its gradient so: a conv op measures by grad-store and sums by combine, or measures by norm-gram"},
		{"ghost of a convolution", func(s *Schedule) {
			replace(Step{GradStore, 0}, Step{NormGhost, 0})(s)
			replace(Step{Combine, 0}, Step{GradSum, 0})(s)
		}, "schedule of small: conv1 cannot measure and sum its gradient so: a conv op measures by grad-store and sums by combine, or measures by norm-gram"},
		{"Gram matrix of a dense op", replace(Step{NormGhost, 3}, Step{NormGram, 3}), "schedule of small: fc1 cannot measure and sum its gradient so: a dense op measures by norm-ghost and sums by grad-sum, or measures by grad-store and sums by combine"},
		{"second gradient of a dense op", replace(Step{NormGhost, 3}, Step{NormInstantiate, 3}), "schedule of small: fc1 cannot measure and sum its gradient so: a dense op measures by norm-ghost and sums by grad-sum, or measures by grad-store and sums by combine"},
		{"measured in two ways", func(s *Schedule) { s.Steps = slices.Insert(s.Steps, 10, Step{NormGram, 0}) }, "schedule of small: the norm of conv1 is measured 2 times"},
		{"combined after a Gram matrix", replace(Step{GradStore, 0}, Step{NormGram, 0}), "schedule of small: conv1 cannot measure and sum its gradient so: a conv op measures by grad-store and sums by combine, or measures by norm-gram"},
		{"gradient of no parameters", func(s *Schedule) { s.Steps = append(s.Steps, Step{GradSum, 1}) }, "schedule of small: relu1 has no parameters, yet a gradient of them"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := clipped()
			test.spoil(s)
			wantError(t, s.Validate(), test.want)
		})
	}
}

// A normalization keeps its gradients where they are clipped, and sums them at once where they are not.
func TestNormalizationIsStored(t *testing.T) {
	p := small()
	p.Params = append(p.Params, Param{Name: "norm1.weight", Shape: []int{3}, Offset: p.NumParams()})
	p.Ops = append(p.Ops, Op{Kind: GroupNorm, Name: "norm1", In: []Value{4}, Shape: []int{3}, Out: []int{3}, Groups: 1, Epsilon: 1, Weight: len(p.Params) - 1, Bias: None})
	s := clipped()
	s.Program = p
	s.Steps = slices.Insert(s.Steps, 4, Step{Forward, 4})
	s.Steps = slices.Insert(s.Steps, 6, Step{GradStore, 4}, Step{InputGrad, 4})
	s.Steps = append(s.Steps, Step{Combine, 4})
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	s.Steps[len(s.Steps)-1].Kind = GradSum
	const want = "schedule of small: norm1 cannot measure and sum its gradient so: a groupnorm op measures by grad-store and sums by combine"
	wantError(t, s.Validate(), want)
	s.Clipping = Unclipped
	wantError(t, s.Validate(), want) // kept for nothing
	s.Steps = slices.DeleteFunc(s.Steps, func(st Step) bool { return st == Step{GradStore, 4} })
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	s.Clipping = Flat
	wantError(t, s.Validate(), "the norm of norm1 is measured 0 times")
}

// The norm of a computed weight's gradient is taken of that of its parameters: no way without a complete gradient is left.
func TestFunctionsWays(t *testing.T) {
	p := small()
	p.Ops[0].Function, p.Ops[0].Given = Standardize, []int{4}
	p.Params = append(p.Params, Param{Name: "conv1.gain", Shape: []int{2}, Offset: p.NumParams()})
	for _, test := range []struct {
		measure, sum StepKind
		refused      bool
	}{
		{GradStore, Combine, false}, {NormInstantiate, GradSum, false}, {GradStore, GradSum, false}, {NormGram, GradSum, true},
	} {
		s := clipped()
		s.Program = p
		s.Steps[slices.Index(s.Steps, Step{GradStore, 0})].Kind = test.measure
		s.Steps[slices.Index(s.Steps, Step{Combine, 0})].Kind = test.sum
		if err := s.Validate(); (err != nil) != test.refused {
			t.Errorf("measured by %s, summed by %s: %v", test.measure, test.sum, err)
		}
	}
}

// A stored gradient passes on if no dense op works on the batch after it.
func TestPassing(t *testing.T) {
	s := clipped()
	if got := s.Passing(); !slices.Equal(got, []bool{true, false, false, false}) {
		t.Errorf("passing on are %v, want the convolution alone", got)
	}
	for i, st := range s.Steps {
		if st.Kind == NormGhost {
			s.Steps[i].Kind = GradStore // before the dense op passes δ back
		}
	}
	if got := s.Passing(); !slices.Equal(got, []bool{true, false, false, false}) {
		t.Errorf("with a stored dense layer, passing on are %v, want the convolution alone", got)
	}
}
