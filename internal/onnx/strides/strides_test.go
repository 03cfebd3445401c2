package strides

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Reshapes and moves of axes keep track of every element.
func TestViews(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for range 2000 {
		shape := []int{1 + r.IntN(4), 1 + r.IntN(6), 1 + r.IntN(4)}
		v, list := Of(shape), make([]int32, shape[0]*shape[1]*shape[2])
		for i := range list {
			list[i] = int32(i)
		}
		for range 4 {
			order := r.Perm(len(v.Shape))
			next := make([]int32, len(list)) // the elements in the file's order, moved one by one
			old := Of(v.Shape).Transposed(order)
			for i, p := range old.Places() {
				next[i] = list[p]
			}
			v, list = v.Transposed(order), next
			if w, ok := v.Reshaped([][]int{{len(list)}, {2, len(list) / 2}, {v.Shape[0], len(list) / v.Shape[0]}}[r.IntN(3)]); ok && w.Size() == len(list) {
				v = w
			}
			if !slices.Equal(v.Places(), list) {
				t.Fatalf("view %+v has the places %v, want %v", v, v.Places(), list)
			}
			if v.Plain() != slices.IsSorted(list) {
				t.Fatalf("view %+v of places %v is plain: %v", v, list, v.Plain())
			}
		}
	}
}
