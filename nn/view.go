package nn

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
)

// view is a parameter's leaf seen through the reshapes, transpositions and
// broadcasts between it and the op that uses it: element (i, j, …) of the op's
// operand is element i·strides[0] + j·strides[1] + … of the leaf. A broadcast
// axis has stride 0.
type view struct {
	leaf           *G.Node
	shape, strides []int
}

// rootOf gives the leaf that n is a rearrangement of, or the weight that parameters alone compute, or nil when n computes
// something else.
func rootOf(n *G.Node) *G.Node {
	for {
		switch opType(n) {
		case opLeaf:
			return n
		case opReshape, opTranspose, opRepeat:
			n = children(n)[0]
		default:
			if isComputed(n) {
				return n
			}
			return nil
		}
	}
}

func isComputed(n *G.Node) bool {
	_, ok := n.Op().(weightOp)
	return ok
}

// isWeight reports of a root that it is no input.
func isWeight(root *G.Node) bool { return root.Value() != nil || isComputed(root) }

// viewOf follows the rearrangement that rootOf recognised.
func viewOf(n *G.Node) (view, error) {
	if opType(n) == opLeaf {
		v := view{leaf: n, shape: n.Shape(), strides: make([]int, n.Dims())}
		for i, s := len(v.shape)-1, 1; i >= 0; i-- {
			v.strides[i], s = s, s*v.shape[i]
		}
		return v, nil
	}
	v, err := viewOf(children(n)[0])
	if err != nil {
		return view{}, err
	}
	switch opType(n) {
	case opReshape:
		return v.reshape(n.Shape()...)
	case opTranspose:
		return v.permute(fields(n).ints("pattern")...), nil
	default:
		return v.repeat(fields(n).int("along"), n.Shape())
	}
}

func (v view) permute(axes ...int) view {
	w := view{leaf: v.leaf}
	for _, a := range axes {
		w.shape = append(w.shape, v.shape[a])
		w.strides = append(w.strides, v.strides[a])
	}
	return w
}

func (v view) repeat(axis int, to []int) (view, error) {
	if axis >= len(v.shape) || len(to) != len(v.shape) || v.shape[axis] != 1 && v.shape[axis] != to[axis] {
		return view{}, fmt.Errorf("parameter %s is repeated along axis %d from shape %v to %v; only axes of size 1 can be broadcast", describe(v.leaf), axis, v.shape, to)
	}
	w := view{v.leaf, slices.Clone(v.shape), slices.Clone(v.strides)}
	if v.shape[axis] == 1 {
		w.shape[axis], w.strides[axis] = to[axis], 0
	}
	return w, nil
}

// reshape regroups the axes. Axes merge only where they lie behind one another
// in memory; a transposed matrix, for one, has no flat view.
func (v view) reshape(to ...int) (view, error) {
	fail := fmt.Errorf("parameter %s is reshaped to %v after a transposition or broadcast that mixes its elements; reshape first", describe(v.leaf), to)
	var shape, strides []int
	for i, d := range v.shape {
		if d != 1 {
			shape, strides = append(shape, d), append(strides, v.strides[i])
		}
	}
	w := view{v.leaf, slices.Clone(to), make([]int, len(to))}
	i, j := 0, 0
	for j < len(to) {
		if to[j] == 1 {
			j++
			continue
		}
		if i == len(shape) {
			return view{}, fail
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
				return view{}, fail
			}
		}
		for k := i; k+1 < iEnd; k++ {
			if strides[k] != shape[k+1]*strides[k+1] {
				return view{}, fail
			}
		}
		for k, s := jEnd-1, strides[iEnd-1]; k >= j; k-- {
			w.strides[k], s = s, s*to[k]
		}
		i, j = iEnd, jEnd
	}
	if i != len(shape) {
		return view{}, fail
	}
	return w, nil
}
