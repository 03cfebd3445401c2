// Package fixed builds programs that are fixed maps, such as front ends: ops together with their constants.
package fixed

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// A Builder makes a program op by op, and the values of its constants. A mistake in a call shows when the program is validated.
type Builder struct {
	Program   *ir.Program
	Constants []float32
	named     map[string]int
}

// New begins a program over records of a shape.
func New(name string, shape []int) *Builder {
	return &Builder{Program: &ir.Program{Name: name, Shape: shape}, named: map[string]int{}}
}

// Constant is the number of a constant, which is added where there is none of its name.
func (b *Builder) Constant(name string, shape []int, values []float32) int {
	if i, ok := b.named[name]; ok {
		return i
	}
	b.named[name] = len(b.Program.Params)
	b.Program.Params = append(b.Program.Params, ir.Param{Name: name, Shape: shape, Offset: len(b.Constants)})
	b.Constants = append(b.Constants, values...)
	return b.named[name]
}

// Scalar is a constant of one value.
func (b *Builder) Scalar(v float32) int { return b.Constant(fmt.Sprint(v), []int{1}, []float32{v}) }

// Add adds an op, with a weight if one is given, and names it.
func (b *Builder) Add(op ir.Op, weight ...int) ir.Value {
	op.Weight, op.Bias = ir.None, ir.None
	if len(weight) > 0 {
		op.Weight = weight[0]
	}
	return b.put(op)
}

func (b *Builder) put(op ir.Op) ir.Value {
	op.Name = fmt.Sprintf("%s%d", op.Kind, len(b.Program.Ops)+1)
	b.Program.Ops = append(b.Program.Ops, op)
	return b.Program.Logits()
}

// Affine multiplies by a constant and adds one; ir.None leaves one out.
func (b *Builder) Affine(x ir.Value, shape []int, weight, bias int) ir.Value {
	return b.put(ir.Op{Kind: ir.Affine, In: []ir.Value{x}, Shape: shape, Out: shape, Weight: weight, Bias: bias})
}

// Concat joins values by group to a shape.
func (b *Builder) Concat(groups int, shape []int, values ...ir.Value) ir.Value {
	return b.Add(ir.Op{Kind: ir.Concat, In: values, Shape: shape, Out: shape, Groups: groups})
}

// Planes compares every channel with filters of a shape: number, 1, height, width. w says where.
func (b *Builder) Planes(x ir.Value, shape []int, w ir.Window, name string, filters []float32) ir.Value {
	n := len(filters) / (w.H * w.W)
	rows, cols := w.Out(shape[1], shape[2])
	return b.Add(ir.Op{Kind: ir.Planes, In: []ir.Value{x}, Shape: shape, Out: []int{n * shape[0], rows, cols}, Window: w},
		b.Constant(name, []int{n, 1, w.H, w.W}, filters))
}

// HalfSum is the mean of two lists of elements of x, which has the shape from.
func (b *Builder) HalfSum(x ir.Value, from, shape []int, first, second []int32) ir.Value {
	picked := func(index []int32) ir.Value {
		return b.Add(ir.Op{Kind: ir.Pick, In: []ir.Value{x}, Shape: from, Out: shape, Index: index})
	}
	sum := b.Add(ir.Op{Kind: ir.Add, In: []ir.Value{picked(first), picked(second)}, Shape: shape, Out: shape})
	return b.Affine(sum, shape, b.Scalar(.5), ir.None)
}
