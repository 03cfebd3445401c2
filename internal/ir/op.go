package ir

import (
	"fmt"
	"slices"
)

// Kind says what an op computes.
type Kind uint8

// CUDA kernels repeat the numbers.
const (
	Conv Kind = iota
	Dense
	ReLU
	Tanh
	Sigmoid
	MaxPool
	AvgPool
	Add
	LeakyReLU
	GroupNorm
	LayerNorm
	GELU
	Reflect
	Planes
	Modulus
	Concat
	Pick
	Affine
	Contrast
	Divide
	Unit
	Deskew
)

// kinds defines every kind of op. No entry has a default: what a kind leaves out, it does not have.
var kinds = [...]definition{
	Conv:      conv,
	Dense:     dense,
	ReLU:      activation("relu"),
	Tanh:      activation("tanh"),
	Sigmoid:   activation("sigmoid"),
	MaxPool:   pool("maxpool"),
	AvgPool:   pool("avgpool"),
	Add:       add,
	LeakyReLU: leakyReLU,
	GroupNorm: groupNorm,
	LayerNorm: layerNorm,
	GELU:      gelu,
	Reflect:   reflect,
	Planes:    planes,
	Modulus:   modulus,
	Concat:    concat,
	Pick:      pick,
	Affine:    affine,
	Contrast:  contrast,
	Divide:    divide,
	Unit:      scaled,
	Deskew:    deskew,
}

// A definition is what a program and a schedule know of a kind of op.
type definition struct {
	name   string
	inputs int // values that it reads; several: two or more
	// sizes says what is wrong with those of the values that it reads; nil: each has the shape Op.Shape.
	sizes func(op *Op, sizes []int) error
	// shapes are what an op's input makes of its other shapes, or what is wrong with it.
	shapes func(op *Op) (shapes, error)
	flops  func(op *Op) int64 // of one forward pass over one example
	// ways are those to measure and sum an example's gradient; an op without parameters has none.
	ways []Way
	// ofViews are further ways where a record has several views.
	ofViews []Way
	// activation: it works on each element by itself and never falls, and its derivative is a function of its output. A device
	// may let it overwrite its input, or pool by maximum before it.
	activation bool
	// broadcasts: weight and bias may each be left out, and have any shape that repeats along the axes of Op.Shape.
	broadcasts bool
	// forward: it has no gradient. What it reads and what it multiplies by is fixed.
	forward bool
}

// several says of a kind that its ops read two values or more.
const several = -1

// shapes of an op's output and parameters; nil for a parameter that it has not.
type shapes struct{ out, weight, bias []int }

// A Way is how an op's gradient gets into the sum: the step that measures an example's, and the one that adds.
type Way struct{ Measure, Sum StepKind }

func (k Kind) defined() bool { return int(k) < len(kinds) }

