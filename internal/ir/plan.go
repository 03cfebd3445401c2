// Package ir holds a lowered network (Program) and what a device is asked to
// do with it (Schedule). It knows shapes and costs, no numbers and no device.
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

// Kind says what an op computes.
type Kind uint8

const (
	Conv      Kind = iota // cross-correlation with zero padding, plus bias
	Dense                 // W·x + b with W stored (out, in)
	ReLU                  // max(x, 0); its derivative at 0 is 0
	Tanh                  //
	Sigmoid               //
	MaxPool               // padding never wins; a tie goes to the first in row-major order
	AvgPool               // mean over the whole window, padding counted as zeros
	Add                   // sum of two values of one shape
	LeakyReLU             // max(x, Slope·x); its derivative at 0 is Slope
	GroupNorm             // (x−μ)/√(v+Epsilon)·weight + bias, with μ and v of a group of channels, weight and bias of each channel
)

func (k Kind) String() string {
	return [...]string{"conv", "dense", "relu", "tanh", "sigmoid", "maxpool", "avgpool", "add", "leakyrelu", "groupnorm"}[k]
}

// Activation reports whether k works on each element by itself and has a
// derivative that is a function of its output.
func (k Kind) Activation() bool { return k == ReLU || k == Tanh || k == Sigmoid || k == LeakyReLU }

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

func (l Loss) String() string {
	return [...]string{"softmax-cross-entropy", "logistic", "hinge", "huber-hinge", "huber"}[l]
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

// Window is the geometry of a convolution or a pool.
type Window struct {
	H, W                 int
	StrideH, StrideW     int
	PadTop, PadBottom    int
	PadLeft, PadRight    int
	DilationH, DilationW int
}

// Square is an undilated k×k window with one stride and symmetric padding.
func Square(k, stride, pad int) Window {
	return Window{k, k, stride, stride, pad, pad, pad, pad, 1, 1}
}

// Out gives the number of window positions over an h×w image, 0 where the
// window does not fit.
func (w Window) Out(h, wd int) (oh, ow int) {
	positions := func(n, k, dilation, stride int) int {
		if free := n - (k-1)*dilation - 1; free >= 0 {
			return free/stride + 1
		}
		return 0
	}
	return positions(h+w.PadTop+w.PadBottom, w.H, w.DilationH, w.StrideH),
		positions(wd+w.PadLeft+w.PadRight, w.W, w.DilationW, w.StrideW)
}

// Value names a per-example tensor: 0 is the network's input, i+1 the output
// of Program.Ops[i].
type Value int

// Input is the value that a batch of records is gathered into.
const Input Value = 0

// None marks a parameter that an op does not have.
const None = -1

// Op is one operation. Shapes are (C,H,W) for images and (n) for vectors; a
// reshape is no op, it shows only as an In shape that differs from the
// producer's.
type Op struct {
	Kind   Kind
	Name   string  // the graph node it came from, for messages
	In     []Value // one value; two for Add
	Shape  []int   // of each input
	Out    []int
	Weight int // index into Program.Params, or None
	Bias   int
	Window Window  // Conv, MaxPool, AvgPool
	Slope  float32 // LeakyReLU: in (0, 1)
	// GroupNorm has so many groups of neighbouring channels, axis 0 of its shape. It divides by the number of a
	// group's elements in its variance v.
	Groups  int
	Epsilon float64
}

// Same says that an image op has windows of k×k at stride one, with margins so that outputs lie as inputs do.
func (o *Op) Same(k int) bool {
	return o.Window == Square(k, 1, k/2) && o.Out[1] == o.Shape[1] && o.Out[2] == o.Shape[2]
}

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

// Program is a network ready to be scheduled: ops in an order in which every
// input is produced before it is read. The last op gives the logits.
type Program struct {
	Name   string
	Shape  []int // of the input
	Ops    []Op
	Params []Param
	Loss   Loss
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
		need[i+1] = op.Weight != None
		for _, v := range op.In {
			need[i+1] = need[i+1] || need[v]
		}
	}
	return need
}

