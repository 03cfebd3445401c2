package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A form is the kernels for one width of register. Accumulators, two columns of B and two broadcasts of A fill the
// registers. A kernel's chains of multiply-adds are the same in every form.
type form struct {
	suffix string // of the kernels' names
	m, n   int    // rows and columns of a tile
	lanes  int    // of a register, half a tile's columns
	unroll int
}

var avx2 = form{"", 6, 16, 8, 4}

func gemm(g *asm) {
	for h := 1; h <= avx2.m; h++ {
		tile(g, avx2, h)
	}
	for h := 1; h <= avx2.m; h++ {
		excess(g, avx2, h)
	}
	transposeA(g, avx2)
	transposeB(g, "transposeB", avx2.n)
	copyA(g)
	copyB(g, avx2)
	rows(g)
	direct(g)
}

// registers are new ones of the form's width.
func (g *asm) registers(f form, n int) []vector {
	if f.lanes == 16 {
		return several(n, g.ZMM)
	}
	return several(n, g.YMM)
}

// tile multiplies panels of h rows, one after the other, with a panel of up to f.n columns. Within a block of kc every element
// is one chain of fused multiply-adds from zero in the order of p, in every variant, so its bits know nothing of the tile around it.
func tile(g *asm, f form, h int) {
	name := fmt.Sprintf("tile%d%s", h, f.suffix)
	columns := "eight columns when n <= 8 and sixteen otherwise."
	if f.lanes == 16 {
		columns = "sixteen columns when n <= 16 and thirty-two otherwise."
	}
	g.function(name, "tiles, kc, step int, a *float32, lda int, b *float32, ldb int, c *float32, ldc, n int, accumulate bool, ahead *float32, apart, ldahead int",
		fmt.Sprintf("%s computes tiles times %d rows of n columns, one below the other, of C (+)= A*B, 1 <= n <= %d, from panels", name, h, f.n),
		fmt.Sprintf("a[kc][%d], lda apart, and b[kc][ldb], of which it reads %s Blocks of step", f.m, columns),
		"of kc are added to C one after the other. With every tile it prefetches kc floats from ahead on and kc from apart",
		"floats further on; for the next tile, from ldahead further on. tiles, kc and step are at least 1.")
	tiles, panel, ldb := g.gp("tiles"), g.gp("a"), g.floatStride("ldb")
	c, ldc, ahead, apart := g.gp("c"), g.floatStride("ldc"), g.gp("ahead"), g.floatStride("apart")
	left, add := g.AllocLocal(8), g.AllocLocal(8) // of a tile: rows of B to come, and whether a block is added to C
	both := g.tileOf(f, h, 2)
	cols, t := g.registers(f, 2), g.registers(f, 2)

	run := func(name string, width int) {
		g.Label(name)
		row := g.GP64()
		g.MOVQ(c, row)
		for i := range h {
			g.PREFETCHT0(Mem{Base: row})
			if width == 2 {
				g.PREFETCHT0(Mem{Base: row, Disp: 4*f.n - 4})
			}
			if i < h-1 {
				g.ADDQ(ldc, row)
			}
		}
		a, b, next, kc, blocks := g.GP64(), g.gp("b"), g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(panel, a)
		g.MOVQ(ahead, next)
		g.MOVQ(g.gp("kc"), left)
		accumulate := g.flag("accumulate")
		g.MOVB(accumulate, add)

		g.Label(name + "block")
		sum := make([][]vector, h)
		for i := range sum {
			sum[i] = both[i][:width]
		}
		g.clear(sum)
		g.MOVQ(g.gp("step"), kc)
		g.CMPQ(kc, left)
		g.CMOVQGT(left, kc)
		step := func(u int) {
			for j := range width {
				g.VMOVUPS(Mem{Base: b, Disp: 4 * f.lanes * j}, cols[j])
			}
			g.ADDQ(ldb, b)
			g.products(sum, cols, t, f.weights(a, u))
		}
		g.SUBQ(kc, left)
		g.MOVQ(kc, blocks)
		g.unrolled(name, "done", blocks, f.unroll, func() reg.GPVirtual { return kc }, func(steps int) {
			if steps > 1 {
				g.PREFETCHT1(Mem{Base: next})
				g.PREFETCHT1(Mem{Base: next, Index: apart, Scale: 1})
				g.ADDQ(sizeOf(steps), next)
			}
			for u := range steps {
				step(u)
			}
			g.ADDQ(sizeOf(steps*f.m), a)
		})
		flag := g.GP8()
		g.MOVB(add, flag)
		g.storeTile(f, name, sum, c, ldc, g.gp("n"), flag, cols[0], t[0], func() {
			g.MOVB(Imm(1), add)
			g.CMPQ(left, Imm(0))
			g.JNZ(LabelRef(name + "block"))
			for range h {
				g.ADDQ(ldc, c)
			}
			g.ADDQ(g.floatStride("lda"), panel)
			g.ADDQ(g.floatStride("ldahead"), ahead)
			g.DECQ(tiles)
			g.JNZ(LabelRef(name))
			g.end()
		})
	}
	n := g.gp("n")
	g.CMPQ(n, Imm(uint64(f.lanes)))
	g.JLE(LabelRef("narrow"))
	run("wide", 2)
	run("narrow", 1)
}

