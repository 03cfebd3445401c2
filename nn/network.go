package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"

	"github.com/privgrad/privgrad/nn/internal/graph"
)

// Network is a lowered graph with the way back: it knows which node of the
// graph each of the program's parameters is. A network that came from a file has no graph.
type Network struct {
	Program       *Program
	Input, Logits *G.Node // nil without a graph

	bindings []graph.Binding // in the order of Program.Params; nil without a graph
	flat     []float32       // the parameters of a network without a graph
}

// OfProgram is a network that has no graph, with its parameters: flat, in the order of Program.Params.
func OfProgram(p *Program, params []float32) (*Network, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	n := &Network{Program: p, flat: make([]float32, p.NumParams())}
	return n, n.SetParams(params)
}

// Params is a copy of the parameters that the graph was lowered with, or that
// SetParams gave it since: flat, in the order of Program.Params, each in
// PyTorch's layout. Those of float64 graphs are rounded.
func (net *Network) Params() []float32 {
	flat := make([]float32, net.Program.NumParams())
	if net.flat != nil {
		copy(flat, net.flat)
		return flat
	}
	for i, q := range net.Program.Params {
		net.bindings[i].Read(flat[q.Offset:])
	}
	return flat
}

// SetParams writes a flat vector in the form of Params into the values of the
// graph's nodes, so that Gorgonia's own machines run the network with it. On
// an error nothing is written.
func (net *Network) SetParams(flat []float32) error {
	if want := net.Program.NumParams(); len(flat) != want {
		return fmt.Errorf("network %s has %d parameters, got %d values", net.Program.Name, want, len(flat))
	}
	if net.flat != nil {
		copy(net.flat, flat)
		return nil
	}
	for i := range net.bindings {
		if b := &net.bindings[i]; !b.Bound() {
			return fmt.Errorf("network %s: %s was bound to another value since the graph was lowered; lower it again", net.Program.Name, graph.Describe(b.Leaf))
		}
	}
	for i, q := range net.Program.Params {
		net.bindings[i].Write(flat[q.Offset:])
	}
	return nil
}
