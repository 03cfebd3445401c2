// Package file reads files of the ONNX format. It knows the format and no operation: what a graph means is decided elsewhere.
package file

// A Model is what a file holds.
type Model struct {
	Producer string         // and its version
	Opsets   map[string]int // version of each set of operations, by domain; "" is the standard one
	Graph    Graph

	format int64 // version of the format; 0 in a model that was not read
}

// A Graph has its nodes in an order in which every value is made before it is read.
type Graph struct {
	Name            string
	Nodes           []Node
	Constants       map[string]*Tensor // initializers, by name
	Inputs, Outputs []Value            // inputs without the initializers among them
}

// A Node is one operation. An empty name in its inputs stands for one that is left out.
type Node struct {
	Name, Kind, Domain string
	Inputs, Outputs    []string
	Attributes         map[string]Attribute
}

// An Attribute is a setting of a node. Only what its Type says is set.
type Attribute struct {
	Type   AttributeType
	Float  float32
	Int    int64
	Text   string
	Tensor *Tensor
	Floats []float32
	Ints   []int64
	Texts  []string

	encoded []byte // as in the file, of a type that is not read
}

// AttributeType has the numbers of the format. Those of no name here are read as Other.
type AttributeType uint8

// The types of attributes.
const (
	Other    AttributeType = 0
	IsFloat  AttributeType = 1
	IsInt    AttributeType = 2
	IsText   AttributeType = 3
	IsTensor AttributeType = 4
	IsFloats AttributeType = 6
	IsInts   AttributeType = 7
	IsTexts  AttributeType = 8
)

// A Value declares an input or an output.
type Value struct {
	Name string
	Type ElementType
	// Shape has an axis each; nil where the file does not say.
	Shape []Axis
}

// An Axis is a length, or the name of one that is open; neither is known where both are zero.
type Axis struct {
	Length int
	Name   string
}

// ElementType has the numbers of the format.
type ElementType int

// The types of elements that are read.
const (
	Float32  ElementType = 1
	Uint8    ElementType = 2
	Int8     ElementType = 3
	Int32    ElementType = 6
	Int64    ElementType = 7
	Bool     ElementType = 9
	Float16  ElementType = 10
	Float64  ElementType = 11
	BFloat16 ElementType = 16
)

// A Tensor is a constant. Its numbers stay in the file's bytes, or in a file beside it, until they are asked for.
type Tensor struct {
	Name  string
	Type  ElementType
	Shape []int // no axes: one number

	source source
}
