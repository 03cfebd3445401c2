package ir

import "fmt"

// Function says how an op's weight is computed from parameters. An example's gradient of the weight is taken back to the
// parameters when it is complete, and is measured, scaled and added only then: before that nothing bounds its norm. The way
// back is linear in the gradient: without clipping, a device may take the sum back instead.
type Function uint8

const (
	Identity Function = iota // the weight is the parameter
	Standardize
)

// functions defines every function but Identity.
var functions = [...]function{
	Standardize: standardize,
}

// function is what a program knows of one.
type function struct {
	name string
	of   Kind // the only kind of op that takes it
	// given are the shapes of the parameters in Op.Given; nil: there are none.
	given func(op *Op) [][]int
	// muting are those parameters which, when they are zero, make the weight zero and still have a gradient.
	muting func(op *Op) []int
}

func (f Function) String() string {
	switch {
	case f == Identity:
		return "identity"
	case int(f) < len(functions):
		return functions[f].name
	}
	return fmt.Sprintf("function %d", uint8(f))
}

// what an op computes, for people.
func (op *Op) what() string {
	if op.Function == Identity {
		return op.Kind.String()
	}
	return op.Kind.String() + " (" + op.Function.String() + ")"
}

func (p *Program) validateFunction(op *Op, used []int) error {
	var given [][]int
	if op.Function != Identity {
		if int(op.Function) >= len(functions) {
			return fmt.Errorf("has a weight by no function that is known")
		}
		f := functions[op.Function]
		if op.Kind != f.of {
			return fmt.Errorf("cannot %s its weight: only a %s op can", f.name, f.of)
		}
		if f.given != nil {
			given = f.given(op)
		}
	}
	if len(op.Given) != len(given) {
		return fmt.Errorf("gives its weight's function %d parameters, want %d", len(op.Given), len(given))
	}
	for i, q := range op.Given {
		if err := p.validateParam(q, given[i], fmt.Sprintf("parameter of %s", op.Function), used); err != nil {
			return err
		}
	}
	return nil
}
