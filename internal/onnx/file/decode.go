package file

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// newestFormat is the newest version of the format that this package knows.
const newestFormat = 14

// Fields of a model's message.
const (
	modelFormat    = 1
	modelProducer  = 2
	modelVersion   = 3
	modelGraph     = 7
	modelOpsets    = 8
	modelMetadata  = 14
	modelFunctions = 25
)

// Fields of a graph's message.
const (
	graphNodes   = 1
	graphName    = 2
	graphTensors = 5
	graphInputs  = 11
	graphOutputs = 12
	graphSparse  = 15
)

// A decoder reads one file.
type decoder struct {
	budget
	dir   string
	sizes map[string]*room // of files beside it
	// functions are operations that the file itself defines, by domain and name.
	functions map[[2]string]bool
}

// Decode reads a model of the bytes of a file, which stay in use: do not change them. Folder dir is where files with constants of the
// model may lie; "" where there are none. What the file holds for training is left out: privgrad trains in its own way. The errors say
// what is wrong, and of which node or constant. Memory is bounded: see mostMade.
func Decode(b []byte, dir string) (*Model, error) {
	if err := other(b); err != nil {
		return nil, err
	}
	d := &decoder{budget{mostMade}, dir, map[string]*room{}, map[[2]string]bool{}}
	return d.model(b)
}

func (d *decoder) model(b []byte) (*Model, error) {
	m := &Model{Opsets: map[string]int{}}
	var graph []byte
	var version string
	err := each(b, func(f field) error {
		switch f.number {
		case modelFormat:
			return f.int(&m.format)
		case modelProducer:
			return f.text(&m.Producer)
		case modelVersion:
			return f.text(&version)
		case modelGraph:
			return f.message(&graph)
		case modelOpsets:
			return d.opset(f, m.Opsets)
		case modelFunctions:
			return d.function(f)
		}
		return nil
	})
	m.Producer = strings.TrimSpace(m.Producer + " " + version)
	switch {
	case err != nil:
		return nil, err
	case graph == nil:
		return nil, errors.New("the file holds no graph: it is no ONNX model, or was cut short")
	case m.format > newestFormat:
		return nil, fmt.Errorf("the file is of version %d of the format, which is newer than %d, the newest that is known: export it by an older version of onnx, or for an older opset", m.format, newestFormat)
	}
	if m.Graph, err = d.graph(graph); err != nil {
		return nil, err
	}
	for _, n := range m.Graph.Nodes {
		switch _, has := m.Opsets[n.Domain]; {
		case d.functions[[2]string{n.Domain, n.Kind}]:
			return nil, fmt.Errorf("%s is a function that the file defines itself: put its nodes in its place by onnx.inliner.inline_local_functions(onnx.load(FILE))", n.label())
		case !has && n.Domain == "":
			return nil, fmt.Errorf("the file does not say which version of the standard set of operations %s is of: export it with opset 13 or newer", n.label())
		case !has:
			return nil, fmt.Errorf("the file does not say which version of set %s %s is of: export it again", quote(n.Domain), n.label())
		}
	}
	return m, nil
}

// standard is another name of the set of operations that has none.
const standard = "ai.onnx"

func (d *decoder) opset(f field, opsets map[string]int) error {
	var message []byte
	var domain string
	var version int64
	if err := f.message(&message); err != nil {
		return err
	}
	err := each(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&domain)
		case 2:
			return f.int(&version)
		}
		return nil
	})
	if err == nil {
		err = d.pay(1, outputCosts)
	}
	if err != nil {
		return err
	}
	if domain == standard {
		domain = ""
	}
	if was, has := opsets[domain]; version < 0 || version > math.MaxInt32 || has && was != int(version) {
		return fmt.Errorf("the version of the set of operations %s is none, or is said twice: export the model again", quote(domain))
	}
	opsets[domain] = int(version)
	return nil
}

func (d *decoder) function(f field) error {
	var message []byte
	var name, domain string
	if err := f.message(&message); err != nil {
		return err
	}
	if err := d.pay(1, 2*outputCosts); err != nil {
		return err
	}
	err := each(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&name)
		case 10:
			return f.text(&domain)
		}
		return nil
	})
	if domain == standard {
		domain = ""
	}
	d.functions[[2]string{domain, name}] = true
	return err
}

