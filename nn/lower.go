package nn

import (
	"errors"
	"fmt"
	"strings"

	G "gorgonia.org/gorgonia"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

type Loss = ir.Loss

type Program = ir.Program

// The losses; those of one logit have targets of −1 and +1, or real ones.
const (
	SoftmaxCrossEntropy = ir.SoftmaxCrossEntropy // −log softmax(z)[t], t a class index
	Logistic            = ir.Logistic            // log(1+exp(−t·z))
	Hinge               = ir.Hinge               // max(0, 1−t·z)
	HuberHinge          = ir.HuberHinge          // Hinge smoothed around its kink
	Huber               = ir.Huber               // the robust regression loss, t real
)

type LowerOption func(*lowerer)

// WithLoss sets the program's loss; the default is SoftmaxCrossEntropy.
func WithLoss(loss Loss) LowerOption { return func(l *lowerer) { l.program.Loss = loss } }

// WithName sets the program's name; the default is "graph".
func WithName(name string) LowerOption { return func(l *lowerer) { l.program.Name = name } }

// WithInput says which leaf a batch of records is put into. It is needed only
// where a graph leaves that open.
func WithInput(input *G.Node) LowerOption { return func(l *lowerer) { l.input = input } }

// Lower turns the part of a graph that logits depends on into a program. A
// leaf with a value that is convolved, multiplied or added as a bias is a
// parameter; ops and parameters come in an order that the graph alone fixes,
// operands before results and left before right. Nothing runs and nothing in
// the graph changes. An error names the node that does not lower.
func Lower(logits *G.Node, options ...LowerOption) (*Network, error) {
	l := &lowerer{
		program: ir.Program{Name: "graph"},
		logits:  logits,
		values:  map[*G.Node]value{},
		readers: map[*G.Node]int{},
		used:    map[*G.Node]bool{},
	}
	for _, o := range options {
		o(l)
	}
	return guard("lowering "+l.program.Name, l.run)
}

// value is an activation: the plan's value seen in the per-example shape of a
// node. Reshapes change the shape only.
type value struct {
	v     ir.Value
	shape []int
}

type lowerer struct {
	program       ir.Program
	logits, input *G.Node
	batch         int
	values        map[*G.Node]value
	readers       map[*G.Node]int // nodes that read a node, SizeOf aside
	used          map[*G.Node]bool

	// One entry an op; nil where it has no such parameter.
	ops             []ir.Op
	nodes           []*G.Node
	weights, biases []*graph.View
	given           [][]given
}

// A weight is a parameter, or what a function makes of it and of those that it is given.
type weight struct {
	graph.View
	function ir.Function
	given    []given
}

// given is a parameter of a function, with its name behind the op's.
type given struct {
	kind string
	view graph.View
}

func (l *lowerer) run() (*Network, error) {
	if l.logits == nil || l.logits.Graph() == nil {
		return nil, errors.New("the logits are no node of a graph")
	}
	reached, err := l.scan()
	if err != nil {
		return nil, err
	}
	if err := l.findInput(reached); err != nil {
		return nil, err
	}
	if _, err := l.lower(l.logits); err != nil {
		return nil, err
	}
	return l.network()
}

// scan visits the nodes that the logits depend on and stops at the first op
// that never lowers.
func (l *lowerer) scan() (map[*G.Node]bool, error) {
	seen := map[*G.Node]bool{}
	var visit func(n *G.Node) error
	visit = func(n *G.Node) error {
		if seen[n] {
			return nil
		}
		seen[n] = true
		for _, c := range graph.Children(n) {
			if graph.Type(n) != graph.Size {
				l.readers[c]++
			}
			if err := visit(c); err != nil {
				return err
			}
		}
		return graph.Unsupported(n)
	}
	return seen, visit(l.logits)
}

// findInput checks the given input, or finds the one leaf that stands where an
// activation must.
func (l *lowerer) findInput(reached map[*G.Node]bool) error {
	if l.input == nil {
		leaves := graph.DataLeaves(l.logits)
		if len(leaves) != 1 {
			names := make([]string, len(leaves))
			for i, n := range leaves {
				names[i] = n.Name()
			}
			return fmt.Errorf("the graph of %s has %d candidates for its input (%s); name one with WithInput", graph.Describe(l.logits), len(leaves), strings.Join(names, ", "))
		}
		l.input = leaves[0]
	}
	switch {
	case graph.Type(l.input) != graph.Leaf:
		return graph.Refuse(l.input, "the input must be a leaf, made by gorgonia.NewTensor or NewMatrix")
	case !reached[l.input]:
		return graph.Refuse(l.input, "the input is unused: %s does not depend on it", graph.Describe(l.logits))
	case l.input.Dims() < 2 || l.input.Shape().TotalSize() < 1:
		return graph.Refuse(l.input, "the input has shape %v; give it the batch as axis 0 and an example's axes after it", l.input.Shape())
	}
	l.batch = l.input.Shape()[0]
	return nil
}

// isParam reports whether n is a parameter, possibly rearranged.
func (l *lowerer) isParam(n *G.Node) bool {
	root := graph.Root(n)
	return root != nil && root != l.input
}

// lower gives the value of an activation, lowering what it depends on first.
func (l *lowerer) lower(n *G.Node) (v value, err error) {
	if v, ok := l.values[n]; ok {
		return v, nil
	}
	if v, err = l.lowerNew(n); err == nil {
		l.values[n] = v
	}
	return v, err
}

func (l *lowerer) lowerNew(n *G.Node) (value, error) {
	if op, own := ownOf(n); own {
		return op.lower(l, n)
	}
	switch graph.Type(n) {
	case graph.Leaf:
		if n == l.input {
			return value{ir.Input, n.Shape()[1:]}, nil
		}
		return value{}, graph.Refuse(n, "it stands where an activation is expected, but the input is %s; a network has one input", graph.Describe(l.input))
	case graph.Constant:
		return value{}, graph.Refuse(n, "constants are not supported; make it a parameter, or fold it into the data")
	case graph.Reshape:
		return l.reshape(n)
	case graph.Transpose:
		return l.transpose(n)
	case graph.LinAlg:
		return l.dense(n)
	case graph.Unary:
		return l.unary(n)
	case graph.MaxPool:
		return l.pool(n, n, ir.MaxPool)
	case graph.AvgPool:
		return l.avgPool(n, n, 1)
	case graph.GlobalAvg:
		return l.globalAvgPool(n)
	case graph.GroupNorm:
		return value{}, unscaled(n)
	case graph.Im2col:
		return value{}, graph.Refuse(n, "Im2Col is supported only as a part of gorgonia.Conv2d")
	case graph.Repeat:
		return value{}, graph.Refuse(n, "it broadcasts an activation; only biases can be broadcast")
	case graph.Binary:
		switch graph.Symbol(n) {
		case "+":
			return l.add(n)
		case "⊙":
			return l.product(n)
		}
		return value{}, graph.Refuse(n, "the element-wise operation %s is not supported; use Add, Rectify, LeakyRelu, Tanh, Sigmoid or nn.GELU", graph.Symbol(n))
	}
	return value{}, graph.Unsupported(n)
}

func (l *lowerer) reshape(n *G.Node) (value, error) {
	in, err := l.lower(graph.Children(n)[0])
	if err != nil {
		return value{}, err
	}
	to := n.Shape()
	if len(to) == 0 || to[0] != l.batch {
		return value{}, graph.Refuse(n, "it merges the batch axis with others, from %v to %v; keep the batch, %d, as axis 0", graph.Children(n)[0].Shape(), to, l.batch)
	}
	return value{in.v, to[1:]}, nil
}

func (l *lowerer) transpose(n *G.Node) (value, error) {
	if v, ok, err := l.conv(n); ok {
		return v, err
	}
	if pattern := graph.FieldsOf(n).Ints("pattern"); pattern[0] != 0 {
		return value{}, graph.Refuse(n, "it moves the batch axis by the permutation %v; keep the batch as axis 0", pattern)
	}
	return value{}, graph.Refuse(n, "transposing activations is not supported; permute the data or the weights instead")
}

func (l *lowerer) emit(n *G.Node, op ir.Op, weight *graph.View) value {
	shape := n.Shape()[1:]
	op.Out = planShape(shape)
	op.Weight, op.Bias = ir.None, ir.None
	l.ops = append(l.ops, op)
	l.nodes = append(l.nodes, n)
	l.weights = append(l.weights, weight)
	l.biases = append(l.biases, nil)
	l.given = append(l.given, nil)
	return value{ir.Value(len(l.ops)), shape}
}

// planShape gives a per-example shape in the plan's two forms, (C,H,W) and (n).
func planShape(shape []int) []int {
	if len(shape) == 3 {
		return shape
	}
	return []int{ir.Size(shape)}
}

// weight gives a parameter, or a weight that is computed from parameters, claimed for node user.
func (l *lowerer) weight(n, user *G.Node) (weight, error) {
	if op, ok := n.Op().(weightOp); ok {
		return op.weight(l, n, user)
	}
	v, err := l.parameter(n, user)
	return weight{View: v}, err
}

// onlyFilters says where a weight that is computed may stand.
const onlyFilters = "make it the filter of gorgonia.Conv2d, just as it is, as nn.StandardConv does"

// parameter gives the view of a parameter, claimed for node user.
func (l *lowerer) parameter(n, user *G.Node) (graph.View, error) {
	if !l.isParam(n) {
		return graph.View{}, graph.Refuse(user, "%s is no parameter; weights and biases must be leaves with a value, reshaped or transposed at most", graph.Describe(n))
	}
	if root := graph.Root(n); graph.Computed(root) {
		return graph.View{}, graph.Refuse(user, "%s is computed from parameters; %s", graph.Describe(root), onlyFilters)
	}
	v, err := graph.ViewOf(n)
	if err != nil {
		return graph.View{}, graph.Refuse(user, "%v", err)
	}
	if v.Leaf.IsScalar() {
		return graph.View{}, graph.Refuse(v.Leaf, "a parameter cannot be a scalar; make it a tensor of shape (1, 1)")
	}
	if l.used[v.Leaf] {
		return graph.View{}, graph.Refuse(user, "parameter %s is used a second time; its gradient would be two layers' together, so give each layer its own (leaves of one name and shape are one node to Gorgonia)", graph.Describe(v.Leaf))
	}
	l.used[v.Leaf] = true
	return v, nil
}

// A place is one of an op's for a parameter: nil where it has none.
type place struct {
	v     *graph.View
	kind  string
	index *int
}

// network numbers the layers and builds the parameter table.
func (l *lowerer) network() (*Network, error) {
	p := &l.program
	p.Shape = planShape(l.input.Shape()[1:])
	net := &Network{Program: p, Input: l.input, Logits: l.logits}
	count := map[string]int{}
	offset := 0
	for i := range l.ops {
		op := &l.ops[i]
		name := op.Kind.String()
		if op.Kind == ir.Dense {
			name = "fc"
		}
		count[name]++
		op.Name = fmt.Sprintf("%s%d", name, count[name])
		places := []place{{l.weights[i], "weight", &op.Weight}, {l.biases[i], "bias", &op.Bias}}
		if l.given[i] != nil {
			op.Given = make([]int, len(l.given[i]))
		}
		for j, g := range l.given[i] {
			places = append(places, place{&g.view, g.kind, &op.Given[j]})
		}
		for _, q := range places {
			if q.v == nil {
				continue
			}
			b, err := graph.Bind(*q.v)
			if err != nil {
				return nil, err
			}
			for _, other := range net.bindings {
				if other.Shares(b) {
					return nil, graph.Refuse(b.Leaf, "it shares its memory with %s, so that they are one parameter used twice; give each its own value", graph.Describe(other.Leaf))
				}
			}
			*q.index = len(p.Params)
			p.Params = append(p.Params, ir.Param{Name: op.Name + "." + q.kind, Node: q.v.Leaf.Name(), Shape: q.v.Shape, Offset: offset})
			net.bindings = append(net.bindings, b)
			offset += ir.Size(q.v.Shape)
		}
	}
	if offset == 0 {
		return nil, graph.Refuse(l.logits, "it depends on no parameters, so there is nothing to train; multiply by a weight with gorgonia.Mul or Conv2d")
	}
	p.Ops = l.ops
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return net, nil
}