// Columns gives the extents of a convolution or dense op seen as a matrix
// product: out×k weights against k×positions columns.
func (op *Op) Columns() (out, k, positions int) {
	if op.Kind == Conv {
		return op.Out[0], op.Shape[0] * op.Window.H * op.Window.W, op.Out[1] * op.Out[2]
	}
	return op.Out[0], Size(op.Shape), 1
}

// FLOPs counts the floating-point operations of one forward pass over one
// example, a multiplication and an addition as two.
func (op *Op) FLOPs() int64 {
	switch op.Kind {
	case Conv, Dense:
		o, k, n := op.Columns()
		return 2 * int64(o) * int64(k) * int64(n)
	case MaxPool, AvgPool:
		return int64(Size(op.Out)) * int64(op.Window.H*op.Window.W)
	case GroupNorm:
		return 8 * int64(Size(op.Out)) // mean, variance, both uses
	default:
		return int64(Size(op.Out))
	}
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

// Validate checks shapes, that inputs come before their readers, and that every parameter
// is used exactly once.
func (p *Program) Validate() error {
	if len(p.Ops) == 0 {
		return fmt.Errorf("program %s has no ops", p.Name)
	}
	used := make([]int, len(p.Params))
	offset := 0
	for i, q := range p.Params {
		if q.Offset != offset {
			return fmt.Errorf("program %s: parameter %s begins at %d, want %d", p.Name, q.Name, q.Offset, offset)
		}
		offset += p.Params[i].Size()
	}
	for i := range p.Ops {
		if err := p.validateOp(i, used); err != nil {
			return fmt.Errorf("program %s: op %d (%s %s): %w", p.Name, i, p.Ops[i].Kind, p.Ops[i].Name, err)
		}
	}
	for i, n := range used {
		if n != 1 {
			return fmt.Errorf("program %s: parameter %s is used %d times; each must be used once", p.Name, p.Params[i].Name, n)
		}
	}
	if len(p.Params) == 0 {
		return fmt.Errorf("program %s has no parameters; there is nothing to train", p.Name)
	}
	if p.Loss != SoftmaxCrossEntropy && p.Outputs() != 1 {
		return fmt.Errorf("program %s: the %s loss needs one logit, the network gives %d", p.Name, p.Loss, p.Outputs())
	}
	if p.Loss == SoftmaxCrossEntropy && p.Outputs() < 2 {
		return fmt.Errorf("program %s: the softmax cross-entropy needs at least two logits, the network gives %d", p.Name, p.Outputs())
	}
	return nil
}

func (p *Program) validateOp(i int, used []int) error {
	op := &p.Ops[i]
	if err := p.validateInputs(i); err != nil {
		return err
	}
	out, weight, err := op.shapes()
	if err != nil {
		return err
	}
	if !slices.Equal(out, op.Out) {
		return fmt.Errorf("gives shape %v, its input makes it %v", op.Out, out)
	}
	if weight == nil {
		if op.Weight != None || op.Bias != None {
			return fmt.Errorf("has no parameters, yet names one")
		}
		return nil
	}
	if err := p.validateParam(op.Weight, weight, "weight", used); err != nil || op.Bias == None {
		return err
	}
	return p.validateParam(op.Bias, op.Out[:1], "bias", used)
}

func (p *Program) validateInputs(i int) error {
	op, inputs := &p.Ops[i], 1
	if op.Kind == Add {
		inputs = 2
	}
	if len(op.In) != inputs {
		return fmt.Errorf("reads %d values, want %d", len(op.In), inputs)
	}
	for _, v := range op.In {
		if v < 0 || int(v) > i {
			return fmt.Errorf("reads value %d before it is produced", v)
		}
		if p.ValueSize(v) != Size(op.Shape) {
			return fmt.Errorf("reads a value of %d elements as %v", p.ValueSize(v), op.Shape)
		}
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

// shapes are what an op's input makes of its output, and of its weight, nil for none.
func (op *Op) shapes() (out, weight []int, err error) {
	switch op.Kind {
	case Conv, MaxPool, AvgPool:
		return op.windowShapes()
	case Dense:
		if len(op.Out) != 1 {
			return nil, nil, fmt.Errorf("gives shape %v, want a vector", op.Out)
		}
		return op.Out, []int{op.Out[0], Size(op.Shape)}, nil
	case GroupNorm:
		return op.groupNormShapes()
	case LeakyReLU:
		if !(op.Slope > 0 && op.Slope < 1) {
			return nil, nil, fmt.Errorf("has the slope %v, want one between 0 and 1", op.Slope)
		}
	}
	return op.Shape, nil, nil
}

func (op *Op) groupNormShapes() (out, weight []int, err error) {
	channels := op.Shape[0]
	switch {
	case op.Groups < 1 || channels%op.Groups != 0:
		return nil, nil, fmt.Errorf("cannot divide %d channels into %d groups", channels, op.Groups)
	case Size(op.Shape) < 2*op.Groups:
		return nil, nil, fmt.Errorf("has groups of one element, which have no variance; use fewer groups")
	case !(op.Epsilon > 0) || math.IsInf(op.Epsilon, 0):
		return nil, nil, fmt.Errorf("has the epsilon %v, want one above 0", op.Epsilon)
	}
	return op.Shape, []int{channels}, nil
}

func (op *Op) windowShapes() (out, weight []int, err error) {
	w := op.Window
	if len(op.Shape) != 3 || len(op.Out) != 3 {
		return nil, nil, fmt.Errorf("needs channels, rows and columns, has shape %v to %v", op.Shape, op.Out)
	}
	if min(w.H, w.W, w.StrideH, w.StrideW, w.DilationH, w.DilationW) < 1 || min(w.PadTop, w.PadBottom, w.PadLeft, w.PadRight) < 0 {
		return nil, nil, fmt.Errorf("has the impossible window %+v", w)
	}
	oh, ow := w.Out(op.Shape[1], op.Shape[2])
	if oh < 1 || ow < 1 {
		return nil, nil, fmt.Errorf("window %d×%d does not fit the %d×%d image", w.H, w.W, op.Shape[1], op.Shape[2])
	}
	if op.Kind == Conv {
		return []int{op.Out[0], oh, ow}, []int{op.Out[0], op.Shape[0], w.H, w.W}, nil
	}
	if max(w.PadTop, w.PadBottom) >= w.H || max(w.PadLeft, w.PadRight) >= w.W {
		return nil, nil, fmt.Errorf("pool %d×%d is padded by a whole window; some would see no pixel", w.H, w.W)
	}
	if w.DilationH != 1 || w.DilationW != 1 {
		return nil, nil, fmt.Errorf("pool %d×%d is dilated; only convolutions can be", w.H, w.W)
	}
	return []int{op.Shape[0], oh, ow}, nil, nil
}

// String is the table that `privgrad info --model` shows.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: input %v, %d parameters, loss %s\n", p.Name, p.Shape, p.NumParams(), p.Loss)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "op\tkind\tinput\toutput\tparameters\tkFLOP/example\tbytes/example\t")
	for i := range p.Ops {
		op := &p.Ops[i]
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%d\t%.1f\t%d\t\n", op.Name, op.Kind, op.Shape, op.Out, p.OpParams(i), float64(op.FLOPs())/1e3, 4*Size(op.Out))
	}
	fmt.Fprintf(w, "total\t\t\t\t%d\t%.1f\t%d\t\n", p.NumParams(), float64(p.ForwardFLOPs())/1e3, p.ValueBytes())
	w.Flush()
	return b.String()
}
