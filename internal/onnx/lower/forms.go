package lower

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/fold"
)

// A form is what nodes have made of a value that is an operation of the program only together with nodes behind them: an erf is
// none, a GELU is.
type form struct {
	kind   formKind
	node   *file.Node // that made it
	base   *value     // of which it is made
	shape  []int
	forced *value // it as an operation, for a reader that does not know the form

	pads pads // padding
	last bool // padding of images whose channels come last

	// reading: scale and shift
	// product: scale·x, or without x where power is 0, times shift + slope·erf(inner·x) where erf is set
	scale, shift, slope, inner float64
	power                      int
	erf                        bool

	axes    []int // of a mean and what follows from it, among those of the file
	keep    bool
	epsilon float64
	scales  *fold.Constant // nil: none
	shifts  *fold.Constant
}

// A formKind is what a form holds; from mean to offset they are those of a layer normalization, in their order.
type formKind uint8

const (
	padding   formKind = iota // x between zeros
	product                   // of x and numbers
	mean                      // of x
	centered                  // x − mean
	square                    // (x − mean)²
	variance                  // mean of the squares, and epsilon
	deviation                 // √variance
	precision                 // 1/deviation, and times scales
	negated                   // −mean
	divided                   // x·precision
	offset                    // −mean·precision, and shifts
	softmaxed                 // softmax or its logarithm; of one output p that is a sigmoid, 1 − p and p
	opposite                  // 1 − p of it
	reading                   // scale·x + shift of the input
)

// leftover says why a form is no operation.
var leftover = [...]string{
	padding:   "pads, and neither a convolution nor a pool that counts zeros reads it next",
	product:   "computes with a number, and is a part of no GELU that is known",
	mean:      "takes a mean",
	centered:  "subtracts a mean, and is a part of no layer normalization that is known",
	square:    "takes a square, and is a part of no layer normalization that is known",
	variance:  "takes a variance, and is a part of no layer normalization that is known",
	deviation: "takes a root, and is a part of no layer normalization that is known",
	precision: "divides by a deviation, and is a part of no layer normalization that is known",
	negated:   "negates a mean, and is a part of no layer normalization that is known",
	divided:   "divides by a deviation, and is a part of no layer normalization that is known",
	offset:    "divides by a deviation, and is a part of no layer normalization that is known",
	softmaxed: "is a softmax, which is known only at the end",
	opposite:  "computes with a constant that is no bias of the layer before",
}

func formed(f *form) *value {
	return &value{at: f.base.at, view: f.base.view, trained: f.base.trained, form: f}
}

// force gives a value as an operation of the program has computed it.
func (c *call) force(v *value) (*value, *Refusal) {
	f := v.form
	if f == nil {
		return v, nil
	}
	if f.forced != nil {
		return f.forced, nil
	}
	var r *Refusal
	made := &call{lowerer: c.lowerer, node: f.node}
	switch {
	case f.kind == reading:
		f.forced, r = made.reads(f)
	case f.kind == mean:
		f.forced, r = made.whole(ir.AvgPool, f.base, f.axes, f.keep)
	case f.kind == product && f.power == 1 && !f.erf && c.role == fixed:
		f.forced = made.affine(f.base, []float32{float32(f.scale)}, nil)
	default:
		f.forced, r = made.elsewhereOf(f.shape, leftover[f.kind])
	}
	return f.forced, r
}

// one says that two values are the same.
func one(x, y *value) bool { return x.at == y.at && x.view.Like(y.view) }

// formOf gives a value's form of a kind, or nil.
func formOf(v *value, k formKind) *form {
	if v.form != nil && v.form.kind == k {
		return v.form
	}
	return nil
}

// productOf sees a value as a product; nil where it is none.
func productOf(v *value) *form {
	if v.known != nil {
		return nil
	}
	if v.form == nil {
		return &form{kind: product, base: v, shape: v.view.Shape, scale: 1, power: 1}
	}
	return formOf(v, product)
}

