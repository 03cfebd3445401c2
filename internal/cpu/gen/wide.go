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
	for h := 1; h <= avx512.m; h++ {
		tilePack(g, avx512, h)
	}
	for h := 1; h <= avx512.m; h++ {
		excess(g, avx512, h)
	}
	// Eight and six rows make a panel of fourteen.
	transposeB(g, "transposeLowAAVX512", avx512.m)
	transposeA(g, avx512)
	transposeB(g, "transposeBAVX512", avx512.n)
	turnB(g)
	for _, h := range turnedRows {
		turnA(g, h)
	}
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
	for _, r := range tapRuns {
		contractRuns(g, r.taps, r.count)
	}
	for h := 1; h <= fewM; h++ {
		contractFew(g, h)
	}
}

// tapRuns are the tiles of contractRuns: so many runs of so many neighbouring taps. Up to sixteen chains of multiply-adds
// hide the latency of one, and need one pointer a run.
var tapRuns = []struct{ taps, count int }{{3, 5}, {4, 4}, {5, 3}}

// fewM channels share a register of taps, of which each register holds three runs.
const (
	fewM    = 8
	fewRuns = 3
)

// contractRuns is contract for at most sixteen columns, where taps are neighbours: one pointer serves a run of them.
func contractRuns(g *asm, taps, count int) {
	name := fmt.Sprintf("contractRuns%d%s", taps, avx512.suffix)
	g.function(name, "rows, inner int, jumps *int32, x *float32, runs *int32, b, c *float32, ldc, n int, accumulate bool",
		fmt.Sprintf("%s is contractNarrow%s of %d rows: row %d*r+i of A is read from x+runs[r]+4*i on, in bytes, for %d runs r.", name, avx512.suffix, taps*count, taps, count))
	p := g.places("x", "runs", count)
	b := g.gp("b")
	sum := g.tileOf(avx512, taps*count, 1)
	g.clear(sum)
	cols := g.registers(avx512, 2)
	g.positions(avx512, func(u int, at reg.GPVirtual) {
		col := cols[u%2]
		g.VMOVUPS(Mem{Base: b, Disp: 4 * avx512.n * u}, col)
		for i, s := range sum {
			g.VFMADD231PS_BCST(Mem{Base: p[i/taps], Index: at, Scale: 1, Disp: 4 * (u + i%taps)}, col, s[0])
		}
	}, func(steps int) { g.ADDQ(sizeOf(steps*avx512.n), b) })
	g.storeTile(avx512, "", sum, g.gp("c"), g.floatStride("ldc"), g.gp("n"), g.flag("accumulate"), cols[0], cols[1], g.end)
}