// packAhead is how many rows further on tilePack asks for a row of B.
const packAhead = 16

// tilePack is tile of one tile of all f.n columns, which packs the panel of B on its way: nothing waits for a copy, and later
// tiles of the panel read it from there.
func tilePack(g *asm, f form, h int) {
	name := fmt.Sprintf("tilePack%d%s", h, f.suffix)
	g.function(name, "kc, step int, a *float32, b *float32, ldb int, packed *float32, c *float32, ldc int, accumulate bool",
		fmt.Sprintf("%s computes %d rows of %d columns of C (+)= A*B as tile%d%s does, from a[kc][%d] and b[kc][ldb], and copies", name, h, f.n, h, f.suffix, f.m),
		fmt.Sprintf("b[kc][%d] into packed. It prefetches later rows of b, and what lies behind each row: the next panel. kc and", f.n),
		"step are at least 1.")
	a, b, ldb, packed := g.gp("a"), g.gp("b"), g.floatStride("ldb"), g.gp("packed")
	c, ldc := g.gp("c"), g.floatStride("ldc")
	left, add := g.AllocLocal(8), g.AllocLocal(8)
	far := g.GP64()
	g.MOVQ(ldb, far)
	g.SHLQ(Imm(2), far) // of four rows
	sum, cols, t := g.tileOf(f, h, 2), g.registers(f, 2), g.registers(f, 2)
	kc, steps := g.GP64(), g.GP64()
	g.MOVQ(g.gp("kc"), kc)
	g.MOVQ(kc, left)
	g.MOVB(g.flag("accumulate"), add)

	g.Label("block")
	g.clear(sum)
	g.MOVQ(g.gp("step"), kc)
	g.CMPQ(kc, left)
	g.CMOVQGT(left, kc)
	g.SUBQ(kc, left)
	g.MOVQ(kc, steps)
	g.repeat("step", steps, func() {
		for j := range cols {
			g.VMOVUPS(Mem{Base: b, Disp: 4 * f.lanes * j}, cols[j])
		}
		for j := range cols {
			g.VMOVUPS(cols[j], Mem{Base: packed, Disp: 4 * f.lanes * j})
		}
		for line := 0; line < 4*f.n; line += 64 {
			g.PREFETCHT0(Mem{Base: b, Index: far, Scale: packAhead / 4, Disp: line})
			g.PREFETCHT1(Mem{Base: b, Disp: 4*f.n + line})
		}
		g.products(sum, cols, t, f.weights(a, 0))
		g.ADDQ(ldb, b)
		g.ADDQ(sizeOf(f.n), packed)
		g.ADDQ(sizeOf(f.m), a)
	})
	n, flag := g.GP64(), g.GP8()
	g.MOVQ(U32(uint32(f.n)), n)
	g.MOVB(add, flag)
	g.storeTile(f, "tile", sum, c, ldc, n, flag, cols[0], t[0], func() {
		g.MOVB(Imm(1), add)
		g.CMPQ(left, Imm(0))
		g.JNZ(LabelRef("block"))
		g.end()
	})
}

