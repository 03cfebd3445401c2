// Package strides follows the elements of records whose layout a graph changes.
package strides

import (
	"math"
	"slices"
)

// A View says where the elements of a value that a file describes lie in what the program stores, so that a node that
// changes the layout alone costs nothing: the layers behind it read by the view.
type View struct {
	Shape []int      // of a record, in the file's order
	Axes  [][]Factor // of each axis, the slowest first; none where the length is 1
}

// A Factor is a stretch of an axis: so many steps of a stride.
type Factor struct{ Size, Stride int }

// Of is the view of a record that is stored as the file describes it.
func Of(shape []int) View {
	v := View{shape, make([][]Factor, len(shape))}
	stride := 1
	for a := len(shape) - 1; a >= 0; a-- {
		if shape[a] > 1 {
			v.Axes[a] = []Factor{{shape[a], stride}}
		}
		stride *= shape[a]
	}
	return v
}

// Most is how many elements a record has at most, as in package ir.
const Most = math.MaxInt32

// Count multiplies lengths, and says whether there are at least one and at most so many elements as package ir counts.
func Count(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 1 || d > Most/n {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Size is the number of elements of a record.
func (v View) Size() int {
	n := 1
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// Merged joins neighbours that lie one behind the other.
func Merged(list []Factor) []Factor {
	var out []Factor
	for _, f := range list {
		if n := len(out); n > 0 && out[n-1].Stride == f.Size*f.Stride {
			out[n-1] = Factor{out[n-1].Size * f.Size, f.Stride}
			continue
		}
		out = append(out, f)
	}
	return out
}

// Plain says that the record is stored as the file describes it.
func (v View) Plain() bool { return len(Merged(slices.Concat(v.Axes...))) <= 1 }

// Like says that two records of one shape are stored alike.
func (v View) Like(w View) bool {
	if !slices.Equal(v.Shape, w.Shape) {
		return false
	}
	for a := range v.Axes {
		if !slices.Equal(Merged(v.Axes[a]), Merged(w.Axes[a])) {
			return false
		}
	}
	return true
}

// Outermost says that what is stored is one stretch after the other of some axes together.
func (v View) Outermost(axes ...int) bool {
	var all []Factor
	for _, a := range axes {
		all = append(all, v.Axes[a]...)
	}
	f := Merged(all)
	return len(f) == 0 || len(f) == 1 && f[0].Stride == v.Size()/f[0].Size
}

// Transposed gives the record its axes in another order.
func (v View) Transposed(order []int) View {
	w := View{}
	for _, a := range order {
		w.Shape, w.Axes = append(w.Shape, v.Shape[a]), append(w.Axes, v.Axes[a])
	}
	return w
}

// Reshaped gives the record another shape of as many elements. It is false where an axis would not be made of whole stretches.
func (v View) Reshaped(shape []int) (View, bool) {
	left := Merged(slices.Concat(v.Axes...))
	w := View{shape, make([][]Factor, len(shape))}
	for a, need := range shape {
		for need > 1 {
			switch {
			case len(left) == 0:
				return View{}, false
			case need%left[0].Size == 0:
				w.Axes[a], need, left = append(w.Axes[a], left[0]), need/left[0].Size, left[1:]
			case left[0].Size%need == 0:
				rest := left[0].Size / need
				w.Axes[a] = append(w.Axes[a], Factor{need, left[0].Stride * rest})
				left[0].Size, need = rest, 1
			default:
				return View{}, false
			}
		}
	}
	return w, len(left) == 0
}

// Places are where the elements are stored, in the file's order.
func (v View) Places() []int32 {
	list := []int32{0}
	for _, f := range slices.Concat(v.Axes...) {
		next := make([]int32, 0, len(list)*f.Size)
		for _, p := range list {
			for i := range f.Size {
				next = append(next, p+int32(i*f.Stride))
			}
		}
		list = next
	}
	return list
}