func (d *decoder) graph(b []byte) (g Graph, err error) {
	counts, err := tally(b)
	if err != nil {
		return g, err
	}
	err = errors.Join(d.pay(counts[graphNodes], nodeCosts), d.pay(counts[graphTensors], tensorCosts), d.pay(counts[graphInputs]+counts[graphOutputs], 2*valueCosts))
	if err != nil {
		return g, errTooMuch
	}
	g.Nodes = make([]Node, 0, counts[graphNodes])
	g.Constants = make(map[string]*Tensor, counts[graphTensors])
	g.Inputs, g.Outputs = make([]Value, 0, counts[graphInputs]), make([]Value, 0, counts[graphOutputs])
	err = each(b, func(f field) error {
		switch f.number {
		case graphNodes:
			return d.node(f, &g)
		case graphName:
			return f.text(&g.Name)
		case graphTensors:
			return d.constant(f, &g)
		case graphInputs:
			return d.value(f, &g.Inputs)
		case graphOutputs:
			return d.value(f, &g.Outputs)
		case graphSparse:
			return errors.New("the file holds a sparse constant: export the model with dense weights")
		}
		return nil
	})
	if err != nil {
		return g, err
	}
	// Older files name their constants as inputs, too.
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v Value) bool { return g.Constants[v.Name] != nil })
	return g, d.order(&g)
}

func (d *decoder) constant(f field, g *Graph) error {
	t, err := d.tensor(f)
	switch {
	case err != nil:
		return fmt.Errorf("constant %d: %w", len(g.Constants)+1, err)
	case t.Name == "":
		return fmt.Errorf("constant %d has no name: export the model again", len(g.Constants)+1)
	case g.Constants[t.Name] != nil:
		return fmt.Errorf("constant %s is there twice: export the model again", quote(t.Name))
	}
	g.Constants[t.Name] = t
	return nil
}

// tensor reads all but the numbers, which it counts.
func (d *decoder) tensor(f field) (*Tensor, error) {
	var b []byte
	if err := f.message(&b); err != nil {
		return nil, err
	}
	t := &Tensor{}
	var kind, location int64
	err := each(b, func(f field) error {
		if f.number == tensorName { // it comes late, and errors name it
			return f.text(&t.Name)
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	err = each(b, func(f field) error {
		switch f.number {
		case tensorDims:
			return f.numbers(protowire.VarintType, func(v uint64) error { return d.axis(t, v) })
		case tensorType:
			return f.int(&kind)
		case tensorLocation:
			return f.int(&location)
		case tensorSegment:
			return errors.New("it is a part of a larger constant: export the model again")
		}
		return nil
	})
	if err == nil && (kind < 1 || kind > math.MaxInt32) {
		err = errors.New("the type of its numbers is not said: export the model again")
	}
	if err == nil {
		t.Type = ElementType(kind)
		_, err = length(t.Shape)
	}
	if err == nil {
		err = d.numbers(t, b, location)
	}
	if err != nil && t.Name != "" {
		err = fmt.Errorf("%s: %w", quote(t.Name), err)
	}
	return t, err
}

func (d *decoder) axis(t *Tensor, length uint64) error {
	switch {
	case length > mostLength:
		return fmt.Errorf("an axis has the length %d, and the longest is %d", int64(length), mostLength)
	case len(t.Shape) == mostAxes:
		return fmt.Errorf("it has more than %d axes", mostAxes)
	}
	t.Shape = append(t.Shape, int(length))
	return d.pay(1, 3*numberCosts) // append leaves its shorter slices behind
}

// numbers finds where a tensor's numbers are, and that they are all there.
func (d *decoder) numbers(t *Tensor, message []byte, location int64) (err error) {
	switch location {
	case 0:
		t.source = inside(message)
		return inside(message).check(t)
	case 1:
		t.source, err = d.beside(message, t)
		return err
	}
	return fmt.Errorf("its numbers are in a place of kind %d, which is not known", location)
}
