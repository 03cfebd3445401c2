package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Of fourteen rows two steps are long enough for a loop.
var avx512 = form{"AVX512", 14, 32, 16, 2}

// gemm512 writes the products and convolutions in registers of sixteen. Groups of outputs are of eight as in AVX2.
func gemm512(g *asm) {
	for h := 1; h <= avx512.m; h++ {
		tile(g, avx512, h)
	}
	// Eight and six rows make a panel of fourteen.
	transposeB(g, "transposeLowAAVX512", avx512.m)
	transposeA(g, avx512)
	transposeB(g, "transposeBAVX512", avx512.n)
	copyA512(g)
	copyB(g, avx512)
	for h := 1; h <= avx512.m; h++ {
		correlate512(g, h)
	}
	for h := 1; h <= narrowM; h++ {
		contract(g, avx512, fmt.Sprintf("contract%d%s", h, avx512.suffix), h, 2)
	}
	for h := 1; h <= narrowM; h++ {
		contract(g, avx512, fmt.Sprintf("contractNarrow%d%s", h, avx512.suffix), h, 1)
	}
}

// opmasks sets the first n of sixteen times width lanes, n in 0..63.
func (g *asm) opmasks(n reg.GPVirtual, width int) []reg.OpmaskVirtual {
	bits := g.GP64()
	g.MOVQ(I32(-1), bits)
	g.BZHIQ(n, bits, bits)
	k := make([]reg.OpmaskVirtual, width)
	for j := range k {
		if j > 0 {
			g.SHRQ(Imm(16), bits)
		}
		k[j] = g.K()
		g.KMOVW(bits.As32(), k[j])
	}
	return k
}

// copyA512 copies panels of any height, as few are of the full one.
func copyA512(g *asm) {
	g.function("copyAAVX512", "n int, src *float32, ld, rows int, dst *float32",
		fmt.Sprintf("copyAAVX512 copies n groups of 1 to %d neighbouring floats, ld apart, into dst[n][%d], and leaves the rest of it.", avx512.m, avx512.m),
		"n is at least 1.")
	n, src, ld, rows, dst := g.gp("n"), g.gp("src"), g.floatStride("ld"), g.gp("rows"), g.gp("dst")
	x, k := g.ZMM(), g.opmasks(rows, 1)[0]
	g.repeat("loop", n, func() {
		g.VMOVUPS_Z(Mem{Base: src}, k, x)
		g.VMOVUPS(x, k, Mem{Base: dst})
		g.ADDQ(ld, src)
		g.ADDQ(sizeOf(avx512.m), dst)
	})
	g.end()
}

// correlate512 is correlate with a pair of groups in each register, and two pairs at a time.
func correlate512(g *asm, h int) {
	name := fmt.Sprintf("correlate%d%s", h, avx512.suffix)
	g.function(name,
		"kc int, a *float32, taps *int32, x *float32, pairs *int32, n int, c *float32, ldc int, accumulate bool, bias *float32, relu bool",
		fmt.Sprintf("%s adds up a[p][i]*x[taps[p]+lane] over p < kc for %d rows i of c, ldc apart, and n pairs of groups of", name, h),
		"outputs. A pair is the places of its groups in x and in a row of c, as byte offsets like taps, and their numbers of",
		"outputs, 0 to 8. kc and n are at least 1. A bias, unless nil, is added, then relu cuts off what is below zero.")
	pairs, n, ldc := g.gp("pairs"), g.gp("n"), g.floatStride("ldc")
	// Writes to halves keep these alive throughout: they are the same for two pairs and for one.
	b, t := several(2, g.ZMM), several(2, g.ZMM)
	g.whole("two", "last", 2, n, func() { g.correlatePairs("two", h, 2, b, t, pairs, ldc) })
	g.JZ(LabelRef("done"))
	g.correlatePairs("one", h, 1, b, t, pairs, ldc)
	g.Label("done")
	g.end()
}

// correlatePairs computes the outputs of width pairs, and moves on past them.
func (g *asm) correlatePairs(name string, h, width int, b, t []vector, pairs, ldc reg.GPVirtual) {
	const pairBytes = 24
	f := avx512
	sum := g.tileOf(f, h, width)
	g.clear(sum)
	a, taps, kc := g.gp("a"), g.gp("taps"), g.gp("kc")
	// places points at the groups of the pairs, in x or in c.
	places := func(param string, disp int) []reg.GPVirtual {
		base := g.gp(param)
		p := make([]reg.GPVirtual, 2*width)
		for i := range p {
			p[i] = g.GP64()
			g.MOVLQSX(Mem{Base: pairs, Disp: i/2*pairBytes + disp + i%2*4}, p[i])
			g.ADDQ(base, p[i])
		}
		return p
	}
	x := places("x", 0)
	step := func(u int) {
		at := g.GP64()
		g.MOVLQSX(Mem{Base: taps, Disp: 4 * u}, at)
		for j := range width {
			g.VMOVUPS(Mem{Base: x[2*j], Index: at, Scale: 1}, b[j].AsY())
			g.VINSERTF32X8(Imm(1), Mem{Base: x[2*j+1], Index: at, Scale: 1}, b[j], b[j])
		}
		g.products(sum, b, t, f.weights(a, u))
	}
	g.weighted(name, "summed", f, kc, a, taps, step)

	k := make([]reg.OpmaskVirtual, 2*width)
	for i := range k {
		count := g.GP64()
		g.MOVLQSX(Mem{Base: pairs, Disp: i/2*pairBytes + 16 + i%2*4}, count)
		k[i] = g.opmasks(count, 1)[0]
	}
	rows := func(visit func(i int, c []Mem)) {
		c := places("c", 8)
		for i := range h {
			m := make([]Mem, len(c))
			for q := range c {
				m[q] = Mem{Base: c[q]}
			}
			visit(i, m)
			if i < h-1 {
				for _, p := range c {
					g.ADDQ(ldc, p)
				}
			}
		}
	}
	g.unless(g.flag("accumulate"), name+"fresh")
	rows(func(i int, c []Mem) {
		for j, s := range sum[i] {
			// Only a move leaves what a mask excludes untouched in memory: an insertion may read it.
			g.VMOVUPS_Z(c[2*j], k[2*j], t[0].AsY())
			g.VMOVUPS_Z(c[2*j+1], k[2*j+1], t[1].AsY())
			g.VINSERTF32X8(Imm(1), t[1].AsY(), t[0], t[0])
			g.VADDPS(t[0], s, s)
		}
	})
	g.Label(name + "fresh")
	g.finish(name, sum, t[0])
	rows(func(i int, c []Mem) {
		for j, s := range sum[i] {
			g.VMOVUPS(s.AsY(), k[2*j], c[2*j])
			g.VEXTRACTF32X8(Imm(1), s, t[0].AsY())
			g.VMOVUPS(t[0].AsY(), k[2*j+1], c[2*j+1])
		}
	})
	g.ADDQ(Imm(uint64(width*pairBytes)), pairs)
}