// combined computes with products, if what comes out is one.
func (c *call) combined() (*value, bool) {
	x, y := productOf(c.in[0]), productOf(c.in[1])
	kind := c.node.Kind
	if x == nil || y == nil {
		f, other := x, c.in[1]
		if x == nil {
			f, other = y, c.in[0]
		}
		n, ok := c.scalar(other)
		if !ok || f == nil || len(other.known.Shape) > len(f.shape)+1 {
			return nil, false
		}
		return c.withNumber(*f, n, x == nil)
	}
	if kind != "Mul" || !one(x.base, y.base) || x.erf == y.erf || x.power+y.power > 1 {
		return nil, false
	}
	f := *x
	if y.erf {
		f = *y
	}
	f.scale, f.power = x.scale*y.scale, x.power+y.power
	return c.completed(&f), true
}

// withNumber computes with a product and a number, which may stand on the left.
func (c *call) withNumber(f form, n float64, left bool) (*value, bool) {
	switch kind := c.node.Kind; {
	case kind == "Mul":
		f.scale *= n
	case kind == "Div" && !left && n != 0:
		f.scale /= n
	case kind == "Add" && f.erf && f.power == 0 && f.scale != 0:
		f.shift += n / f.scale
	default:
		return nil, false
	}
	return c.completed(&f), true
}

// completed is a GELU, ½·x·(1 + erf(x/√2)), or the product that it may still become.
func (c *call) completed(f *form) *value {
	if f.erf && f.power == 1 && near(f.scale*f.shift, .5) && near(f.scale*f.slope, .5) && near(f.inner, math.Sqrt2/2) {
		return c.act(ir.Op{Kind: ir.GELU}, f.base)
	}
	f.node, f.forced = c.node, nil
	return formed(f)
}

// erf is a part of a GELU; so is its complement, 1 − erf.
func erf(c *call) (*value, *Refusal) {
	f := productOf(c.in[0])
	if f == nil || f.erf || f.power != 1 {
		return c.elsewhere()
	}
	g := &form{kind: product, node: c.node, base: f.base, shape: f.shape, scale: 1, erf: true, slope: 1, inner: f.scale}
	if c.node.Kind == "Erfc" {
		g.shift, g.slope = 1, -1
	}
	if g.inner < 0 { // erf(−x) = −erf(x)
		g.inner, g.slope = -g.inner, -g.slope
	}
	return formed(g), nil
}

func gelu(c *call) (*value, *Refusal) {
	if a := c.text("approximate"); a != "" && a != "none" {
		v, r := c.activation(0)
		if r != nil {
			return nil, r
		}
		return c.elsewhereOf(v.view.Shape, "is a GELU that is approximated by "+a+"; use the exact one")
	}
	return activate(ir.GELU)(c)
}

// step makes a form of layer normalization from another.
func (c *call) step(f *form, k formKind) *value {
	g := *f
	g.kind, g.node, g.forced = k, c.node, nil
	if k == centered || k == divided {
		g.shape = g.base.view.Shape
	}
	return formed(&g)
}

// normalizing computes with two values, if that is a step of a layer or group normalization.
func (c *call) normalizing() (*value, *Refusal, bool) {
	x, y := c.in[0], c.in[1]
	switch c.node.Kind {
	case "Sub":
		v := c.subtracted(x, y)
		return v, nil, v != nil
	case "Div":
		if one, number := c.scalar(x); number && one == 1 && formOf(y, deviation) != nil {
			return c.step(y.form, precision), nil, true
		}
		if together(x, y) && x.form.kind == centered && y.form.kind == deviation {
			v, r := c.normalized(y.form)
			return v, r, true
		}
	case "Mul":
		if v, r, ok := c.multiplied(x, y); ok {
			return v, r, ok
		}
		return c.multiplied(y, x)
	case "Add":
		if v, r, ok := c.added(x, y); ok {
			return v, r, ok
		}
		return c.added(y, x)
	}
	return nil, nil, false
}

