package lower

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// same gives input 0 as it is.
func same(c *call) (*value, *Refusal) {
	return c.in[0].same(), nil
}

// cast changes the type of elements. What records become stays a floating-point number.
func cast(c *call) (*value, *Refusal) {
	whole := c.node.Kind == "Cast" && !file.ElementType(c.int("to", int(file.Float32))).IsFloating()
	if like := c.known(1); whole || like != nil && like.Whole {
		return nil, c.refuse("keep floating-point numbers between the layers", "makes whole numbers of what records become")
	}
	if k := c.in[0].known; k != nil {
		if k.Whole {
			return nil, c.refuse(exportAgain, "makes whole numbers like what records become")
		}
		return &value{known: k}, nil
	}
	return same(c)
}

// shapeOf is a Shape, which begins by the number of records.
func shapeOf(c *call) (*value, *Refusal) {
	list := []fold.Dim{{N: 0, Records: 1}}
	for _, n := range c.in[0].shape() {
		list = append(list, fold.Dim{N: int64(n)})
	}
	return &value{known: fold.Shape(c.node, list)}, nil
}

// dropout passes on what it reads, as in inference.
func dropout(c *call) (*value, *Refusal) {
	if k := c.at(2); k != nil {
		if n, ok := c.scalar(k); !ok || n != 0 {
			return nil, c.refuse(exportAgain+" in inference mode", "drops values at random (training_mode)")
		}
	}
	return same(c)
}

func reshape(c *call) (*value, *Refusal) {
	k := c.in[1].known
	if k == nil || !k.Whole || len(k.Shape) != 1 || k.Read() != nil {
		return nil, c.refuse(exportAgain+" with fixed sizes", "gets a shape that is no constant")
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	shape, r := c.target(v.view.Shape, k.Dims)
	if r != nil {
		return nil, r
	}
	return c.viewed(v, shape)
}

// target is the shape that a Reshape gives to records of another.
func (c *call) target(old []int, to []fold.Dim) ([]int, *Refusal) {
	zero := c.int("allowzero", 0) == 0 // a length of 0 stands for that of the input
	if len(to) == 0 {
		return nil, c.crossing("joins all elements")
	}
	open := to[0] == fold.Dim{N: -1}
	switch first := to[0]; {
	case open, first == fold.Dim{N: 0, Records: 1}, zero && first == fold.Dim{}, c.records > 0 && first == fold.Dim{N: int64(c.records)}:
	default:
		return nil, c.crossing("merges or splits records by the shape " + fold.Words(to))
	}
	size, shape, rest := ir.Size(old), make([]int, len(to)-1), -1
	for i, d := range to[1:] {
		switch {
		case d.Records != 0:
			return nil, c.crossing(fmt.Sprintf("moves records to axis %d by the shape %s", i+1, fold.Words(to)))
		case d.N == 0 && zero && i < len(old):
			shape[i] = old[i]
		case d.N == -1 && !open:
			open, rest, shape[i] = true, i, 1
		case d.N < 1 || d.N > strides.Most:
			return nil, c.refuse(exportAgain, "has the shape %s", fold.Words(to))
		default:
			shape[i] = int(d.N)
		}
	}
	n, ok := strides.Count(shape)
	if rest >= 0 && ok && size%n == 0 {
		shape[rest], n = size/n, size
	}
	if !ok || n != size {
		return nil, c.crossing(fmt.Sprintf("makes records of %d elements to the shape %s, and so merges or splits them", size, fold.Words(to)))
	}
	return shape, nil
}

// viewed gives records another shape of as many elements.
func (c *call) viewed(v *value, shape []int) (*value, *Refusal) {
	out := *v
	var ok bool
	if out.view, ok = v.view.Reshaped(shape); ok {
		return &out, nil
	}
	plain, r := c.flat(v)
	if r != nil {
		return nil, r
	}
	out = *plain
	out.view, _ = plain.view.Reshaped(shape)
	return &out, nil
}

func flatten(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	axis, rank := c.int("axis", 1), len(v.view.Shape)+1
	if axis < 0 {
		axis += rank
	}
	if axis < 1 || axis > rank {
		return nil, c.crossing("joins all elements")
	}
	if n, _ := strides.Count(v.view.Shape[:axis-1]); n != 1 {
		return nil, c.crossing(fmt.Sprintf("joins axes 0 to %d, and so splits records", axis-1))
	}
	return c.viewed(v, []int{v.view.Size()})
}

func squeeze(c *call) (*value, *Refusal) {
	axes, r := c.axes(1, len(c.in[0].shape())+1, nil)
	if r != nil {
		return nil, r
	}
	drop := func(a, n int) bool { return slices.Contains(axes, a) || axes == nil && n == 1 }
	if slices.Contains(axes, 0) || axes == nil && c.records == 1 {
		return nil, c.crossing("drops an axis")
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	shape := []int{}
	for a, n := range v.view.Shape {
		switch {
		case !drop(a+1, n):
			shape = append(shape, n)
		case n != 1:
			return nil, c.refuse(exportAgain, "drops axis %d, whose length is %d", a+1, n)
		}
	}
	return c.viewed(v, shape)
}

func unsqueeze(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	shape, axes, err := fold.Unsqueezed(append([]int{1}, v.view.Shape...), c.in[1].known) // 1 in the place of the records
	if err != nil {
		return nil, c.because(err)
	}
	if slices.Contains(axes, 0) {
		return nil, c.crossing("puts an axis before the records")
	}
	return c.viewed(v, shape[1:])
}

func transpose(c *call) (*value, *Refusal) {
	x := c.in[0]
	rank := len(x.shape()) + 1
	order, err := fold.Order(c.node, rank)
	if err != nil {
		return nil, c.because(err)
	}
	if order[0] != 0 {
		return nil, c.crossing(fmt.Sprintf("moves axes by %v, and so what lies", order))
	}
	own := make([]int, rank-1)
	for i, a := range order[1:] {
		own[i] = a - 1
	}
	if f := x.form; f != nil && f.kind == padding && f.last && slices.Equal(order, []int{0, 3, 1, 2}) {
		moved, base := *f, *f.base
		base.view = base.view.Transposed(own)
		moved.base, moved.last, moved.shape = &base, false, []int{f.shape[2], f.shape[0], f.shape[1]}
		return formed(&moved), nil
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	out := *v
	out.view = v.view.Transposed(own)
	return &out, nil
}
