package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// shapesElsewhere has the kinds of nodes that only ONNX Runtime computes, in a frozen part: the shape of a record that each
// gives. What would reach across records is refused there too.
var shapesElsewhere map[string]func(c *call) ([]int, *Refusal)

func init() { // rows read values that other rows made
	shapesElsewhere = map[string]func(c *call) ([]int, *Refusal){
		"Softmax": alongAxis, "LogSoftmax": alongAxis, "Hardmax": alongAxis, "LpNormalization": alongAxis,
		"ReduceMean": reducedShape, "ReduceMax": reducedShape, "ReduceMin": reducedShape, "ReduceSum": reducedShape,
		"ReduceL2": reducedShape, "ReduceL1": reducedShape, "ReduceProd": reducedShape, "ReduceSumSquare": reducedShape,
		"MatMul": matrices, "Slice": slicedShape,
	}
	for _, kind := range []string{"Abs", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Log", "LRN", "Mish",
		"Neg", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Swish", "ThresholdedRelu"} {
		shapesElsewhere[kind] = sameElsewhere
	}
	for _, kind := range []string{"Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min"} {
		shapesElsewhere[kind] = broadcast
	}
}

// otherActivations are kinds that networks have in the place of an activation that is trained here.
var otherActivations = []string{"Celu", "Clip", "Elu", "HardSigmoid", "HardSwish", "Mish", "PRelu", "Selu", "Softplus", "Softsign", "Swish", "ThresholdedRelu"}

// acrossRecords says of kinds that are never known which axis they work along, 0 where a node does not say.
var acrossRecords = map[string]string{
	"Gather": "picks", "GatherElements": "picks", "Split": "splits", "ArgMax": "takes the largest", "ArgMin": "takes the smallest", "TopK": "takes the largest",
	"CumSum": "sums", "Compress": "picks", "ScatterElements": "moves values",
}

// elsewhere leaves a node to ONNX Runtime in a frozen part, and refuses it in one that is trained.
func (c *call) elsewhere() (*value, *Refusal) {
	f := shapesElsewhere[kindOf(c.node)]
	if f == nil {
		if what := acrossRecords[kindOf(c.node)]; what != "" {
			return c.along(c.int("axis", 0), what)
		}
		return c.elsewhereOf(nil, "is no operation that is known here")
	}
	shape, r := f(c)
	if r != nil {
		return nil, r
	}
	switch kind := kindOf(c.node); {
	case kind == "Mul":
		return c.elsewhereOr(shape, "use ReLU or GELU"+orFreeze, "multiplies two values, as SiLU and squeeze-and-excitation do, which is not trained here")
	case slices.Contains(otherActivations, kind):
		return c.elsewhereOr(shape, "use Relu, LeakyRelu, Tanh, Sigmoid or Gelu"+orFreeze, "is no activation that is trained here")
	}
	return c.elsewhereOf(shape, "is no operation that is trained here")
}

// along refuses what works along an axis.
func (c *call) along(axis int, what string) (*value, *Refusal) {
	if x := c.in[0]; axis < 0 {
		axis += len(x.shape()) + 1
	}
	if axis == 0 {
		return nil, c.crossing(what)
	}
	return c.elsewhereOf(nil, "is no operation that is known here")
}

// elsewhereOf does the same for a node that gives records of a shape; nil where that is not known.
func (c *call) elsewhereOf(shape []int, why string) (*value, *Refusal) {
	return c.elsewhereOr(shape, freezeIt, why)
}

// elsewhereOr is elsewhereOf with what else to do.
func (c *call) elsewhereOr(shape []int, do, why string) (*value, *Refusal) {
	switch n, ok := strides.Count(shape); {
	case shape == nil && c.role == fixed:
		return nil, c.refuse("freeze up to a node before it", "%s, and the shape that it gives is not known", why)
	case shape == nil:
		return nil, c.refuse(do, "%s", why)
	case !ok || n > strides.Most:
		return nil, c.refuse("make it smaller", "gives records of shape %v, which are too large", shape)
	case c.role == fixed:
		c.needs[kindOf(c.node)] = true
		return c.standIn(shape), nil
	}
	return c.standIn(shape), c.refuse(do, "%s", why)
}

// standIn takes the place of a node that the program cannot say, so that the nodes behind it have something to read. The
// program is not used.
func (c *call) standIn(shape []int) *value {
	return c.emit(ir.Op{Kind: ir.ReLU, Shape: planShape(shape), Out: planShape(shape)}, strides.Of(shape), &value{})
}

func sameElsewhere(c *call) ([]int, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	for _, in := range c.in[1:] { // such as the bounds of a Clip
		if in != nil && in.known == nil {
			return nil, c.refuse(freezeIt, "works with numbers that follow from what records become")
		}
	}
	return v.view.Shape, nil
}

// axisOf is the axis that a node works along, which may not be that of the records.
func (c *call) axisOf(shape []int, usual int, what string) (int, *Refusal) {
	axis, rank := c.int("axis", usual), len(shape)+1
	if axis < 0 {
		axis += rank
	}
	switch {
	case axis == 0:
		return 0, c.crossing(what)
	case axis < 0 || axis >= rank:
		return 0, c.refuse(exportAgain, "names axis %d of %d", axis, rank)
	}
	return axis, nil
}

