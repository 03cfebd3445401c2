package file

import "fmt"

// source is where a tensor's numbers are.
type source struct {
	floats []float32
	ints   []int64
}

// FloatTensor is a constant of numbers in memory.
func FloatTensor(name string, shape []int, values []float32) *Tensor {
	return &Tensor{Name: name, Type: Float32, Shape: shape, source: source{floats: values}}
}

// IntTensor is a constant of whole numbers in memory.
func IntTensor(name string, shape []int, values []int64) *Tensor {
	return &Tensor{Name: name, Type: Int64, Shape: shape, source: source{ints: values}}
}

// Len is the number of its elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Floats reads the numbers of a tensor of floating-point type, rounded to float32.
func (t *Tensor) Floats() ([]float32, error) {
	if t.source.floats == nil && t.Len() > 0 {
		return nil, fmt.Errorf("constant %s holds no floating-point numbers", t.Name)
	}
	return t.source.floats, nil
}

// Ints reads the numbers of a tensor of a whole-number type or of truth values.
func (t *Tensor) Ints() ([]int64, error) {
	if t.source.ints == nil && t.Len() > 0 {
		return nil, fmt.Errorf("constant %s holds no whole numbers", t.Name)
	}
	return t.source.ints, nil
}
