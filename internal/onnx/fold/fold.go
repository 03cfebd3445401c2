package fold

import (
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// A Folder computes constants.
type Folder struct {
	Left int // elements that may still be made; what takes more is an error
}

// A call is a node with what it reads, nil for what is left out.
type call struct {
	*Folder
	node *file.Node
	in   []*Constant
}

// A rule computes a kind of node, which must have so many inputs.
type rule struct {
	inputs  int
	compute func(c *call) (*Constant, error)
}

// rules has every kind that is folded.
var rules = map[string]rule{
	"Constant":        {0, constant},
	"ConstantOfShape": {1, filled},
	"Expand":          {2, expand},
	"Shape":           {1, func(c *call) (*Constant, error) { return Shape(c.node, dims(c.in[0].Shape)), nil }},
	"Identity":        {1, same},
	"Dropout":         {1, same},
	"Cast":            {1, cast},
	"CastLike":        {2, cast},
	"Reshape":         {2, reshape},
	"Squeeze":         {1, squeeze},
	"Unsqueeze":       {2, unsqueeze},
	"Transpose":       {1, transpose},
	"Gather":          {2, gather},
	"Slice":           {3, slice},
	"Concat":          {1, concat},
	"Range":           {3, ranged},
	"Add":             {2, arithmetic},
	"Sub":             {2, arithmetic},
	"Mul":             {2, arithmetic},
	"Div":             {2, arithmetic},
}

// Node computes a node of which all inputs are constants; nil stands for one that is left out. An error is an *Error.
func (f *Folder) Node(n *file.Node, in []*Constant) (*Constant, error) {
	r, ok := rules[n.Kind]
	if !ok || n.Domain != "" && n.Domain != "ai.onnx" {
		return nil, unknown
	}
	for i := range r.inputs {
		if i >= len(in) || in[i] == nil {
			return nil, &Error{"misses an input", exportAgain}
		}
	}
	return r.compute(&call{f, n, in})
}

var unknown = &Error{"computes a constant by an operation that is not folded here", simplify}

// Take says that so many elements are made.
func (f *Folder) Take(n int) error {
	if n < 0 || n > f.Left {
		return &Error{"computes constants of more elements than the file holds", simplify}
	}
	f.Left -= n
	return nil
}

// at is input i, nil where it is left out.
func (c *call) at(i int) *Constant {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

func same(c *call) (*Constant, error) { return c.in[0], nil }

// Shape is what a Shape node gives of a shape.
func Shape(n *file.Node, list []Dim) *Constant {
	bound := func(name string, usual int) int {
		v := Int(n, name, usual)
		if v < 0 {
			v += len(list)
		}
		return min(max(v, 0), len(list))
	}
	first, end := bound("start", 0), bound("end", len(list))
	list = list[min(first, end):end]
	return Numbers([]int{len(list)}, list)
}

func dims(shape []int) []Dim {
	list := make([]Dim, len(shape))
	for i, n := range shape {
		list[i].N = int64(n)
	}
	return list
}

func constant(c *call) (*Constant, error) {
	root := c.node.Name
	if root == "" && len(c.node.Outputs) > 0 {
		root = c.node.Outputs[0]
	}
	for name, a := range c.node.Attributes {
		switch {
		case name == "value" && a.Tensor != nil:
			return Of(a.Tensor, root), nil
		case name == "value_float":
			return &Constant{Shape: []int{}, Roots: []string{root}, floats: []float32{a.Float}}, nil
		case name == "value_floats":
			return &Constant{Shape: []int{len(a.Floats)}, Roots: []string{root}, floats: a.Floats}, nil
		case name == "value_int":
			return Numbers([]int{}, []Dim{{N: a.Int}}), nil
		case name == "value_ints":
			list := make([]Dim, len(a.Ints))
			for i, v := range a.Ints {
				list[i].N = v
			}
			return Numbers([]int{len(list)}, list), nil
		}
	}
	return nil, &Error{"holds no number", exportAgain}
}

func filled(c *call) (*Constant, error) {
	of := &Constant{Shape: []int{}, floats: []float32{0}}
	if t := c.node.Attributes["value"].Tensor; t != nil {
		of = Of(t, "")
		of.Roots = nil
	}
	return c.repeated(of, c.in[0])
}

func expand(c *call) (*Constant, error) { return c.repeated(c.in[0], c.in[1]) }

// repeated fills a shape with one number.
func (c *call) repeated(of, shape *Constant) (*Constant, error) {
	list, err := Whole(shape, "its shape")
	if err != nil {
		return nil, err
	}
	n, ok := strides.Count(list)
	if !ok || of.Size() != 1 || of.Read() != nil {
		return nil, unknown
	}
	if err := c.Take(n); err != nil {
		return nil, err
	}
	return of.picked(list, make([]int, n)), nil
}

func cast(c *call) (*Constant, error) {
	k, to := c.in[0], file.ElementType(Int(c.node, "to", int(file.Float32)))
	whole := !to.IsFloating()
	if c.node.Kind == "CastLike" {
		whole = c.in[1].Whole
	} else if whole && !to.IsWhole() {
		return nil, unknown
	}
	if k.Whole == whole {
		return k, nil
	}
	if err := c.Take(k.Size()); err != nil {
		return nil, err
	}
	if err := k.Read(); err != nil {
		return nil, &Error{err.Error(), exportAgain}
	}
	out := &Constant{Shape: k.Shape, Roots: k.Roots, Whole: whole}
	for _, v := range k.floats {
		if !(v >= -strides.Most && v <= strides.Most) {
			return nil, &Error{"makes a whole number of one that is too large", exportAgain}
		}
		out.Dims = append(out.Dims, Dim{N: int64(v)})
	}
	for _, d := range k.Dims {
		if !whole && d.Records != 0 {
			return nil, &Error{"computes with the number of records as a floating-point number", fixedSizes}
		}
		if !whole {
			out.floats = append(out.floats, float32(d.N))
		}
	}
	return out, nil
}

// ranged is a Range of whole numbers.
func ranged(c *call) (*Constant, error) {
	var of [3]int
	for i := range of {
		list, err := Whole(c.in[i], "its bounds")
		if err != nil {
			return nil, err
		}
		if len(list) != 1 || list[0] > strides.Most || list[0] < -strides.Most {
			return nil, unknown
		}
		of[i] = list[0]
	}
	var list []Dim
	for v := of[0]; of[2] > 0 && v < of[1] || of[2] < 0 && v > of[1]; v += of[2] {
		if err := c.Take(1); err != nil {
			return nil, err
		}
		list = append(list, Dim{N: int64(v)})
	}
	return Numbers([]int{len(list)}, list), nil
}

// arithmetic computes with two constants of one shape, or with one and a number.
func arithmetic(c *call) (*Constant, error) {
	x, y := c.in[0], c.in[1]
	shape := x.Shape
	if x.Size() == 1 && len(y.Shape) >= len(x.Shape) {
		shape = y.Shape
	}
	n, ok := strides.Count(shape)
	if !ok || x.Whole != y.Whole || x.Size() != 1 && y.Size() != 1 && !slices.Equal(x.Shape, y.Shape) || max(x.Size(), y.Size()) != n || min(x.Size(), y.Size()) < 1 {
		return nil, unknown
	}
	if err := c.Take(n); err != nil {
		return nil, err
	}
	if x.Read() != nil || y.Read() != nil {
		return nil, &Error{"reads a constant that cannot be read", exportAgain}
	}
	out := &Constant{Shape: shape, Roots: slices.Concat(x.Roots, y.Roots), Whole: x.Whole}
	for i := range n {
		a, b := i%x.Size(), i%y.Size()
		if !x.Whole {
			out.floats = append(out.floats, ofFloats(c.node.Kind, x.floats[a], y.floats[b]))
			continue
		}
		d, ok := ofDims(c.node.Kind, x.Dims[a], y.Dims[b])
		if !ok {
			return nil, &Error{"computes with the number of records, or with numbers that are too large", fixedSizes}
		}
		out.Dims = append(out.Dims, d)
	}
	return out, nil
}

func ofFloats(kind string, a, b float32) float32 {
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

// ofDims computes with whole numbers; it is false where what comes out is none that is known, or may be too large.
func ofDims(kind string, a, b Dim) (Dim, bool) {
	for _, v := range [...]int64{a.N, a.Records, b.N, b.Records} {
		if v > strides.Most || v < -strides.Most {
			return Dim{}, false
		}
	}
	switch kind {
	case "Add":
		return Dim{a.N + b.N, a.Records + b.Records}, true
	case "Sub":
		return Dim{a.N - b.N, a.Records - b.Records}, true
	case "Mul":
		return Dim{a.N * b.N, a.N*b.Records + b.N*a.Records}, a.Records == 0 || b.Records == 0
	}
	if b.Records != 0 || b.N == 0 || a.Records%b.N != 0 || a.Records != 0 && a.N%b.N != 0 {
		return Dim{}, false
	}
	return Dim{a.N / b.N, a.Records / b.N}, true
}
