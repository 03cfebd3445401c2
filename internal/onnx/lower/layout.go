package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// same gives input 0 as it is.
func same(c *call) (*value, *Refusal) {
	v := *c.in[0]
	return &v, nil
}

// cast changes the type of elements. What records become stays a floating-point number.
func cast(c *call) (*value, *Refusal) {
	v := *c.in[0]
	to := file.ElementType(c.int("to", int(file.Float32)))
	if c.node.Kind == "CastLike" {
		to = file.Float32
		if k := c.in[1].known; k != nil && k.whole {
			to = file.Int64
		}
	}
	switch {
	case v.known == nil && !to.IsFloating():
		return nil, c.refuse("keep floating-point numbers between the layers", "makes whole numbers of what records become")
	case v.known == nil:
		return &v, nil
	case !to.IsFloating() && !to.IsWhole():
		return nil, c.refuse(exportAgain, "makes numbers of type %d", to)
	}
	return c.converted(v.known, !to.IsFloating())
}

// converted makes whole numbers of others, or the other way round.
func (c *call) converted(k *constant, whole bool) (*value, *Refusal) {
	if k.whole == whole {
		return &value{known: k}, nil
	}
	if err := k.read(); err != nil {
		return nil, c.refuse(exportAgain, "%v", err)
	}
	out := &constant{shape: k.shape, roots: k.roots, whole: whole}
	for _, v := range k.floats {
		if v != v || v < -most || v > most {
			return nil, c.refuse(exportAgain, "makes a whole number of %v", v)
		}
		out.dims = append(out.dims, dim{n: int64(v)})
	}
	for _, d := range k.dims {
		if d.records != 0 {
			return nil, c.refuse(exportAgain+" with an open number of records", "computes with the number of records as a floating-point number")
		}
		out.floats = append(out.floats, float32(d.n))
	}
	return &value{known: out}, nil
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
	if k == nil || !k.whole || len(k.shape) != 1 {
		return nil, c.refuse(exportAgain+" with fixed sizes", "gets a shape that is no constant")
	}
	if c.in[0].known != nil {
		return c.foldReshape(k.dims)
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	zero := c.int("allowzero", 0) == 0 // a length of 0 stands for that of the input
	if len(k.dims) == 0 {
		return nil, c.crossing("joins all elements")
	}
	size, shape, open := v.view.size(), make([]int, len(k.dims)-1), -1
	first := k.dims[0]
	if !(first == dim{0, 1} || zero && first == dim{} || first == dim{n: -1} || c.records > 0 && first == dim{n: int64(c.records)}) {
		return nil, c.crossing(fmt.Sprintf("merges or splits records by the shape %s", dims(k.dims)))
	}
	for i, d := range k.dims[1:] {
		switch {
		case d.records != 0:
			return nil, c.crossing(fmt.Sprintf("moves records to axis %d by the shape %s", i+1, dims(k.dims)))
		case d.n == 0 && zero && i < len(v.view.shape):
			shape[i] = v.view.shape[i]
		case d.n == -1 && open < 0 && first.n != -1:
			open, shape[i] = i, 1
		case d.n < 1 || d.n > most:
			return nil, c.refuse(exportAgain, "has the shape %s", dims(k.dims))
		default:
			shape[i] = int(d.n)
		}
	}
	n, ok := count(shape)
	if open >= 0 && ok && size%n == 0 {
		shape[open], n = size/n, size
	}
	if !ok || n != size {
		return nil, c.crossing(fmt.Sprintf("makes records of %d elements to the shape %s, and so merges or splits them", size, dims(k.dims)))
	}
	return c.viewed(v, shape)
}

// dims writes a shape, N for the number of records.
func dims(list []dim) string {
	var words []string
	for _, d := range list {
		switch {
		case d.records == 0:
			words = append(words, fmt.Sprint(d.n))
		case d == dim{0, 1}:
			words = append(words, "N")
		default:
			words = append(words, fmt.Sprintf("%d·N%+d", d.records, d.n))
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}

// viewed gives records another shape of as many elements.
func (c *call) viewed(v *value, shape []int) (*value, *Refusal) {
	out := *v
	var ok bool
	if out.view, ok = v.view.reshaped(shape); ok {
		return &out, nil
	}
	plain, r := c.flat(v)
	if r != nil {
		return nil, r
	}
	out = *plain
	out.view, _ = plain.view.reshaped(shape)
	return &out, nil
}

func flatten(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	axis, rank := c.int("axis", 1), len(v.view.shape)+1
	if axis < 0 {
		axis += rank
	}
	if axis < 1 || axis > rank {
		return nil, c.crossing("joins all elements")
	}
	if n, _ := count(v.view.shape[:axis-1]); n != 1 {
		return nil, c.crossing(fmt.Sprintf("joins axes 0 to %d, and so splits records", axis-1))
	}
	return c.viewed(v, []int{v.view.size()})
}

func squeeze(c *call) (*value, *Refusal) {
	x := c.in[0]
	rank := len(x.shape()) + 1
	if x.known != nil {
		rank = len(x.known.shape)
	}
	axes, r := c.axesOr(1, rank, nil)
	if r != nil {
		return nil, r
	}
	drop := func(a, n int) bool { return slices.Contains(axes, a) || axes == nil && n == 1 }
	if x.known != nil {
		shape := []int{}
		for a, n := range x.known.shape {
			if !drop(a, n) {
				shape = append(shape, n)
			}
		}
		return c.foldShape(x.known, shape)
	}
	if slices.Contains(axes, 0) || axes == nil && c.records == 1 {
		return nil, c.crossing("drops an axis")
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	shape := []int{}
	for a, n := range v.view.shape {
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
	x := c.in[0]
	list, r := c.numbers(1)
	if r != nil {
		return nil, r
	}
	old := append([]int{1}, x.shape()...) // 1 in the place of the records
	if x.known != nil {
		old = x.known.shape
	}
	rank := len(old) + len(list)
	axes, r := c.axesOr(1, rank, nil)
	if r != nil {
		return nil, r
	}
	shape := []int{}
	for a := range rank {
		if slices.Contains(axes, a) {
			shape = append(shape, 1)
			continue
		}
		shape, old = append(shape, old[0]), old[1:]
	}
	if x.known != nil {
		return c.foldShape(x.known, shape)
	}
	if slices.Contains(axes, 0) {
		return nil, c.crossing("puts an axis before the records")
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	return c.viewed(v, shape[1:])
}

func transpose(c *call) (*value, *Refusal) {
	x := c.in[0]
	rank := len(x.shape()) + 1
	if x.known != nil {
		rank = len(x.known.shape)
	}
	order, ok := c.ints("perm")
	if !ok {
		order = upTo(rank)
		slices.Reverse(order)
	}
	if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, upTo(rank)) {
		return nil, c.refuse(exportAgain, "moves %d axes by %v", rank, order)
	}
	if x.known != nil {
		if r := c.mayFold(x.known.size()); r != nil {
			return nil, r
		}
		if err := x.known.read(); err != nil {
			return nil, c.refuse(exportAgain, "%v", err)
		}
		return &value{known: x.known.transposed(order)}, nil
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
		base.view = base.view.transposed(own)
		moved.base, moved.last, moved.shape = &base, false, []int{f.shape[2], f.shape[0], f.shape[1]}
		return formed(&moved), nil
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	out := *v
	out.view = v.view.transposed(own)
	return &out, nil
}
