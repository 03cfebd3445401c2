package nn

import (
	"errors"
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Layer adds one layer to a graph: it takes the node of its input and returns
// the node of its output. Both have the batch as axis 0. Layers make float32
// parameters and are used once each; an error says which layer failed and why.
type Layer func(x *G.Node) (*G.Node, error)

// Apply puts the layers one after another.
func Apply(x *G.Node, layers ...Layer) (*G.Node, error) {
	for _, layer := range layers {
		var err error
		if x, err = layer(x); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Flatten turns (N, …) into (N, n), in row-major order: C, H, W for images.
func Flatten(x *G.Node) (*G.Node, error) {
	return layer("flatten", 0, func(x *G.Node, s tensor.Shape) (*G.Node, error) {
		return G.Reshape(x, tensor.Shape{s[0], s.TotalSize() / s[0]})
	})(x)
}

// layer is named for messages, and takes an activation of so many axes (0: any number).
func layer(name string, dims int, f func(x *G.Node, s tensor.Shape) (*G.Node, error)) Layer {
	return func(x *G.Node) (*G.Node, error) {
		return guard(name, func() (*G.Node, error) {
			s, err := batched(x, dims)
			if err != nil {
				return nil, err
			}
			return f(x, s)
		})
	}
}

// guard turns a panic of Gorgonia, its answer to many wrong shapes and types,
// into an error.
func guard[T any](what string, f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: gorgonia rejected it: %v", what, r)
		}
	}()
	if v, err = f(); err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return v, err
}

func batched(x *G.Node, dims int) (tensor.Shape, error) {
	if x == nil {
		return nil, errors.New("its input is nil")
	}
	s := x.Shape()
	if dims > 0 && len(s) != dims {
		return nil, fmt.Errorf("needs an input of %d axes with the batch first, has shape %v", dims, s)
	}
	if len(s) < 2 || s.TotalSize() < 1 {
		return nil, fmt.Errorf("needs a non-empty input with the batch as axis 0, has shape %v", s)
	}
	return s, nil
}

// parameter adds a leaf with a value to the graph of x. Two leaves of one name
// and shape are one node to Gorgonia, so that a second use would tie them.
func parameter(x *G.Node, name string, values []float32, shape ...int) (*G.Node, error) {
	if x.Dtype() != tensor.Float32 {
		return nil, fmt.Errorf("layers are float32, the input is %v", x.Dtype())
	}
	if len(x.Graph().ByName(name)) > 0 {
		return nil, fmt.Errorf("the graph already has a node named %q; give each layer its own name", name)
	}
	v := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
	return G.NewTensor(x.Graph(), tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(v)), nil
}