func alongAxis(c *call) ([]int, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	_, r = c.axisOf(v.view.Shape, -1, "normalizes")
	return v.view.Shape, r
}

func reducedShape(c *call) ([]int, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	axes, r := c.axes(1, len(v.view.Shape)+1, nil)
	if r != nil {
		return nil, r
	}
	if axes == nil || slices.Contains(axes, 0) {
		return nil, c.crossing("reduces")
	}
	return c.reduced(v.view.Shape, axes, c.int("keepdims", 1) != 0), nil
}

// slicedShape is that of a Slice by whole steps forward.
func slicedShape(c *call) ([]int, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	starts, r := c.numbers(1)
	if r != nil {
		return nil, r
	}
	ends, r := c.numbers(2)
	if r != nil {
		return nil, r
	}
	axes, r := c.axes(3, len(v.view.Shape)+1, fold.UpTo(len(starts)))
	if r != nil {
		return nil, r
	}
	steps := slices.Repeat([]int{1}, len(starts))
	if c.at(4) != nil {
		if steps, r = c.numbers(4); r != nil {
			return nil, r
		}
	}
	if slices.Contains(axes, 0) {
		return nil, c.crossing("cuts")
	}
	shape := slices.Clone(v.view.Shape)
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		return nil, c.refuse(exportAgain, "has %d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	for i, a := range axes {
		if a > len(shape) || steps[i] < 1 {
			return nil, c.refuse(exportAgain, "cuts axis %d by steps of %d", a, steps[i])
		}
		n := shape[a-1]
		bound := func(v int) int {
			if v < 0 {
				v += n
			}
			return min(max(v, 0), n)
		}
		if shape[a-1] = ceiling(bound(ends[i])-bound(starts[i]), min(steps[i], n)); shape[a-1] < 1 {
			return nil, c.refuse(exportAgain, "leaves nothing of axis %d", a)
		}
	}
	return shape, nil
}

// broadcast is the shape of two values, or more, that repeat along each other's axes.
func broadcast(c *call) ([]int, *Refusal) {
	var shape []int
	for i, v := range c.in {
		if v == nil || v.known != nil {
			continue
		}
		v, r := c.activation(i)
		if r != nil {
			return nil, r
		}
		s := v.view.Shape
		if shape == nil {
			shape = slices.Clone(s)
		}
		if len(s) != len(shape) {
			return nil, c.crossing("computes with values of different axes")
		}
		for a, n := range s {
			if n != shape[a] && n != 1 && shape[a] != 1 {
				return nil, c.refuse(exportAgain, "computes with records of shapes %v and %v", shape, s)
			}
			shape[a] = max(shape[a], n)
		}
	}
	for _, v := range c.in {
		if v != nil && v.known != nil {
			if _, r := c.repeats(v.known, shape); r != nil {
				return nil, r
			}
		}
	}
	return shape, nil
}

// matrices is the shape of a product of the last two axes of records, one product for each of their other axes.
func matrices(c *call) ([]int, *Refusal) {
	x, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	y, r := c.activation(1)
	if r != nil {
		return nil, r
	}
	a, b := x.view.Shape, y.view.Shape
	n := len(a)
	if n != len(b) || n < 2 {
		return nil, c.crossing("multiplies what records become, and sums or pairs them")
	}
	if !slices.Equal(a[:n-2], b[:n-2]) || a[n-1] != b[n-2] {
		return nil, c.refuse(exportAgain, "multiplies records of shapes %v and %v", a, b)
	}
	return append(slices.Clone(a[:n-1]), b[n-1]), nil
}

// concat joins records along an axis: in a frozen part.
func concat(c *call) (*value, *Refusal) {
	known := 0
	for _, v := range c.in {
		if v == nil || v.known != nil {
			known++
		}
	}
	if known > 0 {
		return c.elsewhereOf(nil, "joins constants to what records become")
	}
	if v := c.pair(); v != nil {
		return v, nil
	}
	var parts []*value
	var shape []int
	axis := 0
	for i := range c.in {
		v, r := c.activation(i)
		if r != nil {
			return nil, r
		}
		s := v.view.Shape
		if i == 0 {
			shape = slices.Clone(s)
			if axis, r = c.axisOf(shape, 0, "joins values"); r != nil {
				return nil, r
			}
		} else {
			if len(s) != len(shape) {
				return nil, c.refuse(exportAgain, "joins records of shapes %v and %v", shape, s)
			}
			shape[axis-1] += s[axis-1]
			for a, n := range s {
				if a != axis-1 && n != shape[a] {
					return nil, c.refuse(exportAgain, "joins records of shapes %v and %v", shape, s)
				}
			}
		}
		parts = append(parts, v)
	}
	if _, ok := strides.Count(shape); !ok || c.role == trained || len(parts) < 2 {
		return c.elsewhereOf(shape, "joins values, which has no gradient here")
	}
	for i, v := range parts {
		var r *Refusal
		if parts[i], r = c.flat(v); r != nil {
			return nil, r
		}
	}
	groups, _ := strides.Count(shape[:axis-1])
	out := planShape(shape)
	return c.emit(ir.Op{Kind: ir.Concat, Shape: out, Out: out, Groups: groups}, strides.Of(shape), parts...), nil
}
