package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// mayFold takes so many elements from what folding may make.
func (c *call) mayFold(n int) *Refusal {
	if n < 0 || n > c.folded {
		return c.refuse("simplify the graph, for example with onnxsim, and "+exportAgain, "computes constants of more elements than the file holds")
	}
	c.folded -= n
	return nil
}

// foldShape gives a constant another shape.
func (c *call) foldShape(k *constant, shape []int) (*value, *Refusal) {
	n, ok := count(shape)
	if m, had := count(k.shape); ok != had || n != m {
		return nil, c.refuse(exportAgain, "makes a constant of shape %v to %v", k.shape, shape)
	}
	return &value{known: k.reshaped(shape)}, nil
}

func (c *call) foldReshape(to []dim) (*value, *Refusal) {
	k := c.in[0].known
	size, shape, open := k.size(), make([]int, len(to)), -1
	for i, d := range to {
		switch {
		case d.records != 0:
			return nil, c.refuse(exportAgain, "makes a constant as long as there are records")
		case d.n == 0 && i < len(k.shape):
			shape[i] = k.shape[i]
		case d.n == -1 && open < 0:
			open, shape[i] = i, 1
		case d.n < 1 || d.n > most:
			return nil, c.refuse(exportAgain, "has the shape %s", dims(to))
		default:
			shape[i] = int(d.n)
		}
	}
	if n, ok := count(shape); open >= 0 && ok && size%n == 0 {
		shape[open] = size / n
	}
	return c.foldShape(k, shape)
}

// constantNode is a Constant.
func constantNode(c *call) (*value, *Refusal) {
	root := nameOf(c.node)
	for name, a := range c.node.Attributes {
		n := len(a.Floats)
		switch {
		case name == "value" && a.Tensor != nil:
			return &value{known: constantOf(a.Tensor, root)}, nil
		case name == "value_float":
			return &value{known: &constant{shape: []int{}, roots: []string{root}, floats: []float32{a.Float}}}, nil
		case name == "value_floats":
			return &value{known: &constant{shape: []int{n}, roots: []string{root}, floats: a.Floats}}, nil
		case name == "value_int":
			return &value{known: wholes([]int{}, []dim{{n: a.Int}})}, nil
		case name == "value_ints":
			list := make([]dim, len(a.Ints))
			for i, v := range a.Ints {
				list[i].n = v
			}
			return &value{known: wholes([]int{len(list)}, list)}, nil
		}
	}
	return nil, c.refuse(exportAgain, "holds no number")
}

// shapeOf is a Shape: of what records become it begins by their number.
func shapeOf(c *call) (*value, *Refusal) {
	list := []dim{{0, 1}}
	shape := c.in[0].shape()
	if k := c.in[0].known; k != nil {
		list, shape = nil, k.shape
	}
	for _, n := range shape {
		list = append(list, dim{n: int64(n)})
	}
	bound := func(name string, usual int) int {
		n := c.int(name, usual)
		if n < 0 {
			n += len(list)
		}
		return min(max(n, 0), len(list))
	}
	first, end := bound("start", 0), bound("end", len(list))
	list = list[min(first, end):end]
	return &value{known: wholes([]int{len(list)}, list)}, nil
}

// gather picks elements of a list of constants.
func gather(c *call) (*value, *Refusal) {
	k := c.in[0].known
	axis := c.int("axis", 0)
	if k == nil {
		return c.along(axis, "picks")
	}
	places, r := c.numbers(1)
	if r != nil {
		return nil, r
	}
	if len(k.shape) != 1 || axis != 0 && axis != -1 || !k.whole {
		return c.unknown()
	}
	if r := c.mayFold(len(places)); r != nil {
		return nil, r
	}
	out := wholes(c.in[1].known.shape, nil)
	for _, p := range places {
		if p < 0 {
			p += len(k.dims)
		}
		if p < 0 || p >= len(k.dims) {
			return nil, c.refuse(exportAgain, "picks element %d of %d", p, len(k.dims))
		}
		out.dims = append(out.dims, k.dims[p])
	}
	return &value{known: out}, nil
}

