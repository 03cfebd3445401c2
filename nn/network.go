package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
)

// Network is a lowered graph with the way back: it knows which node of the
// graph each of the program's parameters is.
type Network struct {
	Program       *Program
	Input, Logits *G.Node

	bindings []binding // in the order of Program.Params
}

// binding is the place of a parameter's elements: those of the view, in
// PyTorch's order, lie in the value of the leaf. One of the slices is nil.
type binding struct {
	view
	value *tensor.Dense
	f32   []float32
	f64   []float64
}

func bind(v view) (binding, error) {
	n := v.leaf
	if ir.Size(v.shape) != ir.Size(n.Shape()) {
		return binding{}, refuse(n, "a weight of shape %v is broadcast to %v; give each weight its own element", n.Shape(), v.shape)
	}
	if n.Value() == nil {
		return binding{}, refuse(n, "the parameter has no value; give it one with gorgonia.WithValue or WithInit, or name the input with WithInput if this is it")
	}
	t, ok := n.Value().(*tensor.Dense)
	if !ok {
		return binding{}, refuse(n, "the parameter's value is a %T; make it a *tensor.Dense", n.Value())
	}
	if t.Dtype() != tensor.Float32 && t.Dtype() != tensor.Float64 {
		return binding{}, refuse(n, "the parameter's value is of type %v; make it float32 or float64", t.Dtype())
	}
	if !t.Info().C() || t.RequiresIterator() {
		return binding{}, refuse(n, "the parameter's value is not contiguous in row-major order; clone or materialise it")
	}
	b := binding{view: v, value: t}
	b.f32, _ = t.Data().([]float32)
	b.f64, _ = t.Data().([]float64)
	if len(b.f32)+len(b.f64) != ir.Size(n.Shape()) {
		return binding{}, refuse(n, "the parameter's value has %d elements, its node the shape %v; give it one of that shape", len(b.f32)+len(b.f64), n.Shape())
	}
	return b, nil
}

func (b *binding) shares(c binding) bool {
	return b.f32 != nil && c.f32 != nil && &b.f32[0] == &c.f32[0] || b.f64 != nil && c.f64 != nil && &b.f64[0] == &c.f64[0]
}

// each calls f with the index of every element in the flat parameter and in
// the leaf's value.
func (b *binding) each(f func(flat, leaf int)) {
	index := make([]int, len(b.shape))
	leaf := 0
	for flat := range ir.Size(b.shape) {
		f(flat, leaf)
		for axis := len(index) - 1; axis >= 0; axis-- {
			index[axis]++
			leaf += b.strides[axis]
			if index[axis] < b.shape[axis] {
				break
			}
			leaf -= index[axis] * b.strides[axis]
			index[axis] = 0
		}
	}
}

// Params is a copy of the parameters that the graph was lowered with, or that
// SetParams gave it since: flat, in the order of Program.Params, each in
// PyTorch's layout. Those of float64 graphs are rounded.
func (net *Network) Params() []float32 {
	flat := make([]float32, net.Program.NumParams())
	for i, q := range net.Program.Params {
		b, out := &net.bindings[i], flat[q.Offset:]
		b.each(func(to, from int) {
			if b.f32 != nil {
				out[to] = b.f32[from]
			} else {
				out[to] = float32(b.f64[from])
			}
		})
	}
	return flat
}

// SetParams writes a flat vector in the form of Params into the values of the
// graph's nodes, so that Gorgonia's own machines run the network with it. On
// an error nothing is written.
func (net *Network) SetParams(flat []float32) error {
	if want := net.Program.NumParams(); len(flat) != want {
		return fmt.Errorf("network %s has %d parameters, got %d values", net.Program.Name, want, len(flat))
	}
	for i := range net.bindings {
		if b := &net.bindings[i]; b.leaf.Value() != G.Value(b.value) {
			return fmt.Errorf("network %s: %s was bound to another value since the graph was lowered; lower it again", net.Program.Name, describe(b.leaf))
		}
	}
	for i, q := range net.Program.Params {
		b, in := &net.bindings[i], flat[q.Offset:]
		b.each(func(from, to int) {
			if b.f32 != nil {
				b.f32[to] = in[from]
			} else {
				b.f64[to] = float64(in[from])
			}
		})
	}
	return nil
}