// contractFew is contract for so few channels that they would leave most of a register empty: its lanes are taps.
func contractFew(g *asm, h int) {
	name := fmt.Sprintf("contractFew%d%s", h, avx512.suffix)
	g.function(name, "rows, inner int, jumps *int32, x *float32, runs, lanes *int32, d *float32, ldd int, c *float32, accumulate bool",
		fmt.Sprintf("%s computes c[i][lane] (+)= sum of x[position+tap of lane]*d[i*ldd+position] for %d rows i of %d lanes, over rows", name, h, avx512.n),
		"times inner positions; in x a jump follows each of those rows. Six loads fill the lanes with taps: number r from",
		"x+runs[r] on, of the lanes whose bits lanes[r] sets; the first three fill the lower half. The other lanes of c are",
		"unspecified. jumps and runs count in bytes; rows and inner are at least 1.")
	list, k := g.gp("lanes"), make([]reg.OpmaskVirtual, 2*fewRuns)
	for r := range k {
		word := g.GP64()
		g.MOVLQSX(Mem{Base: list, Disp: 4 * r}, word)
		k[r] = g.K()
		g.KMOVW(word.As32(), k[r])
	}
	p := g.places("x", "runs", 2*fewRuns)
	// A channel's place is a sum of few registers.
	d, ldd := g.gp("d"), g.floatStride("ldd")
	ldd3, d5 := ldd, d
	if h > 3 {
		ldd3 = g.GP64()
		g.LEAQ(Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	}
	if h > 5 {
		d5 = g.GP64()
		g.LEAQ(Mem{Base: d, Index: ldd, Scale: 4}, d5)
		g.ADDQ(ldd, d5)
	}
	channel := []Mem{
		{Base: d}, {Base: d, Index: ldd, Scale: 1}, {Base: d, Index: ldd, Scale: 2}, {Base: d, Index: ldd3, Scale: 1},
		{Base: d, Index: ldd, Scale: 4}, {Base: d5}, {Base: d, Index: ldd3, Scale: 2}, {Base: d5, Index: ldd, Scale: 2},
	}
	sum := g.tileOf(avx512, h, 2)
	g.clear(sum)
	taps, t := g.registers(avx512, 2), g.registers(avx512, 2)
	g.positions(avx512, func(u int, at reg.GPVirtual) {
		for j, x := range taps {
			for i := range fewRuns {
				r := fewRuns*j + i
				from := Mem{Base: p[r], Index: at, Scale: 1, Disp: 4 * u}
				if i == 0 {
					g.VMOVUPS_Z(from, k[r], x)
				} else {
					g.VMOVUPS(from, k[r], x)
				}
			}
		}
		g.products(sum, taps, t, func(i int) Mem { return channel[i].Offset(4 * u) })
	}, func(steps int) {
		g.ADDQ(sizeOf(steps), d)
		if h > 5 {
			g.ADDQ(sizeOf(steps), d5)
		}
	})
	c := g.gp("c")
	at := func(i, j int) Mem { return Mem{Base: c, Disp: 4 * (i*avx512.n + j*avx512.lanes)} }
	g.unless(g.flag("accumulate"), "put")
	for i, row := range sum {
		for j, s := range row {
			g.VADDPS(at(i, j), s, s)
		}
	}
	g.Label("put")
	for i, row := range sum {
		for j, s := range row {
			g.VMOVUPS(s, at(i, j))
		}
	}
	g.end()
}

// turnB is transposeB for sixteen rows.
func turnB(g *asm) {
	const size = 16
	f := avx512
	g.function("turnBAVX512", "n int, src *float32, ld int, dst *float32",
		fmt.Sprintf("turnBAVX512 turns %d rows of n floats, ld apart, into %d columns of dst[n][%d]. n is at least 1.", size, size, f.n))
	n, src := g.gp("n"), g.rowsApart("src", "ld", size)
	dst := g.gp("dst")
	put := func(p int, column vector) { g.VMOVUPS(column, Mem{Base: dst, Disp: 4 * f.n * p}) }
	g.whole("loop", "rest", size, n, func() {
		r := g.registers(f, size)
		for i := range r {
			g.VMOVUPS(src.row(i), r[i])
		}
		for p, column := range g.transpose16(r) {
			put(p, column)
		}
		src.advance(size)
		g.ADDQ(sizeOf(size*f.n), dst)
	})
	g.JZ(LabelRef("done"))
	k := g.opmasks(n, 1)[0]
	r := g.registers(f, size)
	for i := range r {
		g.VMOVUPS_Z(src.row(i), k, r[i])
	}
	for p, column := range g.transpose16(r)[:size-1] {
		put(p, column)
		g.DECQ(n)
		g.JZ(LabelRef("done"))
	}
	g.Label("done")
	g.end()
}

// turnedRows are the heights of panels of A that have a kernel of their own: those into which many rows are cut.
var turnedRows = []int{12, 13, 14}

// turnA turns h rows into a panel of A.
func turnA(g *asm, h int) {
	const size = 16
	f := avx512
	name := fmt.Sprintf("turnA%d%s", h, f.suffix)
	g.function(name, "n int, src *float32, ld int, dst *float32",
		fmt.Sprintf("%s turns %d rows of n floats, ld apart, into dst[n][%d]; what is left of a column is zero. n is at least 1.", name, h, f.m))
	n, src := g.gp("n"), g.rowsApart("src", "ld", h)
	dst, all, whole := g.gp("dst"), g.GP64(), g.K()
	g.MOVQ(U32(1<<f.m-1), all)
	g.KMOVW(all.As32(), whole)
	at := func(p int) Mem { return Mem{Base: dst, Disp: 4 * f.m * p} }
	rows := func(load func(from Mem, to vector)) []vector {
		r := g.registers(f, size)
		for i := range r {
			if i < h {
				load(src.row(i), r[i])
			} else {
				g.VXORPS(r[i], r[i], r[i])
			}
		}
		return g.transpose16(r)
	}
	g.whole("loop", "rest", size, n, func() {
		columns := rows(func(from Mem, to vector) { g.VMOVUPS(from, to) })
		for p, column := range columns[:size-1] {
			g.VMOVUPS(column, at(p)) // the next one lies over its end
		}
		g.VMOVUPS(columns[size-1], whole, at(size-1))
		src.advance(size)
		g.ADDQ(sizeOf(size*f.m), dst)
	})
	g.JZ(LabelRef("done"))
	k := g.opmasks(n, 1)[0]
	for p, column := range rows(func(from Mem, to vector) { g.VMOVUPS_Z(from, k, to) })[:size-1] {
		g.VMOVUPS(column, whole, at(p))
		g.DECQ(n)
		g.JZ(LabelRef("done"))
	}
	g.Label("done")
	g.end()
}

// rowsApart points at rows that lie one stride apart.
type rowsApart struct {
	g       *asm
	ld, ld3 reg.GPVirtual
	fourth  []reg.GPVirtual // rows 0, 4, 8 and so on
}

func (g *asm) rowsApart(src, ld string, rows int) *rowsApart {
	r := &rowsApart{g: g, ld: g.floatStride(ld), ld3: g.GP64(), fourth: make([]reg.GPVirtual, (rows+3)/4)}
	g.LEAQ(Mem{Base: r.ld, Index: r.ld, Scale: 2}, r.ld3)
	for i := range r.fourth {
		if i == 0 {
			r.fourth[i] = g.gp(src)
		} else {
			r.fourth[i] = g.GP64()
			g.LEAQ(Mem{Base: r.fourth[i-1], Index: r.ld, Scale: 4}, r.fourth[i])
		}
	}
	return r
}

func (r *rowsApart) row(i int) Mem {
	m := Mem{Base: r.fourth[i/4]}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = r.ld, uint8(i%4)
	case 3:
		m.Index, m.Scale = r.ld3, 1
	}
	return m
}

