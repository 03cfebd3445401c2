// Package ir holds a lowered network (Program) and what a device is asked to
// do with it (Schedule). It knows shapes and costs, no numbers and no device. A program is a fixed map, too, such
// as a front end: then the parameters of its table are constants.
//
// All tensors are per example: the batch dimension never appears. Images are
// laid out channels, rows, columns.
package ir

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Loss is the per-example loss at the logits z with target t.
type Loss uint8

const (
	SoftmaxCrossEntropy Loss = iota // −log softmax(z)[t], t a class index
	Logistic                        // log(1+exp(−t·z)), t = −1 or +1, one logit
	Hinge                           // max(0, 1−t·z), t = −1 or +1, one logit
	HuberHinge                      // Hinge smoothed over |1−t·z| ≤ HuberHingeWidth, one logit
	Huber                           // ½r² for |r| ≤ 1, else |r|−½, with r = z−t, t real, one logit
)

// HuberHingeWidth is ħ of the Huberised support vector machine (Chen and Lee 2020, section 5).
const HuberHingeWidth = 0.5

// lossNames has one for each, in their order.
var lossNames = [...]string{"softmax-cross-entropy", "logistic", "hinge", "huber-hinge", "huber"}

func (l Loss) String() string {
	if int(l) >= len(lossNames) {
		return fmt.Sprintf("loss %d", uint8(l))
	}
	return lossNames[l]
}

// ValidTarget reports whether t is a target that loss l accepts over the given
// number of logits. Any other target makes an example count as zero.
func (l Loss) ValidTarget(t float32, logits int) bool {
	switch l {
	case SoftmaxCrossEntropy:
		return t >= 0 && t < float32(logits) && t == float32(int(t))
	case Huber:
		return !math.IsNaN(float64(t)) && !math.IsInf(float64(t), 0)
	default:
		return t == 1 || t == -1
	}
}

// Value names a per-example tensor: 0 is the network's input, i+1 the output
// of Program.Ops[i].
type Value int

// Input is the value that a batch of records is gathered into.
const Input Value = 0

// Param is one row of the parameter table. Parameters of a network form one
// flat float32 vector, in the order of the table.
type Param struct {
	Name   string // conv1.weight, fc1.bias, …
	Node   string // name of the graph node
	Shape  []int  // PyTorch's layout: (out, in, kh, kw), (out, in), (out)
	Offset int    // of its first element in the flat vector
}

func (p Param) Size() int { return Size(p.Shape) }

// Size multiplies the extents of a shape.
func Size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// most is how many elements a tensor has at most, and the largest number of a window: products of two of them do not overflow,
// and an index of 32 bits reaches each.
const most = math.MaxInt32

// countable says what is wrong with a shape whose elements cannot be counted.
func countable(shape []int) error {
	n := 1
	for _, d := range shape {
		if d < 1 || d > most/n {
			return fmt.Errorf("has shape %v, want axes of at least 1 and at most %d elements", shape, most)
		}
		n *= d
	}
	return nil
}

// Program is a network ready to be scheduled: ops in an order in which every
// input is produced before it is read. The last op gives the logits.
type Program struct {
	Name   string
	Shape  []int // of the input
	Ops    []Op
	Params []Param
	Loss   Loss
	// ClassWeights, one a class or nil, multiply each record's gradient before anything else is done with it. Losses that are
	// asked for have no weights.
	ClassWeights []float32
}

// Logits is the value of the network's output, and Outputs its length.
func (p *Program) Logits() Value { return Value(len(p.Ops)) }
func (p *Program) Outputs() int  { return p.ValueSize(p.Logits()) }

// ValueSize is the number of elements that v has for each example.
func (p *Program) ValueSize(v Value) int {
	if v == Input {
		return Size(p.Shape)
	}
	return Size(p.Ops[v-1].Out)
}

// NumParams is the length of the flat parameter vector.
func (p *Program) NumParams() int {
	n := 0
	for _, q := range p.Params {
		n += q.Size()
	}
	return n
}

// Consumers counts, for every value, the ops that read it.
func (p *Program) Consumers() []int {
	n := make([]int, len(p.Ops)+1)
	for _, op := range p.Ops {
		for _, v := range op.In {
			n[v]++
		}
	}
	return n
}

// NeedsGrad says for every value whether a parameter lies before it, so that
// the backward pass must reach it.
func (p *Program) NeedsGrad() []bool {
	need := make([]bool, len(p.Ops)+1)
	for i, op := range p.Ops {
		need[i+1] = op.Weight != None || op.Bias != None
		for _, v := range op.In {
			need[i+1] = need[i+1] || need[v]
		}
	}
	return need
}

