package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Twelve accumulators, two columns of B and two broadcasts of A fill the sixteen vector registers.
const (
	tileM = 6
	tileN = 16
)

func gemm(g *asm) {
	for h := 1; h <= tileM; h++ {
		tile(g, h)
	}
	transposeA(g)
	transposeB(g)
	copyA(g)
	copyB(g)
	direct(g)
}

// tile multiplies a panel of h rows with a panel of up to sixteen columns. Every element is one chain of fused
// multiply-adds from zero in the order of p, in every variant, so its bits know nothing of the tile around it.
func tile(g *asm, h int) {
	g.function(fmt.Sprintf("tile%d", h), "kc int, a, b *float32, ldb int, c *float32, ldc, n int, accumulate bool",
		fmt.Sprintf("tile%d computes a %d by n tile C (+)= A*B, 1 <= n <= %d, from a[kc][%d] and b[kc][ldb], of which it", h, h, tileN, tileM),
		"reads eight columns when n <= 8 and sixteen otherwise. kc is at least 1.")
	kc, a, b, ldb := g.gp("kc"), g.gp("a"), g.gp("b"), g.gp("ldb")
	c, ldc, n := g.gp("c"), g.gp("ldc"), g.gp("n")
	accumulate := g.Load(g.Param("accumulate"), g.GP8()).(reg.GPVirtual)
	g.SHLQ(Imm(2), ldc)
	g.SHLQ(Imm(2), ldb)
	sum := g.accumulators(h, 2)
	for i := range sum {
		for _, s := range sum[i] {
			g.VXORPS(s, s, s)
		}
	}
	b0, b1, t0, t1 := g.YMM(), g.YMM(), g.YMM(), g.YMM()
	row := g.GP64()
	g.MOVQ(c, row)
	for i := range h {
		g.PREFETCHT0(Mem{Base: row})
		g.PREFETCHT0(Mem{Base: row, Disp: 60})
		if i < h-1 {
			g.ADDQ(ldc, row)
		}
	}

	step := func(u, width int) {
		g.VMOVUPS(Mem{Base: b}, b0)
		if width == 2 {
			g.VMOVUPS(Mem{Base: b, Disp: 32}, b1)
		}
		g.ADDQ(ldb, b)
		for i := range h {
			t := [2]reg.VecVirtual{t0, t1}[i%2]
			g.VBROADCASTSS(Mem{Base: a, Disp: 4 * (u*tileM + i)}, t)
			g.VFMADD231PS(b0, t, sum[i][0])
			if width == 2 {
				g.VFMADD231PS(b1, t, sum[i][1])
			}
		}
	}
	product := func(name string, width int) {
		const unroll = 4
		blocks := g.GP64()
		g.MOVQ(kc, blocks)
		g.SHRQ(Imm(2), blocks)
		g.JZ(LabelRef(name + "rest"))
		g.Label(name + "blocks")
		for u := range unroll {
			step(u, width)
		}
		g.ADDQ(Imm(4*unroll*tileM), a)
		g.DECQ(blocks)
		g.JNZ(LabelRef(name + "blocks"))
		g.Label(name + "rest")
		g.ANDQ(Imm(unroll-1), kc)
		g.JZ(LabelRef(name + "done"))
		g.Label(name + "single")
		step(0, width)
		g.ADDQ(Imm(4*tileM), a)
		g.DECQ(kc)
		g.JNZ(LabelRef(name + "single"))
		g.Label(name + "done")
	}

	g.CMPQ(n, Imm(8))
	g.JLE(LabelRef("narrow"))
	product("wide", 2)
	g.storeTile("wide", sum, c, ldc, n, accumulate, b0, t0)
	g.Label("narrow")
	product("narrow", 1)
	g.storeTile("narrow", firsts(sum), c, ldc, n, accumulate, b0, t0)
}

// firsts is the first register of every row.
func firsts(sum [][]reg.VecVirtual) [][]reg.VecVirtual {
	f := make([][]reg.VecVirtual, len(sum))
	for i := range f {
		f[i] = sum[i][:1]
	}
	return f
}

func copyA(g *asm) {
	g.function("copyA", "n int, src *float32, ld int, dst *float32",
		fmt.Sprintf("copyA copies n groups of %d neighbouring floats, ld apart, into dst. n is at least 1.", tileM))
	n, src, ld, dst := g.gp("n"), g.gp("src"), g.floatStride("ld"), g.gp("dst")
	x, y := g.XMM(), g.XMM()
	g.Label("loop")
	g.VMOVUPS(Mem{Base: src}, x)
	g.VMOVSD(Mem{Base: src, Disp: 16}, y)
	g.VMOVUPS(x, Mem{Base: dst})
	g.VMOVSD(y, Mem{Base: dst, Disp: 16})
	g.ADDQ(ld, src)
	g.ADDQ(Imm(4*tileM), dst)
	g.DECQ(n)
	g.JNZ(LabelRef("loop"))
	g.RET()
}

