package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// columns writes kernels that go down the columns of matrices, whose rows lie one behind the other. What belongs to a column
// stays in registers for all rows.
func columns(g *asm) {
	for _, f := range []form{avx2, avx512} {
		g.as(f, func() {
			addColumns(g)
			mixColumns(g)
		})
	}
}

// addColumns has a chain of additions for each sum. Those of four vectors of columns hide what an addition waits for.
func addColumns(g *asm) {
	g.down("addColumns", "sum[c] += x[r,c] and slope[c] += x[r,c]*y[r,c], each rounded once", []string{"sum", "slope"}, []string{"x", "y"}, func(w int, of, at func(string, int) Mem, a access, rows func(func())) {
		var sum, slope []vector
		for k := range w {
			sum, slope = append(sum, a.load(of("sum", k))), append(slope, a.load(of("slope", k)))
		}
		rows(func() {
			for k := range w {
				x, y := a.load(at("x", k)), a.load(at("y", k))
				g.VADDPS(x, sum[k], sum[k])
				g.VFMADD231PS(x, y, slope[k])
			}
		})
		for k := range w {
			a.store(sum[k], of("sum", k))
			a.store(slope[k], of("slope", k))
		}
	})
}

func mixColumns(g *asm) {
	g.down("mixColumns", "dst[r,c] = a[c]*dst[r,c] + (b[c]*x[r,c] + c[c]), in two roundings", []string{"a", "b", "c"}, []string{"dst", "x"}, func(w int, of, at func(string, int) Mem, do access, rows func(func())) {
		var a, b, c []vector
		for k := range w {
			a, b, c = append(a, do.load(of("a", k))), append(b, do.load(of("b", k))), append(c, do.load(of("c", k)))
		}
		rows(func() {
			for k := range w {
				x, d := do.load(at("x", k)), do.load(at("dst", k))
				g.VFMADD213PS(c[k], b[k], x)
				g.VFMADD213PS(x, a[k], d)
				do.store(d, at("dst", k))
			}
		})
	})
}

// down writes a kernel for vectors of a value a column, and matrices. body does w vectors of columns: of is where those of a
// vector lie, at those of a matrix in the row at hand, and rows goes through all rows. The lanes of the tail run through the same
// instructions under a mask, so a column's bits do not know its place.
func (g *asm) down(name, doc string, vectors, matrices []string, body func(w int, of, at func(string, int) Mem, a access, rows func(func()))) {
	lanes := g.form.lanes
	name += isa(lanes)
	pointers := append(append([]string{}, vectors...), matrices...)
	g.function(name, strings.Join(pointers, ", ")+" *float32, columns, rows int",
		fmt.Sprintf("%s sets, for every column c and one row r after the other, %s. There is at least one row.", name, doc))
	p := map[string]reg.GPVirtual{}
	for _, s := range pointers {
		p[s] = g.gp(s)
	}
	n, stride, row, left := g.gp("columns"), g.floatStride("columns"), g.GP64(), g.GP64()
	of := func(s string, k int) Mem { return Mem{Base: p[s], Disp: 4 * lanes * k} }
	at := func(s string, k int) Mem { return Mem{Base: p[s], Index: row, Scale: 1, Disp: 4 * lanes * k} }
	block := func(name string, w int, a access) {
		body(w, of, at, a, func(do func()) {
			g.MOVQ(g.gp("rows"), left)
			g.XORQ(row, row)
			g.repeat(name, left, func() {
				do()
				g.ADDQ(stride, row)
			})
		})
	}
	for _, w := range []int{4, 2, 1} {
		g.whole(fmt.Sprint("by", w), fmt.Sprint("after", w), w*lanes, n, func() {
			block(fmt.Sprint("rows", w), w, g.plain())
			for _, s := range pointers {
				g.ADDQ(sizeOf(w*lanes), p[s])
			}
		})
	}
	g.JZ(LabelRef("done"))
	block("rows", 1, g.masked(n))
	g.Label("done")
	g.end()
}
