package fold

import (
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// shaped gives a constant another shape of as many elements.
func (k *Constant) shaped(shape []int) (*Constant, error) {
	n, ok := strides.Count(shape)
	if m, had := strides.Count(k.Shape); ok != had || n != m {
		return nil, &Error{"gives a constant a shape of another size", exportAgain}
	}
	out := *k
	out.Shape = shape
	return &out, nil
}

func reshape(c *call) (*Constant, error) {
	list, err := Whole(c.in[1], "its shape")
	if err != nil {
		return nil, err
	}
	k := c.in[0]
	shape, open := slices.Clone(list), -1
	for i, n := range list {
		switch {
		case n == 0 && i < len(k.Shape) && Int(c.node, "allowzero", 0) == 0:
			shape[i] = k.Shape[i]
		case n == -1 && open < 0:
			open, shape[i] = i, 1
		}
	}
	if n, ok := strides.Count(shape); open >= 0 && ok && k.Size()%n == 0 {
		shape[open] = k.Size() / n
	}
	return k.shaped(shape)
}

func squeeze(c *call) (*Constant, error) {
	k := c.in[0]
	axes, err := Axes(c.node, c.at(1), len(k.Shape), nil)
	if err != nil {
		return nil, err
	}
	shape := []int{}
	for a, n := range k.Shape {
		if !(slices.Contains(axes, a) || axes == nil && n == 1) {
			shape = append(shape, n)
		}
	}
	return k.shaped(shape)
}

func unsqueeze(c *call) (*Constant, error) {
	shape, _, err := Unsqueezed(c.in[0].Shape, c.in[1])
	if err != nil {
		return nil, err
	}
	return c.in[0].shaped(shape)
}

// Unsqueezed is a shape with further axes of length 1, and which these are.
func Unsqueezed(shape []int, axes *Constant) (out, places []int, err error) {
	list, err := Whole(axes, "its axes")
	if err != nil {
		return nil, nil, err
	}
	rank := len(shape) + len(list)
	for _, a := range list {
		if a < 0 {
			a += rank
		}
		if a < 0 || a >= rank || slices.Contains(places, a) {
			return nil, nil, &Error{"names an axis that is not there, or one twice", exportAgain}
		}
		places = append(places, a)
	}
	for a := range rank {
		if slices.Contains(places, a) {
			out = append(out, 1)
			continue
		}
		out, shape = append(out, shape[0]), shape[1:]
	}
	return out, places, nil
}

func transpose(c *call) (*Constant, error) {
	k := c.in[0]
	order, err := Order(c.node, len(k.Shape))
	if err != nil {
		return nil, err
	}
	if err := c.Take(k.Size()); err != nil {
		return nil, err
	}
	if k.Size() == 0 || k.Read() != nil {
		return nil, unknown
	}
	v := strides.Of(k.Shape).Transposed(order)
	places := make([]int, 0, v.Size())
	for _, p := range v.Places() {
		places = append(places, int(p))
	}
	return k.picked(v.Shape, places), nil
}

// gather picks elements of a list.
func gather(c *call) (*Constant, error) {
	k := c.in[0]
	places, err := Whole(c.in[1], "what it picks")
	if err != nil {
		return nil, err
	}
	if axis := Int(c.node, "axis", 0); len(k.Shape) != 1 || axis != 0 && axis != -1 || k.Read() != nil {
		return nil, unknown
	}
	if err := c.Take(len(places)); err != nil {
		return nil, err
	}
	places = slices.Clone(places)
	for i, p := range places {
		if p < 0 {
			places[i] += k.Shape[0]
		}
		if places[i] < 0 || places[i] >= k.Shape[0] {
			return nil, &Error{"picks an element that is not there", exportAgain}
		}
	}
	return k.picked(c.in[1].Shape, places), nil
}

// slice cuts a constant along axes, forwards or backwards.
func slice(c *call) (*Constant, error) {
	k := c.in[0]
	if k.Size() == 0 || k.Read() != nil {
		return nil, unknown
	}
	var of [4][]int // starts, ends, axes, steps
	var err error
	for _, i := range []int{0, 1, 3} {
		if of[i] = slices.Repeat([]int{1}, len(of[0])); i < 3 || c.at(4) != nil {
			if of[i], err = Whole(c.at(i+1), "where it cuts"); err != nil {
				return nil, err
			}
		}
	}
	if of[2], err = Axes(c.node, c.at(3), len(k.Shape), UpTo(len(of[0]))); err != nil {
		return nil, err
	}
	taken := make([][]int, len(k.Shape)) // of each axis
	for a, n := range k.Shape {
		taken[a] = UpTo(n)
	}
	for i, a := range of[2] {
		if a >= len(taken) || i >= min(len(of[0]), len(of[1]), len(of[3])) || of[3][i] == 0 {
			return nil, unknown
		}
		taken[a] = cut(k.Shape[a], of[0][i], of[1][i], of[3][i])
	}
	shape, places := []int{}, []int{0}
	for a, list := range taken {
		if err := c.Take(len(places) * len(list)); err != nil {
			return nil, err
		}
		var next []int
		for _, p := range places {
			for _, i := range list {
				next = append(next, p*k.Shape[a]+i)
			}
		}
		shape, places = append(shape, len(list)), next
	}
	return k.picked(shape, places), nil
}

// cut lists the places of an axis of length n from start to end, by steps.
func cut(n, start, end, step int) (list []int) {
	bound := func(v int) int {
		if v < 0 {
			v += n
		}
		if step < 0 {
			return min(max(v, -1), n-1)
		}
		return min(max(v, 0), n)
	}
	i, last := bound(start), bound(end)
	step = min(max(step, -n-1), n+1) // so that no place overflows
	for ; step > 0 && i < last || step < 0 && i > last; i += step {
		list = append(list, i)
	}
	return list
}

// concat joins lists.
func concat(c *call) (*Constant, error) {
	out := &Constant{Whole: c.in[0].Whole}
	for _, k := range c.in {
		if k == nil || len(k.Shape) != 1 || k.Whole != out.Whole || k.Read() != nil {
			return nil, unknown
		}
		if err := c.Take(len(k.Dims) + len(k.floats)); err != nil {
			return nil, err
		}
		out.Roots = append(out.Roots, k.Roots...)
		out.Dims, out.floats = append(out.Dims, k.Dims...), append(out.floats, k.floats...)
	}
	out.Shape = []int{len(out.Dims) + len(out.floats)}
	return out, nil
}
