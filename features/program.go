package features

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// Program is the front end as a network whose parameters are constants, with their values as one flat vector: from an image
// with values of [0, 1] to a row before it is rounded to halves. Rows are the same up to rounding. A Go function has no
// program: it is nil.
func (f *Front) Program() (*ir.Program, []float32) {
	if f.own != nil {
		return nil, nil
	}
	b := &builder{program: &ir.Program{Name: f.spec.name(), Shape: f.spec.Shape[:]}, named: map[string]int{}}
	image := ir.Input
	if f.spec.Deskew {
		image = b.add(ir.Op{Kind: ir.Deskew, In: []ir.Value{image}, Shape: f.spec.Shape[:], Out: f.spec.Shape[:]})
	}
	all := 0.
	for _, k := range f.blocks {
		all += k.weight
	}
	var parts []ir.Value
	for _, k := range f.blocks {
		maps := k.program(b, f.spec.Shape, f.spec.Mirror, k.constants, image)
		parts = append(parts, k.finish(b, maps, Scale*math.Sqrt(k.weight/all)))
	}
	if len(parts) > 1 {
		b.concat(1, []int{f.Width()}, parts...)
	}
	return b.program, b.constants
}

// finish whitens the channels less their means, weighs the middle column, and gives the block its norm: what part does.
func (b *block) finish(p *builder, maps ir.Value, norm float64) ir.Value {
	shape, c := []int{b.channels, b.rows, b.keep}, b.channels
	if mean := b.constants[meanName]; mean != nil {
		maps = p.affine(maps, shape, ir.None, p.constant(b.name+".less-mean", []int{c, 1, 1}, negative(mean)))
		whitener := p.constant(b.name+"."+whitenerName, []int{c, c, 1, 1}, triangular(b.constants[whitenerName], c).Data)
		maps = p.add(ir.Op{Kind: ir.Conv, In: []ir.Value{maps}, Shape: shape, Out: shape, Window: ir.Square(1, 1, 0)}, whitener)
	}
	if b.middle() {
		weights := slices.Repeat([]float32{1}, b.keep)
		weights[b.keep-1] = math.Sqrt2 / 2
		maps = p.affine(maps, shape, p.constant(b.name+".columns", []int{b.keep}, weights), ir.None)
	}
	row := []int{b.width()}
	return p.add(ir.Op{Kind: ir.Unit, In: []ir.Value{maps}, Shape: row, Out: row, Norm: norm})
}

// A builder makes the program of a front end.
type builder struct {
	program   *ir.Program
	constants []float32
	named     map[string]int
}

// constant is the number of a constant, which is added where there is none of its name.
func (b *builder) constant(name string, shape []int, values []float32) int {
	if i, ok := b.named[name]; ok {
		return i
	}
	b.named[name] = len(b.program.Params)
	b.program.Params = append(b.program.Params, ir.Param{Name: name, Shape: shape, Offset: len(b.constants)})
	b.constants = append(b.constants, values...)
	return b.named[name]
}

// scalar is a constant of one value.
func (b *builder) scalar(v float32) int { return b.constant(fmt.Sprint(v), []int{1}, []float32{v}) }

// add adds an op, with a weight if one is given, and names it.
func (b *builder) add(op ir.Op, weight ...int) ir.Value {
	op.Weight, op.Bias = ir.None, ir.None
	if len(weight) > 0 {
		op.Weight = weight[0]
	}
	return b.put(op)
}

func (b *builder) put(op ir.Op) ir.Value {
	op.Name = fmt.Sprintf("%s%d", op.Kind, len(b.program.Ops)+1)
	b.program.Ops = append(b.program.Ops, op)
	return b.program.Logits()
}

func (b *builder) affine(x ir.Value, shape []int, weight, bias int) ir.Value {
	return b.put(ir.Op{Kind: ir.Affine, In: []ir.Value{x}, Shape: shape, Out: shape, Weight: weight, Bias: bias})
}

// concat joins values by group to a shape.
func (b *builder) concat(groups int, shape []int, values ...ir.Value) ir.Value {
	return b.add(ir.Op{Kind: ir.Concat, In: values, Shape: shape, Out: shape, Groups: groups})
}

// planes compares every channel with filters of a shape: number, 1, height, width. w says where.
func (b *builder) planes(x ir.Value, shape []int, w ir.Window, name string, filters []float32) ir.Value {
	n := len(filters) / (w.H * w.W)
	rows, cols := w.Out(shape[1], shape[2])
	return b.add(ir.Op{Kind: ir.Planes, In: []ir.Value{x}, Shape: shape, Out: []int{n * shape[0], rows, cols}, Window: w},
		b.constant(name, []int{n, 1, w.H, w.W}, filters))
}

// halfSum is ½·(a + b) of elements of x, as a shape.
func (b *builder) halfSum(x ir.Value, from, shape []int, first, second []int32) ir.Value {
	picked := func(index []int32) ir.Value {
		return b.add(ir.Op{Kind: ir.Pick, In: []ir.Value{x}, Shape: from, Out: shape, Index: index})
	}
	sum := b.add(ir.Op{Kind: ir.Add, In: []ir.Value{picked(first), picked(second)}, Shape: shape, Out: shape})
	return b.affine(sum, shape, b.scalar(.5), ir.None)
}

func negative(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = -v
	}
	return y
}