// weights are those of step u in a panel of A.
func (f form) weights(a reg.GPVirtual, u int) func(i int) Mem {
	return func(i int) Mem { return Mem{Base: a, Disp: 4 * (u*f.m + i)} }
}

// products adds to every row of a tile one number times the columns.
func (g *asm) products(sum [][]vector, columns, t []vector, number func(i int) Mem) {
	for i, row := range sum {
		g.VBROADCASTSS(number(i), t[i%2])
		for j, s := range row {
			g.VFMADD231PS(columns[j], t[i%2], s)
		}
	}
}

func copyA(g *asm) {
	g.function("copyA", "n int, src *float32, ld int, dst *float32",
		fmt.Sprintf("copyA copies n groups of %d neighbouring floats, ld apart, into dst. n is at least 1.", avx2.m))
	n, src, ld, dst := g.gp("n"), g.gp("src"), g.floatStride("ld"), g.gp("dst")
	x, y := g.XMM(), g.XMM()
	g.repeat("loop", n, func() {
		g.VMOVUPS(Mem{Base: src}, x)
		g.PREFETCHT0(Mem{Base: src, Disp: 128}) // rows of panels that are copied soon
		g.VMOVSD(Mem{Base: src, Disp: 16}, y)
		g.VMOVUPS(x, Mem{Base: dst})
		g.VMOVSD(y, Mem{Base: dst, Disp: 16})
		g.ADDQ(ld, src)
		g.ADDQ(sizeOf(avx2.m), dst)
	})
	g.RET()
}

func copyB(g *asm, f form) {
	name := "copyB" + f.suffix
	g.function(name, "rows, groups int, src *float32, ld int, dst *float32, stride int",
		fmt.Sprintf("%s copies rows of groups times %d floats, ld apart: a group to its panel, stride apart, row below row.", name, f.n),
		"rows and groups are at least 1.")
	rows, src, ld, dst, stride := g.gp("rows"), g.gp("src"), g.floatStride("ld"), g.gp("dst"), g.floatStride("stride")
	x := g.registers(f, 2)
	from, to := g.GP64(), g.GP64()
	g.repeat("row", rows, func() {
		g.MOVQ(src, from)
		g.MOVQ(dst, to)
		g.repeat("group", g.gp("groups"), func() {
			for j := range x {
				g.VMOVUPS(Mem{Base: from, Disp: 4 * f.lanes * j}, x[j])
			}
			for j := range x {
				g.VMOVUPS(x[j], Mem{Base: to, Disp: 4 * f.lanes * j})
			}
			g.ADDQ(sizeOf(f.n), from)
			g.ADDQ(stride, to)
		})
		g.ADDQ(ld, src)
		g.ADDQ(sizeOf(f.n), dst)
	})
	g.end()
}

// rowPointers points at rows 0..w-1 of src; rows past the last repeat it, so that none lies outside.
func rowPointers(g *asm, w int) []reg.GPVirtual {
	p := make([]reg.GPVirtual, w)
	p[0] = g.gp("src")
	rows, ld := g.gp("rows"), g.floatStride("ld")
	for i := 1; i < w; i++ {
		p[i] = g.GP64()
		g.MOVQ(p[i-1], p[i])
		g.ADDQ(ld, p[i])
		g.CMPQ(rows, Imm(uint64(i)))
		g.CMOVQLE(p[i-1], p[i])
	}
	return p
}

