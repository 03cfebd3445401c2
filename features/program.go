package features

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
)

// Program is the front end as a network whose parameters are constants, with their values as one flat vector: from an image
// with values of [0, 1] to a row before it is rounded to halves. Rows are the same up to rounding. A Go function has no
// program, nor has a network that this package does not run: it is nil.
func (f *Front) Program() (*ir.Program, []float32) {
	switch {
	case f.own != nil:
		return nil, nil
	case f.network != nil:
		return f.network.Program()
	}
	shape := f.spec.Shape
	b, image := fixed.New(f.spec.name(), shape[:]), ir.Input
	if f.spec.Deskew {
		image = b.Add(ir.Op{Kind: ir.Deskew, In: []ir.Value{image}, Shape: shape[:], Out: shape[:]})
	}
	all := 0.
	for _, k := range f.blocks {
		all += k.weight
	}
	var parts []ir.Value
	for _, k := range f.blocks {
		maps := k.program(b, shape, f.spec.Mirror, k.constants, image)
		parts = append(parts, k.finish(b, maps, Scale*math.Sqrt(k.weight/all)))
	}
	if len(parts) > 1 {
		b.Concat(1, []int{f.Width()}, parts...)
	}
	return b.Program, b.Constants
}

// finish whitens the channels less their means, weighs the middle column, and gives the block its norm: what part does.
func (b *block) finish(p *fixed.Builder, maps ir.Value, norm float64) ir.Value {
	shape, c := []int{b.channels, b.rows, b.keep}, b.channels
	if mean := b.constants[meanName]; mean != nil {
		maps = p.Affine(maps, shape, ir.None, p.Constant(b.name+".less-mean", []int{c, 1, 1}, negative(mean)))
		whitener := p.Constant(b.name+"."+whitenerName, []int{c, c, 1, 1}, triangular(b.constants[whitenerName], c).Data)
		maps = p.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{maps}, Shape: shape, Out: shape, Window: ir.Square(1, 1, 0)}, whitener)
	}
	if b.middle() {
		weights := slices.Repeat([]float32{1}, b.keep)
		weights[b.keep-1] = math.Sqrt2 / 2
		maps = p.Affine(maps, shape, p.Constant(b.name+".columns", []int{b.keep}, weights), ir.None)
	}
	row := []int{b.width()}
	return p.Add(ir.Op{Kind: ir.Unit, In: []ir.Value{maps}, Shape: row, Out: row, Norm: norm})
}

func negative(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = -v
	}
	return y
}