func copyB(g *asm) {
	g.function("copyB", "rows, groups int, src *float32, ld int, dst *float32, stride int",
		fmt.Sprintf("copyB copies rows of groups times %d floats, ld apart: a group to its panel, stride apart, row below row.", tileN),
		"rows and groups are at least 1.")
	rows, src, ld, dst, stride := g.gp("rows"), g.gp("src"), g.floatStride("ld"), g.gp("dst"), g.floatStride("stride")
	x, y := g.YMM(), g.YMM()
	from, to := g.GP64(), g.GP64()
	g.Label("row")
	g.MOVQ(src, from)
	g.MOVQ(dst, to)
	left := g.gp("groups")
	g.Label("group")
	g.VMOVUPS(Mem{Base: from}, x)
	g.VMOVUPS(Mem{Base: from, Disp: 32}, y)
	g.VMOVUPS(x, Mem{Base: to})
	g.VMOVUPS(y, Mem{Base: to, Disp: 32})
	g.ADDQ(Imm(4*tileN), from)
	g.ADDQ(stride, to)
	g.DECQ(left)
	g.JNZ(LabelRef("group"))
	g.ADDQ(ld, src)
	g.ADDQ(Imm(4*tileN), dst)
	g.DECQ(rows)
	g.JNZ(LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// rowPointers points at rows 0..w-1 of src; rows past the last repeat it, so that none lies outside.
func rowPointers(g *asm, w int) []reg.GPVirtual {
	p := make([]reg.GPVirtual, w)
	p[0] = g.gp("src")
	rows, ld := g.gp("rows"), g.gp("ld")
	g.SHLQ(Imm(2), ld)
	for i := 1; i < w; i++ {
		p[i] = g.GP64()
		g.MOVQ(p[i-1], p[i])
		g.ADDQ(ld, p[i])
		g.CMPQ(rows, Imm(uint64(i)))
		g.CMOVQLE(p[i-1], p[i])
	}
	return p
}

func transposeA(g *asm) {
	g.function("transposeA", "n int, src *float32, ld, rows int, dst *float32",
		fmt.Sprintf("transposeA turns 1 to %d rows of n floats, ld apart, into dst[n][%d]; the columns of missing rows hold", tileM, tileM),
		"copies of the last one.")
	n, dst := g.gp("n"), g.gp("dst")
	src := rowPointers(g, tileM)
	r, t := g.xmms(tileM), g.xmms(tileM)
	// transpose leaves columns 0..3 of rows 0..3 in r[0..3] and of rows 4, 5 in pairs in t[4], t[5].
	transpose := func() {
		for i := 0; i < tileM; i += 2 {
			g.VUNPCKLPS(r[i+1], r[i], t[i])
			g.VUNPCKHPS(r[i+1], r[i], t[i+1])
		}
		g.VMOVLHPS(t[2], t[0], r[0])
		g.VMOVHLPS(t[0], t[2], r[1])
		g.VMOVLHPS(t[3], t[1], r[2])
		g.VMOVHLPS(t[1], t[3], r[3])
	}
	put := func(p int) {
		at := Mem{Base: dst, Disp: 4 * tileM * p}
		g.VMOVUPS(r[p], at)
		if p%2 == 0 {
			g.VMOVLPS(t[4+p/2], at.Offset(16))
		} else {
			g.VMOVHPS(t[4+p/2], at.Offset(16))
		}
	}
	g.SUBQ(Imm(4), n)
	g.JL(LabelRef("rest"))
	g.Label("loop")
	for i := range r {
		g.VMOVUPS(Mem{Base: src[i]}, r[i])
		g.ADDQ(Imm(16), src[i])
	}
	transpose()
	for p := range 4 {
		put(p)
	}
	g.ADDQ(Imm(4*4*tileM), dst)
	g.SUBQ(Imm(4), n)
	g.JGE(LabelRef("loop"))
	g.Label("rest")
	g.ADDQ(Imm(4), n)
	g.JZ(LabelRef("done"))
	left, mask := g.GP64(), g.YMM()
	g.MOVQ(n, left)
	g.mask(left, mask)
	for i := range r {
		g.VMASKMOVPS(Mem{Base: src[i]}, mask.AsX(), r[i])
	}
	transpose()
	for p := range 3 {
		put(p)
		g.DECQ(n)
		g.JZ(LabelRef("done"))
	}
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

func transposeB(g *asm) {
	g.function("transposeB", "n int, src *float32, ld, rows int, dst *float32",
		fmt.Sprintf("transposeB turns 1 to 8 rows of n floats, ld apart, into eight columns of dst[n][%d]; the columns of missing rows", tileN),
		"are zero.")
	n, dst := g.gp("n"), g.gp("dst")
	src := rowPointers(g, 8)
	rows := g.gp("rows")
	r, t := g.ymms(8), g.ymms(8)
	keep := g.AllocLocal(32)
	g.mask(rows, r[0])
	g.VMOVUPS(r[0], keep)
	transpose := func() {
		g.transpose(r, t)
		for i := range t {
			g.VANDPS(keep, t[i], t[i])
		}
	}
	put := func(p int) { g.VMOVUPS(t[p], Mem{Base: dst, Disp: 4 * tileN * p}) }
	g.SUBQ(Imm(8), n)
	g.JL(LabelRef("rest"))
	g.Label("loop")
	for i := range r {
		g.VMOVUPS(Mem{Base: src[i]}, r[i])
		g.ADDQ(Imm(32), src[i])
	}
	transpose()
	for p := range t {
		put(p)
	}
	g.ADDQ(U32(4*8*tileN), dst)
	g.SUBQ(Imm(8), n)
	g.JGE(LabelRef("loop"))
	g.Label("rest")
	g.ADDQ(Imm(8), n)
	g.JZ(LabelRef("done"))
	left := g.GP64()
	g.MOVQ(n, left)
	g.mask(left, t[0])
	for i := range r {
		g.VMASKMOVPS(Mem{Base: src[i]}, t[0], r[i])
	}
	transpose()
	for p := range 7 {
		put(p)
		g.DECQ(n)
		g.JZ(LabelRef("done"))
	}
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

func (g *asm) xmms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = g.XMM()
	}
	return v
}

func (g *asm) ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = g.YMM()
	}
	return v
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
