// Package export writes programs as graphs of the ONNX format: networks and front ends alike.
package export

import (
	"slices"

	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/usage"
)

// Program adds a program to a graph and gives its output. params are the values of its parameters or constants, and input
// has the program's shape. Weights that are functions of parameters become constants. An op that ONNX has no
// operations for is a usage error.
func Program(g *onnx.Graph, p *ir.Program, params []float32, input onnx.Value) (onnx.Value, error) {
	weights := constants(g, p, params)
	values, shapes := []onnx.Value{input}, [][]int{p.Shape}
	for i := range p.Ops {
		c := &call{Graph: g, op: &p.Ops[i]}
		for _, v := range c.op.In {
			x := values[v]
			if !slices.Equal(shapes[v], c.op.Shape) && ir.Size(shapes[v]) == ir.Size(c.op.Shape) {
				x = g.Reshape(x, c.op.Shape...)
			}
			c.x, c.sizes = append(c.x, x), append(c.sizes, ir.Size(shapes[v]))
		}
		if c.op.Weight != ir.None {
			c.weight = weights[c.op.Weight]
		}
		if c.op.Bias != ir.None {
			c.bias = weights[c.op.Bias]
		}
		write := operations[c.op.Kind]
		if write == nil {
			return "", usage.Errorf("model %s has an operation, %s, that the export does not know; run the model by privgrad", p.Name, c.op.Kind)
		}
		values, shapes = append(values, write(c)), append(shapes, c.op.Out)
	}
	return values[p.Logits()], nil
}

// constants are the parameters, in the order of the table. Where a weight is a function of them it stands for the first.
func constants(g *onnx.Graph, p *ir.Program, params []float32) []onnx.Value {
	made, given := map[int][]float32{}, map[int]bool{}
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Function == ir.Identity {
			continue
		}
		weight, _ := reference.Weights(p, op, convert[float64](params))
		made[op.Weight] = convert[float32](weight)
		for _, q := range op.Given {
			given[q] = true
		}
	}
	weights := make([]onnx.Value, len(p.Params))
	for i, q := range p.Params {
		values := params[q.Offset:][:q.Size()]
		if made[i] != nil {
			values = made[i]
		}
		if !given[i] {
			weights[i] = g.Floats(q.Name, q.Shape, values)
		}
	}
	return weights
}

func convert[To, From float32 | float64](x []From) []To {
	y := make([]To, len(x))
	for i, v := range x {
		y[i] = To(v)
	}
	return y
}

// A call is an op with its inputs: values, each of the op's shape if it has the elements of it, and constants, empty for none.
type call struct {
	*onnx.Graph
	op           *ir.Op
	x            []onnx.Value
	sizes        []int // of the values
	weight, bias onnx.Value
}

// all are the inputs, with the constants that there are behind the values.
func (c *call) all() []onnx.Value {
	in := slices.Clone(c.x)
	for _, v := range []onnx.Value{c.weight, c.bias} {
		if v != "" {
			in = append(in, v)
		}
	}
	return in
}

// do adds an operation without settings.
func (c *call) do(kind string, in ...onnx.Value) onnx.Value { return c.Op(kind, in) }
