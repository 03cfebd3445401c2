package file

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// oldFormat is the version of the format of a model that was not read. All operations up to set 26 can stand in it.
const oldFormat = 10

// Encode writes the model in the ONNX format, in one piece: constants that lie in other files become a part of it. Equal models give
// equal bytes. A node that holds a graph of its own, as If does, is an error, because that graph may read values of this one that
// are no longer there.
func (m *Model) Encode() ([]byte, error) {
	graph, err := m.Graph.encode()
	if err != nil {
		return nil, err
	}
	format := m.format
	if format == 0 {
		format = oldFormat
	}
	var b message
	b.int(modelFormat, format)
	b.text(modelProducer, m.Producer)
	b.bytes(modelGraph, graph)
	for _, domain := range slices.Sorted(maps.Keys(m.Opsets)) {
		var set message
		set.text(1, domain)
		set.int(2, int64(m.Opsets[domain]))
		b.bytes(modelOpsets, set)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		var entry message
		entry.text(1, key)
		entry.text(2, m.Metadata[key])
		b.bytes(modelMetadata, entry)
	}
	if len(b) > math.MaxInt32 {
		return nil, fmt.Errorf("the model takes %d bytes, and an ONNX file holds at most 2³¹", len(b))
	}
	return b, nil
}

// A message is one in the making.
type message []byte

func (m *message) int(number protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, number, protowire.VarintType), uint64(v))
}

func (m *message) float(number protowire.Number, v float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, number, protowire.Fixed32Type), math.Float32bits(v))
}

func (m *message) bytes(number protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, number, protowire.BytesType), b)
}

func (m *message) text(number protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, number, protowire.BytesType), s)
}

func (g *Graph) encode() (b message, err error) {
	for i := range g.Nodes {
		node, err := g.Nodes[i].encode()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Nodes[i].label(), err)
		}
		b.bytes(graphNodes, node)
	}
	b.text(graphName, g.Name)
	for _, name := range slices.Sorted(maps.Keys(g.Constants)) {
		t, err := g.Constants[name].encode(name)
		if err != nil {
			return nil, err
		}
		b.bytes(graphTensors, t)
	}
	for _, v := range g.Inputs {
		b.bytes(graphInputs, v.encode())
	}
	for _, v := range g.Outputs {
		b.bytes(graphOutputs, v.encode())
	}
	return b, nil
}

func (n *Node) encode() (b message, err error) {
	inputs := n.Inputs
	// What is left out at the end needs no empty name, and ONNX Runtime 1.32 crashes at that of a layer norm's bias.
	for len(inputs) > 0 && inputs[len(inputs)-1] == "" {
		inputs = inputs[:len(inputs)-1]
	}
	for _, name := range inputs {
		b.text(nodeInputs, name)
	}
	for _, name := range n.Outputs {
		b.text(nodeOutputs, name)
	}
	b.text(nodeName, n.Name)
	b.text(nodeKind, n.Kind)
	b.text(nodeDomain, n.Domain)
	for _, name := range slices.Sorted(maps.Keys(n.Attributes)) {
		a, err := n.Attributes[name].encode(name)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", quote(name), err)
		}
		b.bytes(nodeAttributes, a)
	}
	return b, nil
}

func (a Attribute) encode(name string) (b message, err error) {
	if a.Type == Other {
		return a.asRead()
	}
	b.text(attributeName, name)
	b.int(attributeType, int64(a.Type))
	switch a.Type {
	case IsFloat:
		b.float(attributeFloat, a.Float)
	case IsInt:
		b.int(attributeInt, a.Int)
	case IsText:
		b.text(attributeText, a.Text)
	case IsTensor:
		t, err := a.Tensor.encode(a.Tensor.Name)
		if err != nil {
			return nil, err
		}
		b.bytes(attributeTensor, t)
	case IsFloats:
		for _, v := range a.Floats {
			b.float(attributeFloats, v)
		}
	case IsInts:
		for _, v := range a.Ints {
			b.int(attributeInts, v)
		}
	case IsTexts:
		for _, s := range a.Texts {
			b.text(attributeTexts, s)
		}
	}
	return b, nil
}

// asRead is an attribute of a type that is not read.
func (a Attribute) asRead() (message, error) {
	var kind int64
	err := each(a.encoded, func(f field) error {
		if f.number == attributeType {
			return f.int(&kind)
		}
		return nil
	})
	if err == nil && (kind == oneGraph || kind == manyGraphs) {
		err = fmt.Errorf("it holds a graph, which cannot be taken out of its file: export the network without control flow")
	}
	return a.encoded, err
}

func (v Value) encode() (b message) {
	var shape, tensor, kind message
	for _, a := range v.Shape {
		var axis message
		switch {
		case a.Length > 0:
			axis.int(1, int64(a.Length))
		case a.Name != "":
			axis.text(2, a.Name)
		}
		shape.bytes(1, axis)
	}
	tensor.int(1, int64(v.Type))
	if v.Shape != nil {
		tensor.bytes(2, shape)
	}
	kind.bytes(1, tensor)
	b.text(1, v.Name)
	if v.Type != 0 { // or else it is no tensor
		b.bytes(2, kind)
	}
	return b
}

func (t *Tensor) encode(name string) (b message, err error) {
	e, read := elements[t.Type]
	if !read { // texts, and types of few bits
		as, ok := t.source.(inside)
		if !ok {
			return nil, fmt.Errorf("constant %s holds no numbers that can be written: its type is %s", quote(name), t.Type)
		}
		b = slices.Clone(message(as))
		b.text(tensorName, name) // of two names the last one counts
		return b, nil
	}
	raw, err := t.raw(e)
	if err != nil {
		return nil, err
	}
	for _, n := range t.Shape {
		b.int(tensorDims, int64(n))
	}
	b.int(tensorType, int64(t.Type))
	b.text(tensorName, name)
	b.bytes(tensorRaw, raw)
	return b, nil
}
