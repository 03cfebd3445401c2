package graph

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
)

// View is a parameter's leaf seen through the reshapes, transpositions and
// broadcasts between it and the op that uses it: element (i, j, …) of the op's
// operand is element i·strides[0] + j·strides[1] + … of the leaf. A broadcast
// axis has stride 0.
type View struct {
	Leaf           *G.Node
	Shape, Strides []int
}

// Root gives the leaf that n is a rearrangement of, or the weight that parameters alone compute, or nil when n computes
// something else.
func Root(n *G.Node) *G.Node {
	for {
		switch Type(n) {
		case Leaf:
			return n
		case Reshape, Transpose, Repeat:
			n = Children(n)[0]
		default:
			if Computed(n) {
				return n
			}
			return nil
		}
	}
}

// Computed reports whether parameters alone make n, by an op of one's own.
func Computed(n *G.Node) bool {
	op, ok := n.Op().(Op)
	return ok && op.Activations() == 0
}

// IsWeight reports of a root that it is no input.
func IsWeight(root *G.Node) bool { return root.Value() != nil || Computed(root) }

// ViewOf follows the rearrangement that Root recognised.
func ViewOf(n *G.Node) (View, error) {
	if Type(n) == Leaf {
		v := View{Leaf: n, Shape: n.Shape(), Strides: make([]int, n.Dims())}
		for i, s := len(v.Shape)-1, 1; i >= 0; i-- {
			v.Strides[i], s = s, s*v.Shape[i]
		}
		return v, nil
	}
	v, err := ViewOf(Children(n)[0])
	if err != nil {
		return View{}, err
	}
	switch Type(n) {
	case Reshape:
		return v.Reshape(n.Shape()...)
	case Transpose:
		return v.Permute(FieldsOf(n).Ints("pattern")...), nil
	default:
		return v.repeat(FieldsOf(n).Int("along"), n.Shape())
	}
}

// Permute puts the axes into another order.
func (v View) Permute(axes ...int) View {
	w := View{Leaf: v.Leaf}
	for _, a := range axes {
		w.Shape = append(w.Shape, v.Shape[a])
		w.Strides = append(w.Strides, v.Strides[a])
	}
	return w
}

func (v View) repeat(axis int, to []int) (View, error) {
	if axis >= len(v.Shape) || len(to) != len(v.Shape) || v.Shape[axis] != 1 && v.Shape[axis] != to[axis] {
		return View{}, fmt.Errorf("parameter %s is repeated along axis %d from shape %v to %v; only axes of size 1 can be broadcast", Describe(v.Leaf), axis, v.Shape, to)
	}
	w := View{v.Leaf, slices.Clone(v.Shape), slices.Clone(v.Strides)}
	if v.Shape[axis] == 1 {
		w.Shape[axis], w.Strides[axis] = to[axis], 0
	}
	return w, nil
}

// Reshape regroups the axes. Axes merge only where they lie behind one another
// in memory; a transposed matrix, for one, has no flat view.
func (v View) Reshape(to ...int) (View, error) {
	fail := fmt.Errorf("parameter %s is reshaped to %v after a transposition or broadcast that mixes its elements; reshape first", Describe(v.Leaf), to)
	var shape, strides []int
	for i, d := range v.Shape {
		if d != 1 {
			shape, strides = append(shape, d), append(strides, v.Strides[i])
		}
	}
	w := View{v.Leaf, slices.Clone(to), make([]int, len(to))}
	i, j := 0, 0
	for j < len(to) {
		if to[j] == 1 {
			j++
			continue
		}
		if i == len(shape) {
			return View{}, fail
		}
		// The smallest runs of old axes i…iEnd and new axes j…jEnd of one size.
		iEnd, jEnd := i+1, j+1
		old, now := shape[i], to[j]
		for old != now {
			switch {
			case old < now && iEnd < len(shape):
				old *= shape[iEnd]
				iEnd++
			case old > now && jEnd < len(to):
				now *= to[jEnd]
				jEnd++
			default:
				return View{}, fail
			}
		}
		for k := i; k+1 < iEnd; k++ {
			if strides[k] != shape[k+1]*strides[k+1] {
				return View{}, fail
			}
		}
		for k, s := jEnd-1, strides[iEnd-1]; k >= j; k-- {
			w.Strides[k], s = s, s*to[k]
		}
		i, j = iEnd, jEnd
	}
	if i != len(shape) {
		return View{}, fail
	}
	return w, nil
}
