package lower

import (
	"maps"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Prefix is the frozen part of a network: a fixed map of each record by itself.
type Prefix struct {
	Program   *ir.Program // nil where an op needs ONNX Runtime
	Constants []float32   // of the program, flat
	// Model is the part as a graph of its own: it reads (N, In) and gives (N, Out), both in the order of the program.
	Model   *file.Model
	Needs   []string // the ops that only ONNX Runtime has, sorted
	In, Out []int    // shapes of a record: channels, rows and columns, or one length

	cut     string          // the value that it gives
	shape   []int           // of a record of it, as the file has it
	records int             // as lowerer.records
	before  map[string]bool // what depends on the file's input, the cut aside
}

// Fixed makes the prefix of a file that holds one alone, as Prefix.Model does.
func Fixed(m *file.Model) (*Prefix, error) {
	if len(m.Graph.Outputs) != 1 {
		return nil, usage.Errorf("the file of a frozen part has %d outputs, want one", len(m.Graph.Outputs))
	}
	cut := m.Graph.Outputs[0].Name
	return new(result).upTo(cut, m, Choices{Weights: OfFile, Freeze: cut})
}

// freeze makes the prefix of a file, and reports it.
func (out *result) freeze(m *file.Model, c Choices) (*Prefix, error) {
	cut, err := findCut(&m.Graph, c.Freeze)
	if err != nil {
		return nil, err
	}
	return out.upTo(cut, m, c)
}

// upTo makes the prefix that gives a value.
func (out *result) upTo(cut string, m *file.Model, c Choices) (*Prefix, error) {
	l := newLowerer(m, c, fixed)
	l.reach(cut)
	l.readers[cut]++ // what follows reads it
	if l.findInput(); len(l.refusals) == 0 {
		l.run()
	}
	defer func() { out.report.add(l, true) }()
	v := l.values[cut]
	if l.refusals = distinct(l.refusals); len(l.refusals) > 0 {
		return nil, l.refusals
	}
	if v == nil || v.broken || v.known != nil {
		return nil, usage.Errorf("--freeze %s: it does not depend on the network's input; name a node behind it", c.Freeze)
	}
	p := &Prefix{cut: cut, shape: v.shape(), records: l.records, before: dependents(&m.Graph, l.input, cut)}
	last := &call{lowerer: l, node: l.nodes[len(l.nodes)-1]}
	v, r := last.force(v)
	if r == nil {
		v, r = last.flat(v)
	}
	if r != nil {
		return nil, Refusals{r}
	}
	p.In, p.Out = l.program.shape, planShape(v.view.Shape)
	p.Needs = slices.Sorted(maps.Keys(l.needs))
	p.Model = l.model(m, cut, p)
	if len(l.layers) == 0 {
		return nil, usage.Errorf("--freeze %s: nothing is computed before it; name a node behind it, or freeze nothing", c.Freeze)
	}
	if len(p.Needs) > 0 {
		return p, nil
	}
	var err error
	if p.Program, p.Constants, err = l.finish("prefix", 0); err != nil {
		return nil, usage.Errorf("--freeze %s: %v", c.Freeze, err)
	}
	if v.at != p.Program.Logits() {
		return nil, usage.Errorf("--freeze %s: its value is not the last that is computed there; name another node", c.Freeze)
	}
	if err := p.Program.ValidateMap(); err != nil {
		return nil, usage.Errorf("--freeze %s: %v", c.Freeze, err)
	}
	return p, nil
}

// findCut gives the value that a name freezes: the first output of a node of that name, else an output of that name.
func findCut(g *file.Graph, name string) (string, error) {
	var found []string
	var known []string
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if len(n.Outputs) == 0 || n.Outputs[0] == "" {
			continue
		}
		if known = append(known, nameOf(n)); n.Name == name {
			found = append(found, n.Outputs[0])
		}
	}
	if len(found) == 0 {
		for i := range g.Nodes {
			if slices.Contains(g.Nodes[i].Outputs, name) {
				return name, nil
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", usage.Errorf("--freeze %s: no node has that name%s; `privgrad info --network FILE` lists them", name, usage.Meant(name, known))
	}
	return "", usage.Errorf("--freeze %s: %d nodes have that name; name one of their outputs: %s", name, len(found), strings.Join(found, ", "))
}

// dependents are the values that depend on an input other than through a cut.
func dependents(g *file.Graph, input, cut string) map[string]bool {
	all := map[string]bool{input: true}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if slices.ContainsFunc(n.Inputs, func(s string) bool { return all[s] }) {
			for _, out := range n.Outputs {
				all[out] = out != "" && out != cut
			}
		}
	}
	return all
}

// crossed refuses nodes behind a cut that read what lies before it.
func (l *lowerer) crossed(p *Prefix) {
	if l.readers[p.cut] == 0 {
		l.refusals = append(l.refusals, &Refusal{Reason: "the output does not depend on " + p.cut + ", which --freeze names", Do: "name another node"})
	}
	do := "freeze up to a node through which all passes"
	if gate := l.gateOf(0, l.gates()); gate != nil {
		do += ": --freeze " + usage.Quote(nameOf(gate))
	}
	behind := map[string]bool{p.cut: true} // what depends on the cut
	for _, n := range l.nodes {
		reads := slices.ContainsFunc(n.Inputs, func(s string) bool { return behind[s] })
		for _, out := range n.Outputs {
			behind[out] = out != "" && reads
		}
		for _, in := range n.Inputs {
			if reads && p.before[in] && !behind[in] {
				l.refusals = append(l.refusals, refuse(n, do, "reads %s, which is frozen, across the cut at %s", in, p.cut))
			}
		}
	}
}

// model is the part of a file that gives a value, with its input in the order of the program.
func (l *lowerer) model(m *file.Model, cut string, p *Prefix) *file.Model {
	part := file.Graph{Name: "prefix", Constants: map[string]*file.Tensor{}}
	for _, in := range l.graph.Inputs {
		if in.Name == l.input {
			part.Inputs = []file.Value{in}
		}
	}
	in := &part.Inputs[0]
	if v := l.values[l.input].view; !v.Plain() { // channels last: the graph moves them itself
		name := l.input + "_channels_first"
		part.Nodes = append(part.Nodes, file.Node{Name: name, Kind: "Transpose", Inputs: []string{name}, Outputs: []string{l.input},
			Attributes: map[string]file.Attribute{"perm": {Type: file.IsInts, Ints: []int64{0, 2, 3, 1}}}})
		in.Name, in.Shape = name, []file.Axis{in.Shape[0], in.Shape[3], in.Shape[1], in.Shape[2]}
	}
	for _, n := range l.nodes {
		part.Nodes = append(part.Nodes, *n)
		for _, name := range n.Inputs {
			if t := m.Graph.Constants[name]; t != nil {
				part.Constants[name] = t
			}
		}
	}
	out := file.Value{Name: cut, Type: in.Type, Shape: []file.Axis{in.Shape[0]}}
	for _, n := range p.shape {
		out.Shape = append(out.Shape, file.Axis{Length: n})
	}
	part.Outputs = []file.Value{out}
	return &file.Model{Producer: m.Producer, Opsets: m.Opsets, Graph: part}
}
