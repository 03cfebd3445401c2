package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A source is where a tensor's numbers are.
type source interface {
	// raw are the tensor's numbers in raw form.
	raw(t *Tensor) ([]byte, error)
}

// Limits of a tensor.
const (
	mostAxes   = 32
	mostLength = math.MaxInt32
	mostInts   = 1 << 20 // whole numbers are shapes and places
)

// FloatTensor is a constant of numbers in memory.
func FloatTensor(name string, shape []int, values []float32) *Tensor {
	return &Tensor{Name: name, Type: Float32, Shape: shape, source: floats(values)}
}

// IntTensor is a constant of whole numbers in memory.
func IntTensor(name string, shape []int, values []int64) *Tensor {
	return &Tensor{Name: name, Type: Int64, Shape: shape, source: ints(values)}
}

type floats []float32

func (s floats) raw(*Tensor) ([]byte, error) {
	raw := make([]byte, 0, 4*len(s))
	for _, v := range s {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw, nil
}

type ints []int64

func (s ints) raw(*Tensor) ([]byte, error) {
	raw := make([]byte, 0, 8*len(s))
	for _, v := range s {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return raw, nil
}

// Len is the number of its elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Floats reads the numbers of a tensor of floating-point type, rounded to float32: Len of them, the last axis fastest. What is finite
// in the file and not as float32 is an error, and so is what changed in a file beside the model since the model was read.
func (t *Tensor) Floats() ([]float32, error) {
	if s, ok := t.source.(floats); ok {
		return s, nil
	}
	e := elements[t.Type]
	if e.float == nil {
		return nil, fmt.Errorf("constant %s holds no floating-point numbers: its type is %s", quote(t.Name), t.Type)
	}
	raw, err := t.raw(e)
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(raw)/e.size)
	for i := range values {
		v := e.float(raw[i*e.size:])
		values[i] = float32(v)
		if math.IsInf(float64(values[i]), 0) && !math.IsInf(v, 0) {
			return nil, fmt.Errorf("constant %s: its number %d is too large for float32", quote(t.Name), i)
		}
	}
	return values, nil
}

// Ints reads the numbers of a tensor of a whole-number type, or of truth values as 0 and 1: Len of them, the last axis fastest. More
// than 2²⁰ are an error.
func (t *Tensor) Ints() ([]int64, error) {
	if s, ok := t.source.(ints); ok {
		return s, nil
	}
	e := elements[t.Type]
	if e.int == nil {
		return nil, fmt.Errorf("constant %s holds no whole numbers: its type is %s", quote(t.Name), t.Type)
	}
	if t.Len() > mostInts {
		return nil, fmt.Errorf("constant %s holds %d whole numbers: at most %d are read", quote(t.Name), t.Len(), mostInts)
	}
	raw, err := t.raw(e)
	if err != nil {
		return nil, err
	}
	values := make([]int64, len(raw)/e.size)
	for i := range values {
		values[i] = e.int(raw[i*e.size:])
	}
	return values, nil
}

// raw are the numbers in raw form: Len of them.
func (t *Tensor) raw(e element) ([]byte, error) {
	var raw []byte
	var err error
	if t.source != nil {
		raw, err = t.source.raw(t)
	}
	if err == nil && len(raw) != t.Len()*e.size {
		err = fmt.Errorf("its shape %v has %d numbers, its data %d", t.Shape, t.Len(), len(raw)/e.size)
	}
	if err != nil {
		return nil, fmt.Errorf("constant %s: %w", quote(t.Name), err)
	}
	return raw, nil
}

var errTooLong = errors.New("its shape has more than 2³¹ numbers")

// length is the number of a shape's elements, which counts no more than an int32 does.
func length(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d == 0 {
			return 0, nil
		}
	}
	for _, d := range shape {
		if n > mostLength/d {
			return 0, errTooLong
		}
		n *= d
	}
	return n, nil
}