func (k Kind) String() string {
	if !k.defined() {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kinds[k].name
}

// Activation reports whether k works on each element by itself, never falls and has a
// derivative that is a function of its output.
func (k Kind) Activation() bool { return k.defined() && kinds[k].activation }

// None marks a parameter that an op does not have.
const None = -1

// Op is one operation. Shapes are (C,H,W) for images and (n) for vectors; a
// reshape is no op, it shows only as an In shape that differs from the
// producer's.
type Op struct {
	Kind   Kind
	Name   string  // the graph node it came from, for messages
	In     []Value // one value; two for Add and Divide, two or more for Concat
	Shape  []int   // of each input; of a Divide's first; of all that a Concat reads together
	Out    []int
	Weight int // index into Program.Params, or None
	Bias   int
	// Function computes the weight from the parameter Weight and those in Given; Identity takes the parameter itself.
	Function Function
	Given    []int   // further parameters that Function reads
	Window   Window  // Conv, MaxPool, AvgPool, Planes, Contrast; a Reflect has its pads alone
	Slope    float32 // LeakyReLU: in (0, 1)
	// GroupNorm has so many groups of neighbouring channels, axis 0 of its shape. It divides by the number of a
	// group's elements in its variance v. LayerNorm has a group for each line of its last axis. Modulus and Concat have
	// equal stretches of neighbouring channels, or elements.
	Groups  int
	Epsilon float64
	Norm    float64 // Unit
	Index   []int32 // Pick
}

// Parameters lists an op's parameters in the order in which its gradient is kept: weight, bias, those of its function.
func (op *Op) Parameters() []int {
	var list []int
	for _, q := range [...]int{op.Weight, op.Bias} {
		if q != None {
			list = append(list, q)
		}
	}
	return append(list, op.Given...)
}

// Muting lists the parameters that make all outputs zero when they are, and then still have a gradient: weight and bias, and
// in the place of a weight that is computed those that its function says. nil: an op without parameters has none.
func (op *Op) Muting() []int {
	var list []int
	switch {
	case op.Weight == None:
		return nil
	case op.Function == Identity:
		list = []int{op.Weight}
	default:
		list = functions[op.Function].muting(op)
	}
	if op.Bias != None {
		list = append(list, op.Bias)
	}
	return list
}

// Ways lists how an op's gradient can be measured and summed, of one view.
func (op *Op) Ways() []Way { return op.WaysOf(1) }

// WaysOf lists how an op's gradient of so many views can be measured and summed. That of several views, and that of a
// weight that is computed, has to be complete before it is measured.
func (op *Op) WaysOf(views int) []Way {
	var list []Way
	for _, w := range kinds[op.Kind].ways {
		if op.Function == Identity && views == 1 || w.Measure == GradStore || w.Measure == NormInstantiate {
			list = append(list, w)
		}
	}
	if views > 1 {
		list = append(list, kinds[op.Kind].ofViews...)
	}
	return list
}

// Has says whether a way of the op measures, or sums, by a step.
func (op *Op) Has(k StepKind) bool {
	return slices.ContainsFunc(op.Ways(), func(w Way) bool { return w.Measure == k || w.Sum == k })
}

// FLOPs counts the floating-point operations of one forward pass over one
// example, a multiplication and an addition as two.
func (op *Op) FLOPs() int64 { return kinds[op.Kind].flops(op) }

// perOutput is a cost of so many operations for each element of the output.
func perOutput(n int64) func(*Op) int64 {
	return func(op *Op) int64 { return n * int64(Size(op.Out)) }
}

// sameShape gives an output of the input's shape.
func sameShape(op *Op) (shapes, error) { return shapes{out: op.Shape}, nil }

func (p *Program) validateOp(i int, used []int) error {
	op := &p.Ops[i]
	if !op.Kind.defined() {
		return fmt.Errorf("is of no kind that is known")
	}
	if len(op.Shape) == 0 {
		return fmt.Errorf("has no shape of what it reads")
	}
	for _, shape := range [...][]int{op.Shape, op.Out} {
		if err := countable(shape); err != nil {
			return err
		}
	}
	if err := p.validateInputs(i); err != nil {
		return err
	}
	has, err := kinds[op.Kind].shapes(op)
	if err != nil {
		return err
	}
	if !slices.Equal(has.out, op.Out) {
		return fmt.Errorf("gives shape %v, its input makes it %v", op.Out, has.out)
	}
	if kinds[op.Kind].broadcasts {
		return p.validateConstants(op, used)
	}
	if has.weight == nil {
		if len(op.Parameters()) > 0 || op.Function != Identity {
			return fmt.Errorf("has no parameters, yet names one")
		}
		return nil
	}
	if err := p.validateParam(op.Weight, has.weight, "weight", used); err != nil {
		return err
	}
	if op.Bias != None {
		if err := p.validateParam(op.Bias, has.bias, "bias", used); err != nil {
			return err
		}
	}
	return p.validateFunction(op, used)
}

func (p *Program) validateInputs(i int) error {
	op, k := &p.Ops[i], &kinds[p.Ops[i].Kind]
	switch n := len(op.In); {
	case k.inputs == several && n < 2:
		return fmt.Errorf("reads %d values, want two or more", n)
	case k.inputs != several && n != k.inputs:
		return fmt.Errorf("reads %d values, want %d", n, k.inputs)
	}
	var sizes []int
	for _, v := range op.In {
		if v < 0 || int(v) > i {
			return fmt.Errorf("reads value %d before it is produced", v)
		}
		if sizes = append(sizes, p.ValueSize(v)); k.sizes == nil && p.ValueSize(v) != Size(op.Shape) {
			return fmt.Errorf("reads a value of %d elements as %v", p.ValueSize(v), op.Shape)
		}
	}
	if k.sizes != nil {
		return k.sizes(op, sizes)
	}
	return nil
}

func (p *Program) validateParam(param int, shape []int, what string, used []int) error {
	if param < 0 || param >= len(p.Params) {
		return fmt.Errorf("%s %d is not in the parameter table", what, param)
	}
	if has := p.Params[param].Shape; !slices.Equal(has, shape) {
		return fmt.Errorf("%s has shape %v, want %v", what, has, shape)
	}
	used[param]++
	return nil
}

// validateConstants checks the weight and the bias of an op that repeats them along its input's axes.
func (p *Program) validateConstants(op *Op, used []int) error {
	if op.Weight == None && op.Bias == None || len(op.Given) > 0 || op.Function != Identity {
		return fmt.Errorf("needs a weight or a bias of its own, and nothing else")
	}
	for i, what := range [...]string{"weight", "bias"} {
		q := [...]int{op.Weight, op.Bias}[i]
		if q == None {
			continue
		}
		if q < 0 || q >= len(p.Params) {
			return fmt.Errorf("%s %d is not in the parameter table", what, q)
		}
		if has := p.Params[q].Shape; !repeats(has, op.Shape) {
			return fmt.Errorf("%s has shape %v, which does not repeat along %v", what, has, op.Shape)
		}
		used[q]++
	}
	return nil
}

// repeats says that a tensor can be repeated to a shape: counted from the last, each of its axes has the shape's length, or 1.
func repeats(axes, shape []int) bool {
	skip := len(shape) - len(axes)
	for i, n := range axes {
		if skip < 0 || n != 1 && n != shape[skip+i] {
			return false
		}
	}
	return len(axes) > 0
}
