package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// lines normalizes the last axes of records, from one on, together.
func (c *call) lines(v *value, first int, epsilon float64) (*value, *Refusal) {
	n, _ := strides.Count(v.view.Shape[first:])
	behind := strides.Merged(slices.Concat(v.view.Axes[first:]...))
	if n < 2 {
		return c.elsewhereOf(v.view.Shape, "normalizes lines of one element, which have no variance")
	}
	if !(len(behind) == 1 && behind[0].Stride == 1) && n != v.view.Size() {
		var r *Refusal
		if v, r = c.flat(v); r != nil {
			return nil, r
		}
	}
	shape := c.stored(v)
	switch {
	case n == v.view.Size():
		shape = []int{n}
	case shape[len(shape)-1] != n:
		shape = []int{1, v.view.Size() / n, n}
	}
	return c.emit(ir.Op{Kind: ir.LayerNorm, Shape: shape, Out: shape, Epsilon: epsilon}, v.view, v), nil
}

// open gives a normalization parameters of its own, until a node behind it says which.
func (c *call) open(v *value) *value {
	op := &c.of(v).op
	n := op.Shape[0]
	if op.Kind == ir.LayerNorm {
		n = op.Shape[len(op.Shape)-1]
	}
	of := func(f fill) *slot {
		s := &slot{shape: []int{n}, fill: f, open: true}
		if c.role == fixed && n <= mostMade {
			s.values = c.program.fresh(0, s, "", 0, n)
		}
		return s
	}
	return c.parameters(v, of(ones), of(zeros))
}

// grouped normalizes groups of one axis of records. Its parameters are still to come.
func (c *call) grouped(v *value, axis, groups int, epsilon float64) (*value, *Refusal) {
	if len(v.view.Shape) == 0 || groups < 1 || v.view.Shape[axis]%groups != 0 {
		return nil, c.refuse(exportAgain, "divides records of shape %v into %d groups", v.view.Shape, groups)
	}
	if !v.view.Outermost(axis) {
		var r *Refusal
		if v, r = c.flat(v); r != nil {
			return nil, r
		}
	}
	switch {
	case !v.view.Outermost(axis):
		return c.elsewhereOf(v.view.Shape, "normalizes groups that do not lie one behind the other")
	case v.view.Size() < 2*groups:
		return c.elsewhereOf(v.view.Shape, "normalizes groups of one element, which have no variance")
	case !(epsilon > 0):
		return nil, c.refuse("give it an epsilon above 0", "has the epsilon %v", epsilon)
	}
	n := v.view.Shape[axis]
	shape := c.shapeAt(v.at)
	if shape[0]%n != 0 || ir.Size(shape) != v.view.Size() {
		if shape = c.stored(v); shape[0] != n {
			shape = []int{n, 1, v.view.Size() / n}
		}
	}
	return c.emit(ir.Op{Kind: ir.GroupNorm, Shape: shape, Out: shape, Groups: groups, Epsilon: epsilon}, v.view, v), nil
}

// channels makes the op of v one of as many channels as axis 1 of the file has.
func (c *call) channels(v *value) int {
	n, op := v.view.Shape[0], &c.of(v).op
	if op.Shape[0] != n {
		if op.Shape = c.stored(v); op.Shape[0] != n {
			op.Shape = []int{n, 1, v.view.Size() / n}
		}
		op.Out = op.Shape
	}
	return n
}

// affinity gives a group normalization the constants of two inputs, which are of each channel or of each group.
func (c *call) affinity(v *value, weight, bias int) (*value, *Refusal) {
	n := c.channels(v)
	of := func(i int, f fill) (*slot, *Refusal) {
		k, r := c.weights(i, 1, 1)
		if r != nil {
			return nil, r
		}
		size := k.Size()
		if size < n && n > mostMade {
			return nil, c.refuse("make it smaller", "normalizes %d channels", n)
		}
		if n%size != 0 || size != n && size != c.of(v).op.Groups {
			return nil, c.refuse(exportAgain, "has %d scales or shifts for %d channels", size, n)
		}
		return c.slot(k, []int{n}, f, func(list []float32) []float32 {
			out := make([]float32, n)
			for i := range out {
				out[i] = list[i/(n/size)]
			}
			return out
		})
	}
	w, r := of(weight, ones)
	if r != nil {
		return nil, r
	}
	b, r := of(bias, zeros)
	if r != nil {
		return nil, r
	}
	return c.parameters(v, w, b), nil
}

func layerNormalization(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	axis, rank := c.int("axis", -1), len(v.view.Shape)+1
	if axis < 0 {
		axis += rank
	}
	switch {
	case axis == 0:
		return nil, c.crossing("normalizes")
	case axis < 0 || axis >= rank:
		return nil, c.refuse(exportAgain, "normalizes from axis %d of %d", axis, rank)
	}
	epsilon := c.float("epsilon", 1e-5)
	if !(epsilon > 0) {
		return nil, c.refuse("give it an epsilon above 0", "has the epsilon %v", epsilon)
	}
	out, r := c.lines(v, axis-1, float64(epsilon))
	if r != nil || c.of(out).op.Kind != ir.LayerNorm {
		return out, r
	}
	n, _ := strides.Count(v.view.Shape[axis-1:])
	var slots [2]*slot
	for i := range slots {
		if c.at(i+1) == nil {
			continue
		}
		k, r := c.weights(i+1, 0, rank)
		if r != nil {
			return nil, r
		}
		s, r := c.repeats(k, v.view.Shape)
		if r != nil {
			return nil, r
		}
		m, places := c.spotOf(c.of(out), out, s)
		if m != n {
			return nil, c.refuse(exportAgain, "has a scale or shift of shape %v for lines of %d", k.Shape, n)
		}
		if slots[i], r = c.slot(k, []int{n}, []fill{ones, zeros}[i], func(list []float32) []float32 { return ordered(list, places) }); r != nil {
			return nil, r
		}
		slots[i].moved = places != nil
	}
	return c.parameters(out, slots[0], slots[1]), nil
}

// ordered puts number i at place i of a list; nil leaves them.
func ordered(list []float32, places []int32) []float32 {
	if places == nil {
		return list
	}
	out := make([]float32, len(list))
	for i, p := range places {
		out[p] = list[i]
	}
	return out
}

func instanceNormalization(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	if len(v.view.Shape) < 2 {
		return nil, c.refuse(exportAgain, "normalizes records of shape %v, which have no pixels", v.view.Shape)
	}
	out, r := c.grouped(v, 0, v.view.Shape[0], float64(c.float("epsilon", 1e-5)))
	if r != nil || c.of(out).op.Kind != ir.GroupNorm {
		return out, r
	}
	plain := true // without a scale and a shift, as a part of a group normalization is
	for i, want := range []float32{1, 0} {
		k, r := c.weights(i+1, 1, 1)
		if r != nil {
			return nil, r
		}
		list, r := c.floats(k)
		if r != nil {
			return nil, r
		}
		plain = plain && uniform(list, want)
	}
	if plain {
		return c.open(out), nil
	}
	return c.affinity(out, 1, 2)
}

func groupNormalization(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	out, r := c.grouped(v, 0, c.int("num_groups", 0), float64(c.float("epsilon", 1e-5)))
	if r != nil || c.of(out).op.Kind != ir.GroupNorm {
		return out, r
	}
	return c.affinity(out, 1, 2)
}
