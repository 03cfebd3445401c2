// Package fold computes what no record changes in a graph: constants, and shapes with the number of records in them.
package fold

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// A Constant is a value of the graph that no record changes.
type Constant struct {
	Shape  []int
	Roots  []string     // the initializers, or nodes, that it is made of
	Whole  bool         // of whole numbers: Dims, once they are read
	Dims   []Dim        // the last axis fastest
	tensor *file.Tensor // its numbers, as long as nobody asked for them
	floats []float32
}

// A Dim is a whole number: N, and so many times the number of records, which no file knows.
type Dim struct{ N, Records int64 }

// Of is a tensor of the file, by its name there.
func Of(t *file.Tensor, root string) *Constant {
	return &Constant{Shape: t.Shape, Roots: []string{root}, tensor: t, Whole: !t.Type.IsFloating()}
}

// Numbers is a constant of whole numbers.
func Numbers(shape []int, list []Dim) *Constant {
	return &Constant{Shape: shape, Whole: true, Dims: list}
}

// Size is the number of elements, 0 for none and for more than a record can have.
func (k *Constant) Size() int {
	n, ok := strides.Count(k.Shape)
	if !ok {
		return 0
	}
	return n
}

// Read gets the numbers from the file.
func (k *Constant) Read() error {
	if k.tensor == nil {
		return nil
	}
	t, n := k.tensor, 0
	if k.Whole {
		list, err := t.Ints()
		if err != nil {
			return err
		}
		dims := make([]Dim, len(list))
		for i, v := range list {
			dims[i].N = v
		}
		k.Dims, n = dims, len(dims)
	} else {
		list, err := t.Floats()
		if err != nil {
			return err
		}
		k.floats, n = list, len(list)
	}
	if n != k.Size() {
		return fmt.Errorf("constant %s has shape %v and %d numbers", t.Name, k.Shape, n)
	}
	k.tensor = nil
	return nil
}

// Floats are the numbers of a constant that are not whole, the last axis fastest. They are shared: change none.
func (k *Constant) Floats() ([]float32, error) {
	if k.Whole {
		return nil, fmt.Errorf("there are whole numbers where others belong")
	}
	if err := k.Read(); err != nil {
		return nil, err
	}
	return k.floats, nil
}

// Number is that of a constant of one; false for others.
func (k *Constant) Number() (float64, bool) {
	if k == nil || k.Size() != 1 || k.Read() != nil {
		return 0, false
	}
	if k.Whole {
		return float64(k.Dims[0].N), k.Dims[0].Records == 0
	}
	return float64(k.floats[0]), true
}

// Along repeats the numbers of a constant that was read along the axes of a record, one for each element, in the file's order.
func (k *Constant) Along(shape []int) []float32 {
	stride, size := make([]int, len(shape)), 1
	for i := 1; i <= min(len(shape), len(k.Shape)); i++ {
		n := k.Shape[len(k.Shape)-i]
		if n > 1 {
			stride[len(shape)-i] = size
		}
		size *= n
	}
	places := []int{0}
	for a, n := range shape {
		places = spread(places, n, stride[a])
	}
	out := make([]float32, len(places))
	for i, p := range places {
		out[i] = k.floats[p]
	}
	return out
}

// spread puts n steps behind each place.
func spread(places []int, n, step int) []int {
	next := make([]int, 0, len(places)*n)
	for _, p := range places {
		for i := range n {
			next = append(next, p+i*step)
		}
	}
	return next
}

// picked has the elements of a constant that was read at some places.
func (k *Constant) picked(shape, places []int) *Constant {
	out := &Constant{Shape: shape, Roots: k.Roots, Whole: k.Whole}
	if k.Whole {
		out.Dims = make([]Dim, 0, len(places))
	} else {
		out.floats = make([]float32, 0, len(places))
	}
	for _, p := range places {
		if k.Whole {
			out.Dims = append(out.Dims, k.Dims[p])
		} else {
			out.floats = append(out.floats, k.floats[p])
		}
	}
	return out
}

// Words writes a shape, N for the number of records.
func Words(list []Dim) string {
	var words []string
	for _, d := range list {
		switch {
		case d.Records == 0:
			words = append(words, fmt.Sprint(d.N))
		case d == Dim{0, 1}:
			words = append(words, "N")
		default:
			words = append(words, fmt.Sprintf("%d·N%+d", d.Records, d.N))
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}
