package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// binary is Add, Sub, Mul or Div.
func binary(c *call) (*value, *Refusal) {
	x, y := c.in[0], c.in[1]
	if x.known == nil && y.known == nil {
		if v, r, ok := c.normalizing(); ok {
			return v, r
		}
		if v, ok := c.combined(); ok {
			return v, nil
		}
		return c.two()
	}
	if v, ok := c.reread(); ok {
		return v, nil
	}
	if v, r, ok := c.absorbed(); ok {
		return v, r
	}
	if v, r, ok := c.normalizing(); ok {
		return v, r
	}
	if v, ok := c.combined(); ok {
		return v, nil
	}
	return c.constants()
}

// two computes with two values. Only a sum of equal shapes is known.
func (c *call) two() (*value, *Refusal) {
	x, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	y, r := c.activation(1)
	if r != nil {
		return nil, r
	}
	if c.node.Kind != "Add" || !slices.Equal(x.view.Shape, y.view.Shape) {
		return c.elsewhere()
	}
	if !x.view.Like(y.view) {
		if x, r = c.flat(x); r != nil {
			return nil, r
		}
		if y, r = c.flat(y); r != nil {
			return nil, r
		}
	}
	shape := c.stored(x)
	return c.emit(ir.Op{Kind: ir.Add, Shape: shape, Out: shape}, x.view, x, y), nil
}

// A spot says where a constant repeats along a record: its lengths for each axis, and the axes along which it changes.
type spot struct{ shape, along []int }

// repeats says how a constant repeats along a value. What the constant would make longer, or has for single records, is refused.
func (c *call) repeats(k *fold.Constant, shape []int) (spot, *Refusal) {
	var s spot
	extra := len(k.Shape) - len(shape)
	if extra > 0 {
		if n, _ := strides.Count(k.Shape[:extra]); n != 1 || extra > 1 {
			return s, c.crossing("computes with a constant that changes, or adds axes,")
		}
	}
	for a, n := range shape {
		d := 1
		if i := a + extra; i >= 0 {
			d = k.Shape[i]
		}
		if d != 1 && d != n {
			return s, c.refuse(exportAgain, "computes with a constant of shape %v and records of shape %v", k.Shape, shape)
		}
		if s.shape = append(s.shape, d); d > 1 {
			s.along = append(s.along, a)
		}
	}
	return s, nil
}

// absorbed makes a constant the scale of the normalization before, or the bias of the layer before, if it can be one.
func (c *call) absorbed() (*value, *Refusal, bool) {
	v, k := c.in[0], c.in[1].known
	if k == nil {
		v, k = c.in[1], c.in[0].known
	}
	if v.form != nil || !v.alone || c.of(v) == nil || c.node.Kind != "Mul" && c.node.Kind != "Add" {
		return nil, nil, false
	}
	return c.absorb(v, k, c.node.Kind == "Mul")
}

// absorb makes a constant behind the op of v a part of its parameters, if the op has a place for it: it is multiplied with, or added.
func (c *call) absorb(v *value, k *fold.Constant, multiplied bool) (*value, *Refusal, bool) {
	l := c.of(v)
	norm, dense := l.op.Kind == ir.GroupNorm || l.op.Kind == ir.LayerNorm, l.op.Kind == ir.Conv || l.op.Kind == ir.Dense
	place := norm && (l.bias == nil || l.bias.open)
	if multiplied {
		place = norm && l.weight.open
	}
	if !place && !dense {
		return nil, nil, false
	}
	s, r := c.repeats(k, v.view.Shape)
	if r != nil {
		return nil, r, true
	}
	n, places := c.spotOf(l, v, s)
	if n == 0 {
		return nil, nil, false
	}
	if dense && (multiplied || l.bias != nil) {
		list, r := c.floats(k)
		if r != nil {
			return nil, r, true
		}
		factor, shift := list, make([]float32, n)
		if !multiplied {
			factor, shift = slices.Repeat([]float32{1}, n), list
		}
		l.fold(factor, shift)
		return v.same(), nil, true
	}
	r = c.settle(v, k, n, places, multiplied)
	return v.same(), r, true
}

// settle gives an op the parameter that a constant is, of so many numbers at their places.
func (c *call) settle(v *value, k *fold.Constant, n int, places []int32, scale bool) *Refusal {
	f := zeros
	if scale {
		f = ones
	}
	made, r := c.slot(k, []int{n}, f, func(list []float32) []float32 { return ordered(list, places) })
	if r != nil {
		return r
	}
	made.moved = places != nil
	l := c.of(v)
	switch {
	case scale:
		l.weight, l.bias = made, nil
	case l.weight.open && l.weight.shape[0] != n:
		c.open(v)
		fallthrough
	default:
		l.bias = made
	}
	return nil
}

// same is the value once more, for what changes nothing of it.
func (v *value) same() *value {
	out := *v
	return &out
}

