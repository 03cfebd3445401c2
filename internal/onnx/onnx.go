// Package onnx writes networks in the ONNX format, which many programs run: operations of
// its standard set 17, and nothing else.
package onnx

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// Versions of the format. Programs of 2022 and later read them.
const (
	formatVersion    = 8
	operatorsVersion = 17
	mostBytes        = math.MaxInt32 // of a protocol buffer
)

// A Type is that of a tensor's elements.
type Type int64

// The types that are written.
const (
	Float32 Type = 1
	Uint8   Type = 2
	int64s  Type = 7
	Float16 Type = 10
)

// A Value names a tensor of the graph.
type Value string

// A Graph is a network in the making. Every tensor's axis 0 is the batch, of any length, but
// for constants.
type Graph struct {
	name             string
	nodes, constants []message
	inputs, outputs  []message
	ops, unnamed     int
}

func New(name string) *Graph { return &Graph{name: name} }

// An Attribute is a setting of an operation.
type Attribute struct{ encoded message }

// Kinds of attributes.
const (
	attributeFloat   = 1
	attributeInt     = 2
	attributeString  = 3
	attributeInts    = 7
	attributeTypeKey = 20
)

func attribute(name string, kind int64, value func(m *message)) Attribute {
	var m message
	m.text(1, name)
	value(&m)
	m.number(attributeTypeKey, kind)
	return Attribute{m}
}

// Int, Float, String and Ints make attributes.
func Int(name string, v int) Attribute {
	return attribute(name, attributeInt, func(m *message) { m.number(3, int64(v)) })
}

func Float(name string, v float32) Attribute {
	return attribute(name, attributeFloat, func(m *message) { m.float(2, v) })
}

func String(name, v string) Attribute {
	return attribute(name, attributeString, func(m *message) { m.text(4, v) })
}

func Ints(name string, v ...int) Attribute {
	return attribute(name, attributeInts, func(m *message) {
		for _, x := range v {
			m.number(8, int64(x))
		}
	})
}

// Op adds an operation of the standard set and gives its output.
func (g *Graph) Op(kind string, inputs []Value, attributes ...Attribute) Value {
	g.ops++
	out := Value(fmt.Sprintf("%s_%d", kind, g.ops))
	g.node(kind, inputs, out, attributes)
	return out
}

func (g *Graph) node(kind string, inputs []Value, out Value, attributes []Attribute) {
	var m message
	for _, v := range inputs {
		m.text(1, string(v))
	}
	m.text(2, string(out))
	m.text(3, string(out))
	m.text(4, kind)
	for _, a := range attributes {
		m.bytes(5, a.encoded)
	}
	g.nodes = append(g.nodes, m)
}

// Floats adds a constant tensor. An empty name gets one.
func (g *Graph) Floats(name string, shape []int, data []float32) Value {
	raw := make([]byte, 0, 4*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return g.constant(name, Float32, shape, raw)
}

func (g *Graph) Scalar(v float32) Value { return g.Floats("", nil, []float32{v}) }

// Numbers adds a constant vector of whole numbers, such as a shape.
func (g *Graph) Numbers(data ...int) Value {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return g.constant("", int64s, []int{len(data)}, raw)
}

func (g *Graph) constant(name string, t Type, shape []int, raw []byte) Value {
	if name == "" {
		g.unnamed++
		name = fmt.Sprintf("constant_%d", g.unnamed)
	}
	var m message
	for _, n := range shape {
		m.number(1, int64(n))
	}
	m.number(2, int64(t))
	m.text(8, name)
	m.bytes(9, raw)
	g.constants = append(g.constants, m)
	return Value(name)
}

// Reshape gives each example another shape.
func (g *Graph) Reshape(v Value, shape ...int) Value {
	return g.Op("Reshape", []Value{v, g.Numbers(append([]int{-1}, shape...)...)})
}

// Gather picks places of an axis.
func (g *Graph) Gather(v Value, axis int, places ...int) Value {
	return g.Op("Gather", []Value{v, g.Numbers(places...)}, Int("axis", axis))
}

func (g *Graph) Cast(v Value, t Type) Value { return g.Op("Cast", []Value{v}, Int("to", int(t))) }

// Input declares an input of examples of a shape.
func (g *Graph) Input(name string, t Type, shape ...int) Value {
	g.inputs = append(g.inputs, declaration(name, t, shape))
	return Value(name)
}

// Output declares an output of examples of a shape.
func (g *Graph) Output(name string, v Value, shape ...int) {
	g.node("Identity", []Value{v}, Value(name), nil)
	g.outputs = append(g.outputs, declaration(name, Float32, shape))
}

func declaration(name string, t Type, shape []int) message {
	var batch, dims, tensor, kind, m message
	batch.text(2, "N")
	dims.bytes(1, batch)
	for _, n := range shape {
		var d message
		d.number(1, int64(n))
		dims.bytes(1, d)
	}
	tensor.number(1, int64(t))
	tensor.bytes(2, dims)
	kind.bytes(1, tensor)
	m.text(1, name)
	m.bytes(2, kind)
	return m
}

// Write writes the model with what is said of it, in the order of its keys: equal graphs give
// equal bytes.
func (g *Graph) Write(w io.Writer, producer, version string, metadata map[string]string) error {
	var graph message
	for _, part := range []struct {
		field int
		list  []message
	}{{1, g.nodes}, {5, g.constants}, {11, g.inputs}, {12, g.outputs}} {
		for _, m := range part.list {
			graph.bytes(part.field, m)
		}
	}
	graph.text(2, g.name)
	var operators, model message
	operators.text(1, "")
	operators.number(2, operatorsVersion)
	model.number(1, formatVersion)
	model.text(2, producer)
	model.text(3, version)
	model.bytes(7, graph)
	model.bytes(8, operators)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		var entry message
		entry.text(1, key)
		entry.text(2, metadata[key])
		model.bytes(14, entry)
	}
	if len(model) > mostBytes {
		return fmt.Errorf("the network takes %d bytes, an ONNX file holds at most %d", len(model), mostBytes)
	}
	_, err := w.Write(model)
	return err
}