func (p *Program) ForwardFLOPs() int64 {
	var n int64
	for i := range p.Ops {
		n += p.Ops[i].FLOPs()
	}
	return n
}

// StepFLOPs is the cost of one example in a plain training step: forward,
// parameter gradients, and input gradients wherever they are needed.
func (p *Program) StepFLOPs() int64 {
	n := p.ForwardFLOPs()
	need := p.NeedsGrad()
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Weight != None {
			n += op.FLOPs()
		}
		for _, v := range op.In {
			if need[v] {
				n += op.FLOPs()
			}
		}
	}
	return n
}

// ValueBytes is the float32 memory that one example's values take.
func (p *Program) ValueBytes() int64 {
	var n int64
	for v := range len(p.Ops) + 1 {
		n += 4 * int64(p.ValueSize(Value(v)))
	}
	return n
}

// Validate checks a network to train: shapes, that inputs come before their readers, that every parameter
// is used exactly once and has a gradient, and that its outputs are logits of its loss.
func (p *Program) Validate() error {
	used, err := p.validate()
	if err != nil {
		return err
	}
	for i, n := range used {
		if n != 1 {
			return fmt.Errorf("program %s: parameter %s is used %d times; each must be used once", p.Name, p.Params[i].Name, n)
		}
	}
	if len(p.Params) == 0 {
		return fmt.Errorf("program %s has no parameters; there is nothing to train", p.Name)
	}
	need := p.NeedsGrad()
	for i := range p.Ops {
		if op := &p.Ops[i]; kinds[op.Kind].forward && need[i+1] {
			return fmt.Errorf("program %s: op %d (%s %s) has no gradient, and parameters lie in or before it; train none of them: use it in a front end", p.Name, i, op.Kind, op.Name)
		}
	}
	if int(p.Loss) >= len(lossNames) {
		return fmt.Errorf("program %s has no loss that is known", p.Name)
	}
	if p.Loss != SoftmaxCrossEntropy && p.Outputs() != 1 {
		return fmt.Errorf("program %s: the %s loss needs one logit, the network gives %d", p.Name, p.Loss, p.Outputs())
	}
	if p.Loss == SoftmaxCrossEntropy && p.Outputs() < 2 {
		return fmt.Errorf("program %s: the softmax cross-entropy needs at least two logits, the network gives %d", p.Name, p.Outputs())
	}
	return p.checkClassWeights()
}

// ValidateMap checks a program that is a fixed map, whose parameters are constants: shapes, that inputs come before their
// readers, and that every constant is used.
func (p *Program) ValidateMap() error {
	used, err := p.validate()
	if err != nil {
		return err
	}
	if i := slices.Index(used, 0); i >= 0 {
		return fmt.Errorf("program %s: constant %s is not used", p.Name, p.Params[i].Name)
	}
	return nil
}

// validate checks what holds of every program, and counts the uses of each parameter.
func (p *Program) validate() (used []int, err error) {
	if len(p.Ops) == 0 {
		return nil, fmt.Errorf("program %s has no ops", p.Name)
	}
	if err := countable(p.Shape); err != nil {
		return nil, fmt.Errorf("program %s: its input %w", p.Name, err)
	}
	used = make([]int, len(p.Params))
	offset := 0
	for i, q := range p.Params {
		if err := countable(q.Shape); err != nil {
			return nil, fmt.Errorf("program %s: parameter %s %w", p.Name, q.Name, err)
		}
		if q.Offset != offset {
			return nil, fmt.Errorf("program %s: parameter %s begins at %d, want %d", p.Name, q.Name, q.Offset, offset)
		}
		offset += p.Params[i].Size()
	}
	for i := range p.Ops {
		if err := p.validateOp(i, used); err != nil {
			return nil, fmt.Errorf("program %s: op %d (%s %s): %w", p.Name, i, p.Ops[i].Kind, p.Ops[i].Name, err)
		}
	}
	return used, nil
}

// String is the table that `privgrad info --model` shows.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: input %v, %d parameters, loss %s\n", p.Name, p.Shape, p.NumParams(), p.Loss)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "op\tkind\tinput\toutput\tparameters\tkFLOP/example\tbytes/example\t")
	for i := range p.Ops {
		op := &p.Ops[i]
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%d\t%.1f\t%d\t\n", op.Name, op.what(), op.Shape, op.Out, p.OpParams(i), float64(op.FLOPs())/1e3, 4*Size(op.Out))
	}
	fmt.Fprintf(w, "total\t\t\t\t%d\t%.1f\t%d\t\n", p.NumParams(), float64(p.ForwardFLOPs())/1e3, p.ValueBytes())
	w.Flush()
	return b.String()
}
