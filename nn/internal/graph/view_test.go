package graph

import (
	"fmt"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// A view that Reshape grants reads the elements in the order of a plain copy.
func TestViewReshape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 3), 2, 4).Draw(t, "shape")
		axes := rapid.Permutation([]int{0, 1, 2, 3}[:len(shape)]).Draw(t, "axes")
		v, err := ViewOf(G.NewTensor(G.NewGraph(), tensor.Float32, len(shape), G.WithShape(shape...), G.WithName("w")))
		if err != nil {
			t.Fatal(err)
		}
		v = v.Permute(axes...)
		size := tensor.Shape(shape).TotalSize()
		var to []int
		for left := size; left > 1 || len(to) == 0; {
			var divisors []int
			for d := 1; d <= left; d++ {
				if left%d == 0 {
					divisors = append(divisors, d)
				}
			}
			d := rapid.SampledFrom(divisors).Draw(t, "axis")
			to, left = append(to, d), left/d
		}
		w, err := v.Reshape(to...)
		if err != nil {
			return // no such view; nn.TestUserGraphs has those that must exist
		}
		order := func(v View) (list []int) {
			b := Binding{View: v}
			b.each(func(_, leaf int) { list = append(list, leaf) })
			return list
		}
		if a, b := order(v), order(w); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("%v %v reshaped to %v reads %v, want %v", v.Shape, v.Strides, to, b, a)
		}
	})
}
