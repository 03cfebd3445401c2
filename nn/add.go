package nn

import (
	"slices"

	G "gorgonia.org/gorgonia"

	"github.com/privgrad/privgrad/internal/ir"
)

// add lowers the sum of two activations, and that of a layer and its bias.
func (l *lowerer) add(n *G.Node) (value, error) {
	a, b := children(n)[0], children(n)[1]
	if x, slope := leaky(a, b); x != nil {
		return l.leakyReLU(n, x, slope)
	}
	if x, slope := leaky(b, a); x != nil {
		return l.leakyReLU(n, x, slope)
	}
	switch {
	case opType(a) == opConstant || opType(b) == opConstant:
		return value{}, refuse(n, "adding a constant is not supported; make it a parameter, or fold it into the data")
	case l.isParam(a) && l.isParam(b):
		return value{}, refuse(n, "it adds two parameters, %s and %s; keep one", describe(rootOf(a)), describe(rootOf(b)))
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
		return value{}, refuse(n, "it adds activations of the shapes %v and %v an example; make them equal", x.shape, y.shape)
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
		return value{}, refuse(n, "bias %s is added to %s, which is no convolution, dense layer or group normalization; add it right after the layer", describe(b.leaf), describe(h))
	}
	if l.readers[h] > 1 {
		return value{}, refuse(n, "%s is read elsewhere without its bias %s; read the sum there too", describe(h), describe(b.leaf))
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
func (l *lowerer) channels(what string, b view, n *G.Node, out int) (view, error) {
	shape := n.Shape()
	if len(b.shape) != len(shape) {
		return view{}, refuse(n, "%s %s has shape %v against %v; give it the same number of axes, 1 wherever it is broadcast", what, describe(b.leaf), b.shape, shape)
	}
	if b.strides[0] != 0 && b.shape[0] > 1 {
		return view{}, refuse(n, "%s %s differs between the examples of a batch; make its axis 0 of size 1 and broadcast it", what, describe(b.leaf))
	}
	channel := view{leaf: b.leaf, shape: []int{1}, strides: []int{0}}
	for axis := 1; axis < len(shape); axis++ {
		if b.strides[axis] == 0 || b.shape[axis] == 1 {
			continue
		}
		if axis > 1 {
			return view{}, refuse(n, "%s %s differs between the positions of an image; make it (1, channels, 1, 1) and broadcast it", what, describe(b.leaf))
		}
		channel.shape[0], channel.strides[0] = b.shape[axis], b.strides[axis]
	}
	if channel.shape[0] != out || ir.Size(b.leaf.Shape()) != out {
		return view{}, refuse(n, "%s %s has %d elements for %d outputs; give it one an output", what, describe(b.leaf), ir.Size(b.leaf.Shape()), out)
	}
	return channel, nil
}
