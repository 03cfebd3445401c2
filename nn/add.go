package nn

import (
	"slices"

	G "gorgonia.org/gorgonia"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// add lowers the sum of two activations, and that of a layer and its bias.
func (l *lowerer) add(n *G.Node) (value, error) {
	a, b := graph.Children(n)[0], graph.Children(n)[1]
	if x, slope := leaky(a, b); x != nil {
		return l.leakyReLU(n, x, slope)
	}
	if x, slope := leaky(b, a); x != nil {
		return l.leakyReLU(n, x, slope)
	}
	switch {
	case graph.Type(a) == graph.Constant || graph.Type(b) == graph.Constant:
		return value{}, graph.Refuse(n, "adding a constant is not supported; make it a parameter, or fold it into the data")
	case l.isParam(a) && l.isParam(b):
		return value{}, graph.Refuse(n, "it adds two parameters, %s and %s; keep one", graph.Describe(graph.Root(a)), graph.Describe(graph.Root(b)))
	case l.isParam(a):
		return l.bias(n, b, a)
	case l.isParam(b):
		return l.bias(n, a, b)
	}
	x, err := l.lower(a)
	if err != nil {
		return value{}, err
	}
	y, err := l.lower(b)
	if err != nil {
		return value{}, err
	}
	if !slices.Equal(x.shape, y.shape) {
		return value{}, graph.Refuse(n, "it adds activations of the shapes %v and %v an example; make them equal", x.shape, y.shape)
	}
	return l.emit(n, ir.Op{Kind: ir.Add, In: []ir.Value{x.v, y.v}, Shape: planShape(x.shape)}, nil), nil
}

// bias gives the layer whose output is node h the bias p.
func (l *lowerer) bias(n, h, p *G.Node) (value, error) {
	v, err := l.lower(h)
	if err != nil {
		return value{}, err
	}
	b, err := l.parameter(p, n)
	if err != nil {
		return value{}, err
	}
	i := int(v.v) - 1
	if i < 0 || l.nodes[i] != h || l.weights[i] == nil || l.biases[i] != nil {
		return value{}, graph.Refuse(n, "bias %s is added to %s, which is no convolution, dense layer or group normalization; add it right after the layer", graph.Describe(b.Leaf), graph.Describe(h))
	}
	if l.readers[h] > 1 {
		return value{}, graph.Refuse(n, "%s is read elsewhere without its bias %s; read the sum there too", graph.Describe(h), graph.Describe(b.Leaf))
	}
	channel, err := l.channels("bias", b, n, l.ops[i].Out[0])
	if err != nil {
		return value{}, err
	}
	l.biases[i] = &channel
	return v, nil
}

// channels is a bias or a scale that node n broadcasts to the shape of its result, as one number for each of out
// channels, axis 1. It may vary along these alone.
func (l *lowerer) channels(what string, b graph.View, n *G.Node, out int) (graph.View, error) {
	shape := n.Shape()
	if len(b.Shape) != len(shape) {
		return graph.View{}, graph.Refuse(n, "%s %s has shape %v against %v; give it the same number of axes, 1 wherever it is broadcast", what, graph.Describe(b.Leaf), b.Shape, shape)
	}
	if b.Strides[0] != 0 && b.Shape[0] > 1 {
		return graph.View{}, graph.Refuse(n, "%s %s differs between the examples of a batch; make its axis 0 of size 1 and broadcast it", what, graph.Describe(b.Leaf))
	}
	channel := graph.View{Leaf: b.Leaf, Shape: []int{1}, Strides: []int{0}}
	for axis := 1; axis < len(shape); axis++ {
		if b.Strides[axis] == 0 || b.Shape[axis] == 1 {
			continue
		}
		if axis > 1 {
			return graph.View{}, graph.Refuse(n, "%s %s differs between the positions of an image; make it (1, channels, 1, 1) and broadcast it", what, graph.Describe(b.Leaf))
		}
		channel.Shape[0], channel.Strides[0] = b.Shape[axis], b.Strides[axis]
	}
	if channel.Shape[0] != out || ir.Size(b.Leaf.Shape()) != out {
		return graph.View{}, graph.Refuse(n, "%s %s has %d elements for %d outputs; give it one an output", what, graph.Describe(b.Leaf), ir.Size(b.Leaf.Shape()), out)
	}
	return channel, nil
}
