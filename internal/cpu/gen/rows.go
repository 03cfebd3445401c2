package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rows writes products whose left operand is read where it lies, row by row, and what turns such a product round.
func rows(g *asm) {
	for h := 1; h <= avx2.m; h++ {
		rowsTile(g, avx2, h, 2)
	}
	// Half as many columns leave room for twice the rows: fewer chains of multiply-adds would wait for each other.
	for h := 1; h <= 2*avx2.m; h++ {
		rowsTile(g, avx2, h, 1)
	}
	turnBack(g)
}

// rowsTile multiplies h rows at a time with a panel of width registers. Every element is one chain of fused multiply-adds
// from zero in the order of p, as in tile.
func rowsTile(g *asm, f form, h, width int) {
	name := fmt.Sprintf("rows%d%s", h, f.suffix)
	if width == 1 {
		name = fmt.Sprintf("rowsNarrow%d%s", h, f.suffix)
	}
	g.function(name, "tiles, kc int, a *float32, lda int, b *float32, c *float32, ldc int, accumulate bool, ahead *float32, ldahead int",
		fmt.Sprintf("%s computes tiles times %d rows of %d columns, one below the other, of C (+)= A*B, from rows of A that lie", name, h, width*f.lanes),
		fmt.Sprintf("lda apart and b[kc][%d]. With every tile it prefetches kc floats from ahead on; for the next tile, from ldahead", f.n),
		"further on. tiles and kc are at least 1.")
	panel, lda := g.gp("a"), g.floatStride("lda")
	c, ldc, ahead := g.gp("c"), g.floatStride("ldc"), g.gp("ahead")
	tiles := g.AllocLocal(8)
	g.MOVQ(g.gp("tiles"), tiles)
	sum, cols, t := g.tileOf(f, h, width), g.registers(f, width), g.registers(f, 2)

	g.Label("tile")
	row := g.GP64()
	g.MOVQ(c, row)
	for i := range h {
		g.PREFETCHT0(Mem{Base: row})
		if i < h-1 {
			g.ADDQ(ldc, row)
		}
	}
	// Three rows share a pointer.
	first := make([]reg.GPVirtual, (h+2)/3)
	for i := range first {
		first[i] = g.GP64()
		if i == 0 {
			g.MOVQ(panel, first[i])
			continue
		}
		g.LEAQ(Mem{Base: first[i-1], Index: lda, Scale: 2}, first[i])
		g.ADDQ(lda, first[i])
	}
	number := func(u int) func(i int) Mem {
		return func(i int) Mem {
			m := Mem{Base: first[i/3], Disp: 4 * u}
			if i%3 > 0 {
				m.Index, m.Scale = lda, uint8(i%3)
			}
			return m
		}
	}
	b, next, kc := g.gp("b"), g.GP64(), func() reg.GPVirtual { return g.gp("kc") }
	g.MOVQ(ahead, next)
	g.clear(sum)
	g.unrolled("step", "done", kc(), f.unroll, kc, func(steps int) {
		if steps > 1 {
			g.PREFETCHT1(Mem{Base: next})
			g.ADDQ(sizeOf(steps), next)
		}
		for u := range steps {
			for j := range width {
				g.VMOVUPS(Mem{Base: b, Disp: 4 * (f.n*u + f.lanes*j)}, cols[j])
			}
			g.products(sum, cols, t, number(u))
		}
		g.ADDQ(sizeOf(steps*f.n), b)
		for _, p := range first {
			g.ADDQ(sizeOf(steps), p)
		}
	})
	each := func(visit func(s vector, at Mem)) {
		g.MOVQ(c, row)
		for _, r := range sum {
			for j, s := range r {
				visit(s, Mem{Base: row, Disp: 4 * f.lanes * j})
			}
			g.ADDQ(ldc, row)
		}
	}
	g.unless(g.flag("accumulate"), "fresh")
	each(func(s vector, at Mem) { g.VADDPS(at, s, s) })
	g.Label("fresh")
	each(func(s vector, at Mem) { g.VMOVUPS(s, at) })
	g.MOVQ(row, c)
	for _, scale := range []uint8{8, 4, 2, 1} { // h rows on
		if h&int(scale) != 0 {
			g.LEAQ(Mem{Base: panel, Index: lda, Scale: scale}, panel)
		}
	}
	g.ADDQ(g.floatStride("ldahead"), ahead)
	g.DECQ(tiles)
	g.JNZ(LabelRef("tile"))
	g.end()
}

// turnBack turns eight rows at a time.
func turnBack(g *asm) {
	g.function("turnBack", "groups int, src *float32, lds int, bias, dst *float32, ldd int",
		"turnBack turns 8 rows of groups times 8 floats, lds apart, into rows of 8, ldd apart, and adds 8 floats of bias to each,",
		"unless it is nil. groups is at least 1.")
	src, lds, dst, ldd := g.gp("src"), g.floatStride("lds"), g.gp("dst"), g.floatStride("ldd")
	bias, from := g.gp("bias"), g.GP64()
	r, t := several(8, g.YMM), several(8, g.YMM)
	g.repeat("group", g.gp("groups"), func() {
		g.MOVQ(src, from)
		for i := range r {
			g.VMOVUPS(Mem{Base: from}, r[i])
			if i < len(r)-1 {
				g.ADDQ(lds, from)
			}
		}
		g.transpose(r, t)
		g.TESTQ(bias, bias)
		g.JZ(LabelRef("put"))
		for _, v := range t {
			g.VADDPS(Mem{Base: bias}, v, v)
		}
		g.Label("put")
		for _, v := range t {
			g.VMOVUPS(v, Mem{Base: dst})
			g.ADDQ(ldd, dst)
		}
		g.ADDQ(sizeOf(8), src)
	})
	g.end()
}
