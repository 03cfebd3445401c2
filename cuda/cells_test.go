package cuda

import (
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
)

// patchesOf is a front end with the form of patches, of three atoms.
type patchesOf struct {
	side, cells int
	bias        int  // values of the one threshold
	quotients   bool // each sign has its own
	also        int  // op that the row has besides, by its place among those of the form; 0: none
	first       bool // the first sign has no threshold
}

func (f patchesOf) front() *simple {
	return shaped([]int{1, f.side + 1, f.side + 1}, func(b *fixed.Builder, x ir.Value) {
		n, plane, window := f.side, []int{3, f.side, f.side}, ir.Square(2, 1, 0)
		all := []ir.Value{b.Add(ir.Op{Kind: ir.Contrast, In: []ir.Value{x}, Shape: []int{1, n + 1, n + 1}, Out: []int{1, n, n}, Window: window, Epsilon: .1})}
		add := func(v ir.Value) ir.Value {
			all = append(all, v)
			return v
		}
		one := func(k ir.Kind, x ...ir.Value) ir.Value {
			return add(b.Add(ir.Op{Kind: k, In: x, Shape: plane, Out: plane}))
		}
		products := add(b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{x}, Shape: []int{1, n + 1, n + 1}, Out: plane, Window: window},
			b.Constant("atoms", []int{3, 1, 2, 2}, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})))
		quotient := one(ir.Divide, products, all[0])
		threshold := b.Constant("threshold", []int{f.bias, 1, 1}, []float32{-.5, -1, -2}[:f.bias])
		above := one(ir.ReLU, add(b.Affine(quotient, plane, ir.None, threshold)))
		if f.first {
			above = one(ir.ReLU, quotient)
		}
		if f.quotients {
			quotient = one(ir.Divide, products, all[0])
		}
		below := one(ir.ReLU, add(b.Affine(quotient, plane, b.Scalar(-2), ir.None)))
		both := add(b.Concat(1, []int{6, n, n}, above, below))
		y := b.Planes(both, []int{6, n, n}, ir.Window{H: n, W: n, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, "cells", make([]float32, f.cells*n*n))
		if f.also > 0 {
			b.Concat(1, []int{b.Program.ValueSize(y) + b.Program.ValueSize(all[f.also])}, y, all[f.also])
		}
	})
}

// Patches are one launch behind their products, if they have just the form that it stands for, and if nobody reads what it does not leave.
func TestCellsAreFound(t *testing.T) {
	usual := patchesOf{side: 4, cells: kernels.Cells, bias: 1}
	with := func(change func(f *patchesOf)) patchesOf {
		f := usual
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		f    patchesOf
		want int
	}{
		"the usual":                   {usual, 1},
		"products are read":           {with(func(f *patchesOf) { f.also = 1 }), 1},
		"quotients are read":          {with(func(f *patchesOf) { f.also = 2 }), 0},
		"a line is read":              {with(func(f *patchesOf) { f.also = 3 }), 0},
		"excesses are read":           {with(func(f *patchesOf) { f.also = 4 }), 0},
		"other excesses are read":     {with(func(f *patchesOf) { f.also = 6 }), 0},
		"both are read":               {with(func(f *patchesOf) { f.also = 7 }), 0},
		"thresholds of channels":      {with(func(f *patchesOf) { f.bias = 3 }), 0},
		"two quotients":               {with(func(f *patchesOf) { f.quotients = true }), 0},
		"no line of the one":          {with(func(f *patchesOf) { f.first = true }), 0},
		"another number of cells":     {with(func(f *patchesOf) { f.cells = 3 }), 0},
		"more places than have room":  {with(func(f *patchesOf) { f.side = 50 }), 0},
		"as many places as have room": {with(func(f *patchesOf) { f.side = 49 }), 1},
	} {
		front := c.f.front()
		if err := front.p.ValidateMap(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l := layMap(front.p, front.constants)
		if len(l.cells) != c.want {
			t.Errorf("%s: there are %d launches for cells, want %d", name, len(l.cells), c.want)
		}
		for _, found := range l.cells {
			if found.excesses != [2]kernels.Excess{{Weight: 1, Bias: -.5}, {Weight: -2}} || len(found.replaced) != 7 {
				t.Errorf("%s: found are %+v", name, found)
			}
		}
	}
}
