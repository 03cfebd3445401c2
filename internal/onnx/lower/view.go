package lower

import (
	"math"
	"slices"
)

// A view says where the elements of a value that a file describes lie in what the program stores, so that a node that
// changes the layout alone costs nothing: the layers behind it read by the view.
type view struct {
	shape []int      // of a record, in the file's order
	axes  [][]factor // of each axis, the slowest first; none where the length is 1
}

// A factor is a stretch of an axis: so many steps of a stride.
type factor struct{ size, stride int }

// viewOf is the view of a record that is stored as the file describes it.
func viewOf(shape []int) view {
	v := view{shape, make([][]factor, len(shape))}
	stride := 1
	for a := len(shape) - 1; a >= 0; a-- {
		if shape[a] > 1 {
			v.axes[a] = []factor{{shape[a], stride}}
		}
		stride *= shape[a]
	}
	return v
}

// most is how many elements a record has at most, as in package ir.
const most = math.MaxInt32

// count multiplies lengths, and says whether there are at least one and at most so many elements as package ir counts.
func count(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 1 || d > most/n {
			return 0, false
		}
		n *= d
	}
	return n, true
}

func (v view) size() int {
	n := 1
	for _, d := range v.shape {
		n *= d
	}
	return n
}

// merged joins neighbours that lie one behind the other.
func merged(list []factor) []factor {
	var out []factor
	for _, f := range list {
		if n := len(out); n > 0 && out[n-1].stride == f.size*f.stride {
			out[n-1] = factor{out[n-1].size * f.size, f.stride}
			continue
		}
		out = append(out, f)
	}
	return out
}

// plain says that the record is stored as the file describes it.
func (v view) plain() bool { return len(merged(slices.Concat(v.axes...))) <= 1 }

// like says that two records of one shape are stored alike.
func (v view) like(w view) bool {
	if !slices.Equal(v.shape, w.shape) {
		return false
	}
	for a := range v.axes {
		if !slices.Equal(merged(v.axes[a]), merged(w.axes[a])) {
			return false
		}
	}
	return true
}

// outermost says that what is stored is one stretch after the other of axis a.
func (v view) outermost(a int) bool {
	f := merged(v.axes[a])
	return len(f) == 0 || len(f) == 1 && f[0].stride == v.size()/f[0].size
}

func (v view) transposed(order []int) view {
	w := view{}
	for _, a := range order {
		w.shape, w.axes = append(w.shape, v.shape[a]), append(w.axes, v.axes[a])
	}
	return w
}

// reshaped gives the record another shape of as many elements. It is false where an axis would not be made of whole stretches.
func (v view) reshaped(shape []int) (view, bool) {
	left := merged(slices.Concat(v.axes...))
	w := view{shape, make([][]factor, len(shape))}
	for a, need := range shape {
		for need > 1 {
			switch {
			case len(left) == 0:
				return view{}, false
			case need%left[0].size == 0:
				w.axes[a], need, left = append(w.axes[a], left[0]), need/left[0].size, left[1:]
			case left[0].size%need == 0:
				rest := left[0].size / need
				w.axes[a] = append(w.axes[a], factor{need, left[0].stride * rest})
				left[0].size, need = rest, 1
			default:
				return view{}, false
			}
		}
	}
	return w, len(left) == 0
}

// places are where the elements are stored, in the file's order.
func (v view) places() []int32 {
	list := []int32{0}
	for _, f := range slices.Concat(v.axes...) {
		next := make([]int32, 0, len(list)*f.size)
		for _, p := range list {
			for i := range f.size {
				next = append(next, p+int32(i*f.stride))
			}
		}
		list = next
	}
	return list
}