// fold puts what follows a layer, y·factor + shift of every output or channel y, into its parameters. Of fresh ones nothing changes.
func (l *layer) fold(factor, shift []float32) {
	weight, bias := *l.weight, slot{shape: []int{len(factor)}}
	if weight.values == nil {
		return
	}
	row := len(weight.values) / len(factor)
	weight.values = make([]float32, len(l.weight.values))
	for i, w := range l.weight.values {
		weight.values[i] = w * factor[i/row]
	}
	l.weight, bias.values = &weight, shift
	switch {
	case l.bias != nil:
		bias.root, bias.values = l.bias.root, make([]float32, len(factor))
		for i, b := range l.bias.values {
			bias.values[i] = float32(float64(b)*float64(factor[i]) + float64(shift[i]))
		}
	case uniform(shift, 0):
		return
	}
	l.bias = &bias
}

// spotOf gives the number of parameters that a constant is for the op that made a value, 0 where it cannot be one, and where
// the op has each, nil for their order.
func (c *call) spotOf(l *layer, v *value, s spot) (n int, places []int32) {
	op := &l.op
	if op.Kind == ir.LayerNorm {
		return lineOf(op, v.view, s)
	}
	if !v.view.Outermost(s.along...) {
		return 0, nil
	}
	n, _ = strides.Count(s.shape)
	switch {
	case op.Kind != ir.GroupNorm && n != op.Out[0]:
		return 0, nil
	case op.Kind != ir.GroupNorm || n == op.Shape[0]:
		return n, nil
	case n%op.Groups != 0 || !l.weight.open:
		return 0, nil
	}
	op.Shape = []int{n, 1, v.view.Size() / n}
	if v.view.Plain() && len(v.view.Shape) == 3 && v.view.Shape[0] == n {
		op.Shape = slices.Clone(v.view.Shape)
	}
	op.Out = op.Shape
	return n, nil
}

// lineOf is spotOf of a layer normalization.
func lineOf(op *ir.Op, v strides.View, s spot) (n int, places []int32) {
	n = op.Shape[len(op.Shape)-1]
	first, size := len(s.shape), 1
	for first > 0 && size < n {
		first--
		size *= s.shape[first]
	}
	if rest, _ := strides.Count(s.shape[:first]); size != n || rest != 1 || !slices.Equal(s.shape[first:], v.Shape[first:]) {
		return 0, nil
	}
	if f := strides.Merged(slices.Concat(v.Axes[first:]...)); len(f) == 1 && f[0].Stride == 1 {
		return n, nil
	}
	return n, v.Places()
}

// constants computes with a value and a constant that is no parameter: only in a frozen part.
func (c *call) constants() (*value, *Refusal) {
	i, k := 0, c.in[1].known
	if k == nil {
		i, k = 1, c.in[0].known
	}
	v, r := c.activation(i)
	if r != nil {
		return nil, r
	}
	s, r := c.repeats(k, v.view.Shape)
	if r != nil {
		return nil, r
	}
	if c.role == trained {
		why := "computes with a constant that is neither the bias nor the scale of the layer right before it"
		do := "give it to the layer before, or leave it out" + orFreeze
		if !v.trained {
			why, do = "changes the data by a constant", "leave it out and use --normalize"+orFreeze
		}
		return &value{at: v.at, view: v.view, trained: v.trained}, c.refuse(do, "%s", why)
	}
	list, r := c.floats(k)
	if r != nil {
		return nil, r
	}
	if list, r = c.repeated(v, k, s, list); r != nil {
		return nil, r
	}
	each := func(f func(x float32) float32) []float32 {
		out := make([]float32, len(list))
		for i, x := range list {
			out[i] = f(x)
		}
		return out
	}
	switch kind := c.node.Kind; {
	case kind == "Add":
		return c.affine(v, nil, list), nil
	case kind == "Mul":
		return c.affine(v, list, nil), nil
	case kind == "Sub" && i == 0:
		return c.affine(v, nil, each(func(x float32) float32 { return -x })), nil
	case kind == "Sub":
		return c.affine(v, []float32{-1}, list), nil
	case i == 0:
		return c.affine(v, each(func(x float32) float32 { return 1 / x }), nil), nil
	}
	return c.elsewhere()
}

// repeated gives the numbers of a constant in the order in which a value is stored: one, one of each channel, or one of each element.
func (c *call) repeated(v *value, k *fold.Constant, s spot, list []float32) ([]float32, *Refusal) {
	if len(s.along) == 0 || v.view.Outermost(s.along...) && c.stored(v)[0] == len(list) {
		return list, nil
	}
	if r := c.take(v.view.Size()); r != nil {
		return nil, r
	}
	full := k.Along(v.view.Shape)
	if v.view.Plain() {
		return full, nil
	}
	out := make([]float32, len(full))
	for i, p := range v.view.Places() {
		out[p] = full[i]
	}
	return out, nil
}

// affine multiplies by constants and adds some: each one, one of each channel, or one of each element; nil for none.
func (c *call) affine(v *value, weight, bias []float32) *value {
	shape := c.stored(v)
	slotOf := func(list []float32) *slot {
		switch {
		case list == nil:
			return nil
		case len(list) == 1:
			return &slot{shape: []int{1}, values: list}
		case len(list) == shape[0] && len(shape) == 3:
			return &slot{shape: []int{shape[0], 1, 1}, values: list}
		}
		return &slot{shape: shape, values: list}
	}
	return c.parameters(c.emit(ir.Op{Kind: ir.Affine, Shape: shape, Out: shape}, v.view, v), slotOf(weight), slotOf(bias))
}
