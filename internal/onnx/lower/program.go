package lower

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
	"github.com/privgrad/privgrad/nn"
)

// A program in the making.
type program struct {
	shape  []int // of its input
	layers []layer
}

// A layer is an op with what becomes of its parameters.
type layer struct {
	op           ir.Op
	node         *file.Node
	weight, bias *slot
}

// A slot is a parameter, or a constant in a frozen part.
type slot struct {
	shape  []int
	root   string    // the initializer that it comes from; empty: none
	inFile string    // what it is called there, which no other parameter is
	moved  bool      // its numbers are in another order than those of that name, or others
	values []float32 // of the file; nil: fresh ones
	fill   fill
	open   bool // a node behind the op may still say what it is
}

// A fill is what a parameter is at first, unless it is the file's.
type fill uint8

const (
	zeros fill = iota
	ones
	drawn // from the seed
)

// emit adds an op that reads values and gives one with a view.
func (c *call) emit(op ir.Op, out strides.View, in ...*value) *value {
	v := &value{view: out, alone: true}
	for _, x := range in {
		op.In = append(op.In, x.at)
		v.trained = v.trained || x.trained
	}
	op.Weight, op.Bias = ir.None, ir.None
	c.layers = append(c.layers, layer{op: op, node: c.node})
	v.at = ir.Value(len(c.layers))
	return v
}

// last is the layer that computed a value.
func (l *lowerer) of(v *value) *layer {
	if v.at == ir.Input {
		return nil
	}
	return &l.layers[v.at-1]
}

// parameters gives the op that made v its parameters.
func (c *call) parameters(v *value, weight, bias *slot) *value {
	l := c.of(v)
	l.weight, l.bias = weight, bias
	v.trained = v.trained || c.role == trained
	return v
}

// slot makes a parameter of a constant; change, if any, gets the file's numbers and gives those of the parameter.
func (c *call) slot(k *fold.Constant, shape []int, f fill, change func([]float32) []float32) (*slot, *Refusal) {
	s := &slot{shape: shape, fill: f}
	if len(k.Roots) > 0 {
		s.root = k.Roots[0]
	}
	if r := c.claim(k, f); r != nil {
		return nil, r
	}
	if c.role == trained && c.choices.Weights == Fresh {
		return s, nil
	}
	list, r := c.floats(k)
	if r != nil {
		return nil, r
	}
	if change != nil {
		list = change(list)
	}
	s.values = list
	return s, nil
}

// floats are a constant's numbers.
func (c *call) floats(k *fold.Constant) ([]float32, *Refusal) {
	list, err := k.Floats()
	if err != nil {
		return nil, c.refuse("get the whole file, with what lies beside it, or export it with floating-point weights", "has a constant that cannot be used: %v", err)
	}
	return list, nil
}

// claim says that a constant is a parameter of the node, and of no other. Biases and the weights of normalizations may share an
// initializer whose numbers are all equal: exporters write such numbers once.
func (c *call) claim(k *fold.Constant, f fill) *Refusal {
	if c.role == fixed {
		return nil
	}
	for _, root := range k.Roots {
		other := c.used[root]
		if other == nil || other == c.node && f == drawn {
			if other != nil {
				return c.refuse("give each its own weight", "uses the parameter %s twice", root)
			}
			c.used[root] = c.node
			continue
		}
		if f != drawn {
			list, r := c.floats(k)
			if r != nil {
				return r
			}
			if len(list) == 0 || uniform(list, list[0]) {
				continue
			}
		}
		return c.refuse("give each layer its own", "uses the parameter %s, which node %s uses too: a parameter of two layers cannot be trained here", root, nameOf(other))
	}
	return nil
}

// number numbers the ops of each kind, as package nn does.
func (p *program) number() {
	made := map[string]int{}
	for i := range p.layers {
		op := &p.layers[i].op
		name := op.Kind.String()
		if op.Kind == ir.Dense {
			name = "fc"
		}
		made[name]++
		op.Name = fmt.Sprint(name, made[name])
	}
}

// finish makes the program and its first parameters.
func (l *lowerer) finish(name string, seed uint64) (*ir.Program, []float32, error) {
	p := &l.program
	p.number()
	l.fileNames()
	out := &ir.Program{Name: name, Shape: p.shape}
	var params []float32
	for i := range p.layers {
		at := &p.layers[i]
		for _, q := range [...]struct {
			s     *slot
			kind  string
			index *int
		}{{at.weight, "weight", &at.op.Weight}, {at.bias, "bias", &at.op.Bias}} {
			if q.s == nil {
				continue
			}
			n, ok := strides.Count(q.s.shape)
			if !ok || q.s.values == nil && n > mostMade && q.s.root == "" {
				return nil, nil, fmt.Errorf("the parameters of node %s have shape %v, which is more than is made here", nameOf(at.node), q.s.shape)
			}
			if q.s.values != nil && len(q.s.values) != n {
				return nil, nil, fmt.Errorf("the parameters of node %s have shape %v and %d numbers", nameOf(at.node), q.s.shape, len(q.s.values))
			}
			row := ir.Param{Name: at.op.Name + "." + q.kind, Node: q.s.inFile, Shape: q.s.shape, Offset: len(params)}
			*q.index = len(out.Params)
			out.Params = append(out.Params, row)
			if q.s.values != nil {
				params = append(params, q.s.values...)
				continue
			}
			params = append(params, p.fresh(i, q.s, row.Name, seed, n)...)
		}
		out.Ops = append(out.Ops, at.op)
	}
	return out, params, nil
}

// fresh are the first values of a parameter, as package nn has them.
func (p *program) fresh(i int, s *slot, name string, seed uint64, n int) []float32 {
	list := make([]float32, n)
	switch s.fill {
	case ones:
		for k := range list {
			list[k] = 1
		}
	case drawn:
		window := 1
		for _, d := range s.shape[2:] {
			window *= d
		}
		init := nn.Glorot(seed)
		if p.rectified(ir.Value(i + 1)) {
			init = nn.He(seed)
		}
		init(name, s.shape[1]*window, s.shape[0]*window, list)
	}
	return list
}

// rectified says that the next activation behind a value is one of the ReLU's kind.
func (p *program) rectified(v ir.Value) bool {
	reached := map[ir.Value]bool{v: true}
	for i := int(v); i < len(p.layers); i++ {
		op := &p.layers[i].op
		for _, in := range op.In {
			if !reached[in] {
				continue
			}
			switch op.Kind {
			case ir.ReLU, ir.LeakyReLU, ir.GELU:
				return true
			case ir.Tanh, ir.Sigmoid, ir.Conv, ir.Dense:
				return false
			}
			reached[ir.Value(i+1)] = true
		}
	}
	return false
}

// near says that two numbers agree as well as those of 16 bits do, which are rounded by a share of 2⁻¹¹.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Abs(b) }
