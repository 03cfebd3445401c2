package graph

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Op is an op that Gorgonia lacks or gets wrong.
type Op interface {
	G.Op
	// Activations says how many of the operands are activations. They come first; those behind them are parameters. An op
	// of none computes a weight.
	Activations() int
}

// Base is what Gorgonia asks of every op and all own ops have in common.
type Base struct {
	// Name has every setting of the op: Gorgonia makes one node of two ops of one name over the same operands.
	Name string
	// Axes are how many each operand has, and last how many the result has. Nil is one operand of any number, and a result
	// of the same.
	Axes []int
}

func (b *Base) String() string        { return b.Name }
func (b *Base) ReturnsPtr() bool      { return false }
func (b *Base) CallsExtern() bool     { return false }
func (b *Base) OverwritesInput() int  { return -1 }
func (b *Base) WriteHash(h hash.Hash) { fmt.Fprint(h, b.Name) }
func (b *Base) Arity() int            { return max(1, len(b.Axes)-1) }
func (b *Base) Activations() int      { return 1 }

func (b *Base) Hashcode() uint32 {
	h := fnv.New32a()
	b.WriteHash(h)
	return h.Sum32()
}

// Type wants numbers of one type in all operands.
func (b *Base) Type() hm.Type {
	number := hm.TypeVariable('a')
	if b.Axes == nil {
		return hm.NewFnType(number, number)
	}
	list := make([]hm.Type, len(b.Axes))
	for i, n := range b.Axes {
		list[i] = G.TensorType{Dims: n, Of: number}
	}
	return hm.NewFnType(list...)
}

// InferShape is the first operand's.
func (b *Base) InferShape(operands ...G.DimSizer) (tensor.Shape, error) {
	shapes, err := G.DimSizersToShapes(operands)
	if err != nil {
		return nil, err
	}
	if len(shapes) == 0 {
		return nil, errors.New("it has no operands")
	}
	return shapes[0].Clone(), nil
}

// Overwrite is the value of an op that computes in float64: f gets the operands' elements and leaves the result in those of
// the first, whose shape and type it has.
func Overwrite(operands []G.Value, f func(x [][]float64)) (G.Value, error) {
	var all [][]float64
	for _, v := range operands {
		t, ok := v.(*tensor.Dense)
		if !ok {
			return nil, fmt.Errorf("an operand is a %T", v)
		}
		if !t.Info().C() || t.RequiresIterator() {
			return nil, errors.New("an operand is not contiguous in row-major order; clone or materialise it")
		}
		switch data := t.Data().(type) {
		case []float64:
			all = append(all, slices.Clone(data))
		case []float32:
			wide := make([]float64, len(data))
			for i, x := range data {
				wide[i] = float64(x)
			}
			all = append(all, wide)
		default:
			return nil, fmt.Errorf("an operand is of type %v", v.Dtype())
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no operands")
	}
	f(all)
	if operands[0].Dtype() == tensor.Float64 {
		return tensor.New(tensor.WithShape(operands[0].Shape()...), tensor.WithBacking(all[0])), nil
	}
	narrow := make([]float32, len(all[0]))
	for i, x := range all[0] {
		narrow[i] = float32(x)
	}
	return tensor.New(tensor.WithShape(operands[0].Shape()...), tensor.WithBacking(narrow)), nil
}

// Moments are the mean of x and its variance, divided by the number of elements.
func Moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance
}