// transposeA turns six rows at a time, into panels of any form.
func transposeA(g *asm, f form) {
	const six = 6
	name := "transposeA" + f.suffix
	g.function(name, "n int, src *float32, ld, rows int, dst *float32",
		fmt.Sprintf("%s turns 1 to %d rows of n floats, ld apart, into dst[n][%d]; the columns of missing rows hold", name, six, f.m),
		"copies of the last one.")
	n, dst := g.gp("n"), g.gp("dst")
	src := rowPointers(g, six)
	r, t := several(six, g.XMM), several(six, g.XMM)
	// transpose leaves columns 0..3 of rows 0..3 in r[0..3] and of rows 4, 5 in pairs in t[4], t[5].
	transpose := func() {
		for i := 0; i < six; i += 2 {
			g.VUNPCKLPS(r[i+1], r[i], t[i])
			g.VUNPCKHPS(r[i+1], r[i], t[i+1])
		}
		g.VMOVLHPS(t[2], t[0], r[0])
		g.VMOVHLPS(t[0], t[2], r[1])
		g.VMOVLHPS(t[3], t[1], r[2])
		g.VMOVHLPS(t[1], t[3], r[3])
	}
	put := func(p int) {
		at := Mem{Base: dst, Disp: 4 * f.m * p}
		g.VMOVUPS(r[p], at)
		if p%2 == 0 {
			g.VMOVLPS(t[4+p/2], at.Offset(16))
		} else {
			g.VMOVHPS(t[4+p/2], at.Offset(16))
		}
	}
	mask := g.YMM()
	g.turn(4, f.m, n, dst, src, r, mask, mask.AsX(), transpose, put)
}

// turn does size columns of rows at a time, then the rest under a mask: transpose what is in r, and put each column.
func (g *asm) turn(size, stride int, n, dst reg.GPVirtual, src []reg.GPVirtual, r []vector, mask vector, lanes Op, transpose func(), put func(p int)) {
	g.whole("loop", "rest", size, n, func() {
		for i := range r {
			g.VMOVUPS(Mem{Base: src[i]}, r[i])
			g.ADDQ(sizeOf(size), src[i])
		}
		transpose()
		for p := range size {
			put(p)
		}
		g.ADDQ(sizeOf(size*stride), dst)
	})
	g.JZ(LabelRef("done"))
	left := g.GP64()
	g.MOVQ(n, left)
	g.mask(left, mask)
	for i := range r {
		g.VMASKMOVPS(Mem{Base: src[i]}, lanes, r[i])
	}
	transpose()
	for p := range size - 1 {
		put(p)
		g.DECQ(n)
		g.JZ(LabelRef("done"))
	}
	g.Label("done")
	g.end()
}

// transposeB turns eight rows at a time, into rows of dst that lie stride floats apart.
func transposeB(g *asm, name string, stride int) {
	g.function(name, "n int, src *float32, ld, rows int, dst *float32",
		fmt.Sprintf("%s turns 1 to 8 rows of n floats, ld apart, into eight columns of dst[n][%d]; the columns of missing rows", name, stride),
		"are zero.")
	n, dst := g.gp("n"), g.gp("dst")
	src := rowPointers(g, 8)
	rows := g.gp("rows")
	r, t := several(8, g.YMM), several(8, g.YMM)
	keep := g.AllocLocal(32)
	g.mask(rows, r[0])
	g.VMOVUPS(r[0], keep)
	transpose := func() {
		g.transpose(r, t)
		for i := range t {
			g.VANDPS(keep, t[i], t[i])
		}
	}
	put := func(p int) { g.VMOVUPS(t[p], Mem{Base: dst, Disp: 4 * stride * p}) }
	g.turn(8, stride, n, dst, src, r, t[0], t[0], transpose, put)
}

// transpose sets t to the columns of the 8 by 8 matrix whose rows are in r, which it overwrites.
func (g *asm) transpose(r, t []reg.VecVirtual) {
	for i := 0; i < 8; i += 2 {
		g.VUNPCKLPS(r[i+1], r[i], t[i])
		g.VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	quads := func(i, j, o int) {
		g.VSHUFPS(Imm(0x44), t[j], t[i], r[o])
		g.VSHUFPS(Imm(0xee), t[j], t[i], r[o+1])
	}
	quads(0, 2, 0)
	quads(1, 3, 2)
	quads(4, 6, 4)
	quads(5, 7, 6)
	for i := range 4 {
		g.VPERM2F128(Imm(0x20), r[4+i], r[i], t[i])
		g.VPERM2F128(Imm(0x31), r[4+i], r[i], t[4+i])
	}
}