// slice cuts a constant along axes, forwards or backwards.
func slice(c *call) (*value, *Refusal) {
	k := c.in[0].known
	if k == nil {
		return c.elsewhere()
	}
	rank := len(k.shape)
	if k.size() == 0 {
		return c.unknown()
	}
	var of [4][]int // starts, ends, axes, steps
	var r *Refusal
	for _, i := range []int{0, 1, 3} {
		if of[i] = slices.Repeat([]int{1}, len(of[0])); i < 3 || c.at(4) != nil {
			if of[i], r = c.numbers(i + 1); r != nil {
				return nil, r
			}
		}
	}
	if of[2], r = c.axesOr(3, rank, upTo(len(of[0]))); r != nil {
		return nil, r
	}
	taken := make([][]int, rank) // of each axis
	for a, n := range k.shape {
		taken[a] = upTo(n)
	}
	for i, a := range of[2] {
		if a >= rank || i >= min(len(of[0]), len(of[1]), len(of[3])) || of[3][i] == 0 {
			return c.unknown()
		}
		taken[a] = cut(k.shape[a], of[0][i], of[1][i], of[3][i])
	}
	out := &constant{roots: k.roots, whole: k.whole, shape: []int{}}
	places := []int{0}
	for a, list := range taken {
		if len(list) == 0 {
			return c.unknown()
		}
		if r := c.mayFold(len(places) * len(list)); r != nil {
			return nil, r
		}
		var next []int
		for _, p := range places {
			for _, i := range list {
				next = append(next, p*k.shape[a]+i)
			}
		}
		out.shape, places = append(out.shape, len(list)), next
	}
	if err := k.read(); err != nil {
		return nil, c.refuse(exportAgain, "%v", err)
	}
	for _, p := range places {
		if k.whole {
			out.dims = append(out.dims, k.dims[p])
		} else {
			out.floats = append(out.floats, k.floats[p])
		}
	}
	return &value{known: out}, nil
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

// foldConcat joins lists of constants.
func (c *call) foldConcat() (*value, *Refusal) {
	out := wholes(nil, nil)
	for _, v := range c.in {
		if v == nil || v.known == nil || !v.known.whole || len(v.known.shape) != 1 {
			return c.unknown()
		}
		if r := c.mayFold(len(v.known.dims)); r != nil {
			return nil, r
		}
		out.dims = append(out.dims, v.known.dims...)
	}
	out.shape = []int{len(out.dims)}
	return &value{known: out}, nil
}

// filled is a ConstantOfShape, or an Expand of one number.
func filled(c *call) (*value, *Refusal) {
	of, shape := &constant{shape: []int{}, floats: []float32{0}}, c.in[0].known
	if t := c.node.Attributes["value"].Tensor; t != nil {
		of = constantOf(t, "")
		of.roots = nil
	}
	if c.node.Kind == "Expand" {
		if of, shape = c.in[0].known, c.in[1].known; of == nil {
			return c.elsewhere()
		}
	}
	list, r := c.lengths(shape)
	if r != nil {
		return nil, r
	}
	n, ok := count(list)
	if err := of.read(); err != nil || of.size() != 1 || !ok {
		return c.unknown()
	}
	if r := c.mayFold(n); r != nil {
		return nil, r
	}
	out := &constant{shape: list, roots: of.roots, whole: of.whole}
	if of.whole {
		out.dims = slices.Repeat(of.dims, n)
	} else {
		out.floats = slices.Repeat(of.floats, n)
	}
	return &value{known: out}, nil
}

// lengths are those of a shape that does not depend on the number of records.
func (c *call) lengths(k *constant) ([]int, *Refusal) {
	if k == nil || !k.whole || len(k.shape) > 1 {
		return nil, c.refuse(exportAgain+" with fixed sizes", "gets a shape that is no constant")
	}
	list := []int{}
	for _, d := range k.dims {
		if d.records != 0 || d.n < 1 || d.n > most {
			return nil, c.refuse(exportAgain+" with fixed sizes", "makes a constant of shape %s", dims(k.dims))
		}
		list = append(list, int(d.n))
	}
	return list, nil
}

// ranged is a Range of whole numbers.
func ranged(c *call) (*value, *Refusal) {
	var of [3]int
	for i := range of {
		list, r := c.numbers(i)
		if r != nil {
			return nil, r
		}
		if len(list) != 1 {
			return c.unknown()
		}
		of[i] = list[0]
	}
	var list []dim
	if of[2] == 0 {
		return c.unknown()
	}
	for v := of[0]; of[2] > 0 && v < of[1] || of[2] < 0 && v > of[1]; v += of[2] {
		if r := c.mayFold(1); r != nil {
			return nil, r
		}
		list = append(list, dim{n: int64(v)})
	}
	return &value{known: wholes([]int{len(list)}, list)}, nil
}

// foldArithmetic computes with two constants, of which one may be a number that repeats.
func (c *call) foldArithmetic() (*value, *Refusal) {
	x, y := c.in[0].known, c.in[1].known
	shape := x.shape
	if x.size() == 1 && len(y.shape) >= len(x.shape) {
		shape = y.shape
	}
	n, ok := count(shape)
	if x.whole != y.whole || !ok || x.size() != 1 && x.size() != n || y.size() != 1 && y.size() != n || y.size() == n && x.size() == n && !slices.Equal(x.shape, y.shape) && n != 1 {
		return c.unknown()
	}
	if r := c.mayFold(n); r != nil {
		return nil, r
	}
	if x.read() != nil || y.read() != nil {
		return nil, c.refuse(exportAgain, "reads a constant that cannot be read")
	}
	out := &constant{shape: shape, roots: slices.Concat(x.roots, y.roots), whole: x.whole}
	for i := range n {
		a, b := i%x.size(), i%y.size()
		if !x.whole {
			out.floats = append(out.floats, arithmetic(c.node.Kind, x.floats[a], y.floats[b]))
			continue
		}
		d, ok := dimArithmetic(c.node.Kind, x.dims[a], y.dims[b])
		if !ok {
			return nil, c.refuse(exportAgain+" with fixed sizes", "computes with the number of records")
		}
		out.dims = append(out.dims, d)
	}
	return &value{known: out}, nil
}

func arithmetic(kind string, a, b float32) float32 {
	switch kind {
	case "Add":
		return a + b
	case "Sub":
		return a - b
	case "Mul":
		return a * b
	}
	return a / b
}

// dimArithmetic computes with whole numbers; it is false where what comes out is none that is known, or too large.
func dimArithmetic(kind string, a, b dim) (dim, bool) {
	for _, v := range [...]int64{a.n, a.records, b.n, b.records} {
		if v > most || v < -most {
			return dim{}, false
		}
	}
	switch kind {
	case "Add":
		return dim{a.n + b.n, a.records + b.records}, true
	case "Sub":
		return dim{a.n - b.n, a.records - b.records}, true
	case "Mul":
		return dim{a.n * b.n, a.n*b.records + b.n*a.records}, a.records == 0 || b.records == 0
	}
	if b.records != 0 || b.n == 0 || a.records%b.n != 0 || a.records != 0 && a.n%b.n != 0 {
		return dim{}, false
	}
	return dim{a.n / b.n, a.records / b.n}, true
}

// scalar is a constant of one number.
func (c *call) scalar(v *value) (float64, bool) {
	k := v.known
	if k == nil || k.size() != 1 || k.read() != nil {
		return 0, false
	}
	if k.whole {
		return float64(k.dims[0].n), k.dims[0].records == 0
	}
	return float64(k.floats[0]), true
}

// version is that of the standard operator set.
func version(m *file.Model) int {
	if v, ok := m.Opsets[""]; ok {
		return v
	}
	return m.Opsets["ai.onnx"]
}
