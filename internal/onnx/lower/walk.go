package lower

import (
	"errors"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// A value is what a name of the graph stands for: a constant, or for every record something that the program computes.
type value struct {
	known *fold.Constant

	at      ir.Value
	view    strides.View
	alone   bool  // nobody else reads what the program has at this place
	trained bool  // parameters lie before it
	form    *form // what the nodes behind that place have made of it so far; nil: nothing
	broken  bool  // a refusal stands before it; nothing is known of it
}

// A role says what becomes of the weights of a graph.
type role uint8

const (
	trained role = iota // they are parameters
	fixed               // they are constants, those of the file
)

// A lowerer turns one graph into one program.
type lowerer struct {
	choices Choices
	role    role
	graph   *file.Graph
	version int // of the operator set
	nodes   []*file.Node
	records int // what the file says of the length of axis 0; 0: it is open
	input   string
	output  string
	values  map[string]*value
	readers map[string]int
	used    map[string]*file.Node // the node that has a parameter, by the initializer's name
	sigmoid bool                  // one stood at the end
	names   map[string]bool       // of all values of the file
	atInput bool                  // it begins at the file's input
	read    Reading               // of the input
	folder  fold.Folder
	needs   map[string]bool // kinds of nodes that the program cannot say
	program
	refusals Refusals
	report   []Layer
	nodeOf   []*file.Node // of each row of report
}

func newLowerer(m *file.Model, c Choices, r role) *lowerer {
	l := &lowerer{
		choices: c, role: r, graph: &m.Graph, version: version(m),
		values: map[string]*value{}, readers: map[string]int{}, used: map[string]*file.Node{}, needs: map[string]bool{},
		names:  map[string]bool{},
		folder: fold.Folder{Left: mostFolded}, read: Plain,
	}
	for i := range m.Graph.Nodes {
		for _, out := range m.Graph.Nodes[i].Outputs {
			l.names[out] = true
		}
	}
	for name, t := range m.Graph.Constants {
		l.names[name] = true
		if t == nil {
			continue
		}
		l.values[name] = &value{known: fold.Of(t, name)}
		if n, ok := strides.Count(t.Shape); ok {
			l.folder.Left += 2 * n
		}
	}
	return l
}

// mostMade is how many numbers may be made that do not stand in the file, such as the places of a layout.
const mostMade = 1 << 24

// mostFolded is how many elements folded constants may have beyond twice those of the file: each takes 16 bytes, and 8 while it is picked.
const mostFolded = 1 << 20

// reach keeps the nodes that a value depends on, in their order, and counts who reads what. It does not look behind the input.
func (l *lowerer) reach(output string) {
	wanted := map[string]bool{output: true}
	l.readers[output]++
	for i := len(l.graph.Nodes) - 1; i >= 0; i-- {
		n := &l.graph.Nodes[i]
		if !slices.ContainsFunc(n.Outputs, func(s string) bool { return s != "" && s != l.input && wanted[s] }) {
			continue
		}
		l.nodes = append(l.nodes, n)
		for i, in := range n.Inputs {
			if in == "" {
				continue
			}
			wanted[in] = true
			if n.Kind != "Shape" && (n.Kind != "CastLike" || i == 0) { // which read the shape or the type alone
				l.readers[in]++
			}
		}
	}
	slices.Reverse(l.nodes)
}

// run lowers the nodes in their order.
func (l *lowerer) run() {
	for _, n := range l.nodes {
		v, refusal := l.evaluate(n)
		if refusal != nil {
			l.refusals = append(l.refusals, refusal)
		}
		if v == nil {
			v = &value{broken: true}
		}
		for i, out := range n.Outputs {
			switch {
			case out == "" || out == l.input:
			case i == 0 || v.broken:
				v.alone = v.alone && l.readers[out] == 1
				l.values[out] = v
			default:
				l.values[out] = nil
			}
		}
		if v.known == nil && !v.broken {
			l.report = append(l.report, Layer{Node: nameOf(n), Op: n.Kind, Shape: v.shape()})
			l.nodeOf = append(l.nodeOf, n)
		}
	}
}

// evaluate lowers a node. With a refusal it gives a value of the right shape where that is known, so that the nodes behind it
// are looked at too.
func (l *lowerer) evaluate(n *file.Node) (*value, *Refusal) {
	c := &call{lowerer: l, node: n}
	for i, name := range n.Inputs {
		v, ok := l.values[name]
		switch {
		case name == "":
		case ok && v == nil:
			return nil, refuse(n, exportAgain+" in inference mode", "reads %s, a further output of another node, which is not there", name)
		case !ok:
			return nil, refuse(n, exportAgain, "reads %s, which nothing makes before it", name)
		case v.broken:
			return nil, nil
		}
		c.in = append(c.in, v)
		if i > mostInputs {
			return nil, refuse(n, freezeIt, "reads more than %d values", mostInputs)
		}
	}
	if len(n.Outputs) == 0 {
		return nil, refuse(n, exportAgain, "has no outputs")
	}
	if !slices.ContainsFunc(c.in, func(v *value) bool { return v != nil && v.known == nil }) {
		return c.fold()
	}
	o, ok := operations[kindOf(n)]
	if !ok {
		return c.elsewhere()
	}
	for i := range o.inputs {
		if i >= len(c.in) || c.in[i] == nil {
			return nil, refuse(n, exportAgain, "has %d inputs, and input %d must be there", len(c.in), i+1)
		}
	}
	return o.lower(c)
}

// mostInputs bounds what a node reads; the densest networks join some hundred values.
const mostInputs = 4096

// fold computes a node that reads constants alone.
func (c *call) fold() (*value, *Refusal) {
	in := make([]*fold.Constant, len(c.in))
	for i, v := range c.in {
		if v != nil {
			in[i] = v.known
		}
	}
	k, err := c.folder.Node(c.node, in)
	if err != nil {
		return nil, c.because(err)
	}
	return &value{known: k}, nil
}

// because refuses a node for what package fold says of it.
func (c *call) because(err error) *Refusal {
	var e *fold.Error
	if errors.As(err, &e) {
		return c.refuse(e.Do, "%s", e.Reason)
	}
	return c.refuse(exportAgain, "%v", err)
}

// take says that so many numbers are made that do not stand in the file.
func (c *call) take(n int) *Refusal {
	if err := c.folder.Take(n); err != nil {
		return c.because(err)
	}
	return nil
}

// A call is a node with what it reads.
type call struct {
	*lowerer
	node *file.Node
	in   []*value // nil: left out
}

func (c *call) refuse(do, reason string, args ...any) *Refusal {
	return refuse(c.node, do, reason, args...)
}

// at is input i, nil where it is left out.
func (c *call) at(i int) *value {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// int, float, text and ints are attributes, or what they usually are.
func (c *call) int(name string, usual int) int { return fold.Int(c.node, name, usual) }

func (c *call) float(name string, usual float32) float32 { return fold.Float(c.node, name, usual) }

func (c *call) text(name string) string { return c.node.Attributes[name].Text }

func (c *call) ints(name string) ([]int, bool) { return fold.Ints(c.node, name) }

// known is input i as a constant, nil where it is none.
func (c *call) known(i int) *fold.Constant {
	if v := c.at(i); v != nil {
		return v.known
	}
	return nil
}

// numbers are those of an input that is a constant of whole numbers, none of which depends on the number of records.
func (c *call) numbers(i int) ([]int, *Refusal) {
	list, err := fold.Whole(c.known(i), fmt.Sprintf("input %d", i+1))
	if err != nil {
		return nil, c.because(err)
	}
	return list, nil
}

// axes are those that a node names in an attribute or in input i, among so many, axis 0 that of the records; usual where it names none.
func (c *call) axes(i, rank int, usual []int) ([]int, *Refusal) {
	if v := c.at(i); v != nil && v.known == nil {
		return nil, c.refuse(exportAgain+" with fixed axes", "takes its axes from what records become")
	}
	list, err := fold.Axes(c.node, c.known(i), rank, usual)
	if err != nil {
		return nil, c.because(err)
	}
	return list, nil
}

// crossing is the refusal of what reaches across the axis of records.
func (c *call) crossing(what string) *Refusal {
	return c.refuse(keepRecords, "%s along axis 0, that of the records: one record would see another", what)
}

// shape is a value's as the file describes it, without axis 0.
func (v *value) shape() []int {
	if v.form != nil {
		return v.form.shape
	}
	return v.view.Shape
}

// activation is input i as something that the program has computed.
func (c *call) activation(i int) (*value, *Refusal) {
	v := c.at(i)
	if v == nil || v.known != nil {
		return nil, c.refuse(freezeIt, "reads a constant as input %d, where what records become is expected", i+1)
	}
	return c.force(v)
}

// stored is a value's shape in one of the program's forms.
func (l *lowerer) stored(v *value) []int {
	if v.view.Plain() {
		return planShape(v.view.Shape)
	}
	return l.shapeAt(v.at)
}

func (l *lowerer) shapeAt(v ir.Value) []int {
	if v == ir.Input {
		return l.program.shape
	}
	return l.layers[v-1].op.Out
}

// planShape gives a record's shape in the program's two forms, (C,H,W) and (n).
func planShape(shape []int) []int {
	if len(shape) == 3 {
		return slices.Clone(shape)
	}
	return []int{ir.Size(shape)}
}

// flat is a value as it is stored in the file's order: where it is not, it is picked, which has no gradient.
func (c *call) flat(v *value) (*value, *Refusal) {
	if v.view.Plain() {
		return v, nil
	}
	if v.trained {
		return nil, c.refuse("keep images in one layout, channels first, between the layers", "reads a value whose axes were moved, %v, and would need it moved back", v.view.Shape)
	}
	if r := c.take(v.view.Size()); r != nil {
		return nil, r
	}
	out := planShape(v.view.Shape)
	return c.emit(ir.Op{Kind: ir.Pick, Shape: c.stored(v), Out: out, Index: v.view.Places()}, strides.Of(v.view.Shape), v), nil
}

// image is a value of channels and one or two axes of pixels, as channels, rows and columns.
func (c *call) image(v *value) (*value, []int, *Refusal) {
	s := v.view.Shape
	if len(s) != 2 && len(s) != 3 {
		return nil, nil, c.refuse("give it images (N, C, H, W)", "reads records of shape %v, and needs channels and one or two axes of pixels", s)
	}
	v, r := c.flat(v)
	if r != nil {
		return nil, nil, r
	}
	if len(s) == 2 {
		return v, []int{s[0], 1, s[1]}, nil
	}
	return v, slices.Clone(s), nil
}

// scalar is a constant of one number.
func (c *call) scalar(v *value) (float64, bool) { return v.known.Number() }

// uniform says that all numbers are v.
func uniform(list []float32, v float32) bool {
	return !slices.ContainsFunc(list, func(x float32) bool { return x != v })
}