// together says that two values are steps of the same normalization.
func together(x, y *value) bool {
	return x.form != nil && y.form != nil && one(x, y) && slices.Equal(x.form.axes, y.form.axes)
}

// subtracted is x − y: a centered value, or what is left of a probability; nil where it is neither.
func (c *call) subtracted(x, y *value) *value {
	switch n, number := c.scalar(x); {
	case x.known == nil && x.form == nil && formOf(y, mean) != nil && one(x, y.form.base) && y.form.keep:
		return c.step(y.form, centered)
	case number && n == 1 && len(x.known.Shape) <= 2 && c.probability(y):
		return formed(&form{kind: opposite, node: c.node, base: y, shape: y.view.Shape})
	}
	return nil
}

// multiplied is a step x·y. TensorFlow multiplies value and mean by one factor, the precision times a scale.
func (c *call) multiplied(x, y *value) (*value, *Refusal, bool) {
	f := x.form
	switch {
	case together(x, y) && f.kind == centered && y.form.kind == centered:
		return c.step(f, square), nil, true
	case together(x, y) && f.kind == centered && y.form.kind == precision && y.form.scales == nil:
		v, r := c.normalized(y.form)
		return v, r, true
	case formOf(x, precision) != nil && f.scales == nil && y.known != nil && y.known.Size() > 1:
		v := c.step(f, precision)
		v.form.scales = y.known
		return v, nil, true
	case formOf(x, precision) != nil && y.known == nil && y.form == nil && one(f.base, y):
		return c.step(f, divided), nil, true
	case together(x, y) && f.kind == negated && y.form.kind == precision:
		return c.step(y.form, offset), nil, true
	}
	return nil, nil, false
}

// added is a step x + y.
func (c *call) added(x, y *value) (*value, *Refusal, bool) {
	n, number := c.scalar(y)
	switch f := x.form; {
	case formOf(x, variance) != nil && number && n > 0:
		v := c.step(f, variance)
		v.form.epsilon += n
		return v, nil, true
	case formOf(x, offset) != nil && f.shifts == nil && y.known != nil && y.known.Size() > 1:
		v := c.step(f, offset)
		v.form.shifts = y.known
		return v, nil, true
	case together(x, y) && f.kind == offset && y.form.kind == divided && f.scales == y.form.scales && f.epsilon == y.form.epsilon:
		v, r := c.normalized(f)
		return v, r, true
	}
	return nil, nil, false
}

// normalized is the normalization that a form has become, with the scales and shifts that it has; else these may follow.
func (c *call) normalized(f *form) (*value, *Refusal) {
	shape := f.base.view.Shape
	kept := slices.DeleteFunc(fold.UpTo(len(shape)), func(a int) bool { return slices.Contains(f.axes, a+1) })
	var v *value
	var r *Refusal
	switch n := len(kept); {
	case !(f.epsilon > 0) || n == len(shape):
		return c.elsewhereOf(shape, "normalizes without an epsilon, or along no axis")
	case slices.Equal(kept, fold.UpTo(n)):
		v, r = c.lines(f.base, n, f.epsilon)
	case n == 1:
		v, r = c.grouped(f.base, kept[0], shape[kept[0]], f.epsilon)
	default:
		return c.elsewhereOf(shape, "normalizes along other axes than the last, or than all but one")
	}
	if r != nil {
		return nil, r
	}
	v = c.open(v)
	for i, k := range []*fold.Constant{f.scales, f.shifts} {
		if k == nil {
			continue
		}
		w, r, ok := c.absorb(v, k, i == 0)
		if r != nil {
			return nil, r
		}
		if !ok {
			return c.elsewhereOf(shape, "has scales or shifts that are not those of its lines or channels")
		}
		v = w
	}
	return v, nil
}

