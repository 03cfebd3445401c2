package graph

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A Binding is the place of a parameter's elements: those of the view, in
// PyTorch's order, lie in the value of the leaf. One of the slices is nil.
type Binding struct {
	View
	value *tensor.Dense
	f32   []float32
	f64   []float64
}

// Bind finds the value of a parameter, and says what is wrong with it.
func Bind(v View) (Binding, error) {
	n := v.Leaf
	if tensor.Shape(v.Shape).TotalSize() != n.Shape().TotalSize() {
		return Binding{}, Refuse(n, "a weight of shape %v is broadcast to %v; give each weight its own element", n.Shape(), v.Shape)
	}
	if n.Value() == nil {
		return Binding{}, Refuse(n, "the parameter has no value; give it one with gorgonia.WithValue or WithInit, or name the input with WithInput if this is it")
	}
	t, ok := n.Value().(*tensor.Dense)
	if !ok {
		return Binding{}, Refuse(n, "the parameter's value is a %T; make it a *tensor.Dense", n.Value())
	}
	if t.Dtype() != tensor.Float32 && t.Dtype() != tensor.Float64 {
		return Binding{}, Refuse(n, "the parameter's value is of type %v; make it float32 or float64", t.Dtype())
	}
	if !t.Info().C() || t.RequiresIterator() {
		return Binding{}, Refuse(n, "the parameter's value is not contiguous in row-major order; clone or materialise it")
	}
	b := Binding{View: v, value: t}
	b.f32, _ = t.Data().([]float32)
	b.f64, _ = t.Data().([]float64)
	if len(b.f32)+len(b.f64) != n.Shape().TotalSize() {
		return Binding{}, Refuse(n, "the parameter's value has %d elements, its node the shape %v; give it one of that shape", len(b.f32)+len(b.f64), n.Shape())
	}
	return b, nil
}

// Shares reports whether two parameters are one in memory.
func (b *Binding) Shares(c Binding) bool {
	return b.f32 != nil && c.f32 != nil && &b.f32[0] == &c.f32[0] || b.f64 != nil && c.f64 != nil && &b.f64[0] == &c.f64[0]
}

// each calls f with the index of every element in the flat parameter and in
// the leaf's value.
func (b *Binding) each(f func(flat, leaf int)) {
	index := make([]int, len(b.Shape))
	leaf := 0
	for flat := range tensor.Shape(b.Shape).TotalSize() {
		f(flat, leaf)
		for axis := len(index) - 1; axis >= 0; axis-- {
			index[axis]++
			leaf += b.Strides[axis]
			if index[axis] < b.Shape[axis] {
				break
			}
			leaf -= index[axis] * b.Strides[axis]
			index[axis] = 0
		}
	}
}

// Bound reports whether the leaf has the value still.
func (b *Binding) Bound() bool { return b.Leaf.Value() == G.Value(b.value) }

// Read copies the elements to the beginning of out, rounded where the graph is in float64.
func (b *Binding) Read(out []float32) {
	b.each(func(to, from int) {
		if b.f32 != nil {
			out[to] = b.f32[from]
		} else {
			out[to] = float32(b.f64[from])
		}
	})
}

// Write puts the beginning of in into the value.
func (b *Binding) Write(in []float32) {
	b.each(func(from, to int) {
		if b.f32 != nil {
			b.f32[to] = in[from]
		} else {
			b.f64[to] = float64(in[from])
		}
	})
}