// advance moves all rows on by so many floats.
func (r *rowsApart) advance(floats int) {
	for _, p := range r.fourth {
		r.g.ADDQ(sizeOf(floats), p)
	}
}

// transpose16 gives the columns of the 16 by 16 matrix whose rows are in r.
func (g *asm) transpose16(r []vector) []vector {
	pair := func(low, high func(ops ...Op), a, b vector) (x, y vector) {
		x, y = g.ZMM(), g.ZMM()
		low(b, a, x)
		high(b, a, y)
		return x, y
	}
	for i := 0; i < 16; i += 2 {
		r[i], r[i+1] = pair(g.VPUNPCKLDQ, g.VPUNPCKHDQ, r[i], r[i+1])
	}
	// Then each quarter of register 4i+j has four rows, from 4i on, of column j of the quarter.
	for i := 0; i < 16; i += 4 {
		a, b, c, d := r[i], r[i+1], r[i+2], r[i+3]
		r[i], r[i+1] = pair(g.VPUNPCKLQDQ, g.VPUNPCKHQDQ, a, c)
		r[i+2], r[i+3] = pair(g.VPUNPCKLQDQ, g.VPUNPCKHQDQ, b, d)
	}
	even := func(ops ...Op) { g.VSHUFI64X2(Imm(0x88), ops[0], ops[1], ops[2]) } // quarters 0 and 2 of both
	odd := func(ops ...Op) { g.VSHUFI64X2(Imm(0xdd), ops[0], ops[1], ops[2]) }
	columns := make([]vector, 16)
	for j := range 4 {
		a, b := pair(even, odd, r[j], r[4+j])
		c, d := pair(even, odd, r[8+j], r[12+j])
		columns[j], columns[8+j] = pair(even, odd, a, c)
		columns[4+j], columns[12+j] = pair(even, odd, b, d)
	}
	return columns
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