// probability says that a value is the sigmoid of one number.
func (c *call) probability(v *value) bool {
	if v.known != nil || v.form != nil || len(v.view.Shape) != 1 || v.view.Shape[0] != 1 {
		return false
	}
	l := c.of(v)
	return l != nil && l.op.Kind == ir.Sigmoid
}

// pair gives the probabilities of two classes, if that is what a Concat joins.
func (c *call) pair() *value {
	if axis := c.int("axis", 0); len(c.in) != 2 || axis != 1 && axis != -1 || formOf(c.in[0], opposite) == nil || !c.probability(c.in[1]) || !one(c.in[0], c.in[1]) {
		return nil
	}
	return formed(&form{kind: softmaxed, node: c.node, base: c.in[1], shape: []int{2}})
}

// root, power, reciprocal and negative are steps of a layer normalization.
func root(c *call) (*value, *Refusal) {
	if f := formOf(c.in[0], variance); f != nil {
		return c.step(f, deviation), nil
	}
	return c.elsewhere()
}

func power(c *call) (*value, *Refusal) {
	n, ok := c.scalar(c.in[1])
	switch v := formOf(c.in[0], variance); {
	case ok && n == 2 && formOf(c.in[0], centered) != nil:
		return c.step(c.in[0].form, square), nil
	case ok && n == .5 && v != nil:
		return c.step(v, deviation), nil
	case ok && n == -.5 && v != nil:
		return c.step(v, precision), nil
	}
	return c.elsewhere()
}

func negative(c *call) (*value, *Refusal) {
	if f := formOf(c.in[0], mean); f != nil && f.keep {
		return c.step(f, negated), nil
	}
	if f := productOf(c.in[0]); f != nil {
		g := *f
		g.scale = -g.scale
		return c.completed(&g), nil
	}
	return c.elsewhere()
}

func reciprocal(c *call) (*value, *Refusal) {
	if f := formOf(c.in[0], deviation); f != nil {
		return c.step(f, precision), nil
	}
	return c.elsewhere()
}

// reduce is a row of the table for a mean or a maximum over axes.
func reduce(kind ir.Kind) func(c *call) (*value, *Refusal) {
	return func(c *call) (*value, *Refusal) {
		x := c.in[0]
		rank := len(x.shape()) + 1
		axes, r := c.axes(1, rank, nil)
		if r != nil {
			return nil, r
		}
		if axes == nil && c.int("noop_with_empty_axes", 0) != 0 {
			return same(c)
		}
		if axes == nil || slices.Contains(axes, 0) {
			return nil, c.crossing("reduces")
		}
		keep := c.int("keepdims", 1) != 0
		if f := formOf(x, square); f != nil && kind == ir.AvgPool && slices.Equal(axes, f.axes) && keep {
			v := c.step(f, variance)
			v.form.shape = c.reduced(x.shape(), axes, keep)
			return v, nil
		}
		v, r := c.force(x)
		if r != nil {
			return nil, r
		}
		if kind != ir.AvgPool {
			return c.whole(kind, v, axes, keep)
		}
		return formed(&form{kind: mean, node: c.node, base: v, shape: c.reduced(v.view.Shape, axes, keep), axes: axes, keep: keep}), nil
	}
}

// reduced is a shape behind a reduction.
func (c *call) reduced(shape, axes []int, keep bool) []int {
	out := []int{}
	for a, n := range shape {
		switch {
		case !slices.Contains(axes, a+1):
			out = append(out, n)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// softmax is kept to the end, where the loss takes it.
func softmax(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	axis, rank := c.int("axis", -1), len(v.view.Shape)+1
	if axis < 0 {
		axis += rank
	}
	if axis == 0 {
		return nil, c.crossing("takes a softmax")
	}
	if axis != 1 || rank != 2 {
		return c.elsewhere()
	}
	return formed(&form{kind: softmaxed, node: c.node, base: v, shape: v.view.Shape}), nil
}
