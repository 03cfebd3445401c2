package lower

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// A constant is a value of the graph that no record changes.
type constant struct {
	shape  []int
	roots  []string     // the initializers that it is made of
	tensor *file.Tensor // its numbers, as long as nobody asked for them
	floats []float32
	whole  bool // of whole numbers: these
	dims   []dim
}

// A dim is a whole number: n, and so many times the number of records, which no file knows.
type dim struct{ n, records int64 }

// constantOf is a tensor of the file.
func constantOf(t *file.Tensor, root string) *constant {
	return &constant{shape: t.Shape, roots: []string{root}, tensor: t, whole: !t.Type.IsFloating()}
}

func wholes(shape []int, dims []dim) *constant {
	return &constant{shape: shape, whole: true, dims: dims}
}

func (k *constant) size() int {
	n, ok := count(k.shape)
	if !ok {
		return 0
	}
	return n
}

// read gets the numbers from the file.
func (k *constant) read() error {
	if k.tensor == nil {
		return nil
	}
	t, n := k.tensor, 0
	if k.whole {
		list, err := t.Ints()
		if err != nil {
			return err
		}
		for _, v := range list {
			k.dims = append(k.dims, dim{n: v})
		}
		n = len(k.dims)
	} else {
		list, err := t.Floats()
		if err != nil {
			return err
		}
		k.floats, n = list, len(list)
	}
	if n != k.size() {
		return fmt.Errorf("constant %s has shape %v and %d numbers", t.Name, k.shape, n)
	}
	k.tensor = nil
	return nil
}

// reshaped gives a constant of the same numbers another shape.
func (k *constant) reshaped(shape []int) *constant {
	c := *k
	c.shape = shape
	return &c
}

// transposed moves its axes.
func (k *constant) transposed(order []int) *constant {
	v := viewOf(k.shape).transposed(order)
	c := &constant{shape: v.shape, roots: k.roots, whole: k.whole}
	for _, p := range v.places() {
		if k.whole {
			c.dims = append(c.dims, k.dims[p])
		} else {
			c.floats = append(c.floats, k.floats[p])
		}
	}
	return c
}

// uniform says that all numbers are v.
func uniform(list []float32, v float32) bool {
	return !slices.ContainsFunc(list, func(x float32) bool { return x != v })
}

// along gives the numbers of a constant that repeats along the axes of a record, one for each element, in the file's order.
func along(k *constant, shape []int) []float32 {
	pad := append(slices.Repeat([]int{1}, max(len(shape)-len(k.shape), 0)), k.shape...)
	pad = pad[len(pad)-len(shape):]
	list := []int{0}
	stride := make([]int, len(shape))
	for a, s := len(shape)-1, 1; a >= 0; a-- {
		if pad[a] > 1 {
			stride[a] = s
		}
		s *= pad[a]
	}
	for a, n := range shape {
		next := make([]int, 0, len(list)*n)
		for _, p := range list {
			for i := range n {
				next = append(next, p+i*stride[a])
			}
		}
		list = next
	}
	out := make([]float32, len(list))
	for i, p := range list {
		out[i] = k.floats[p]
	}
	return out
}
