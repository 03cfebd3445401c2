package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowM rows of eight columns: eight chains of multiply-adds hide the latency of one.
const narrowM = 8

// direct writes the convolutions that read an image where it lies.
func direct(g *asm) {
	for h := 1; h <= avx2.m; h++ {
		correlate(g, h)
	}
	for h := 1; h <= avx2.m; h++ {
		contract(g, avx2, fmt.Sprintf("contract%d", h), h, 2)
	}
	for h := 1; h <= narrowM; h++ {
		contract(g, avx2, fmt.Sprintf("contractNarrow%d", h), h, 1)
	}
}

// correlate multiplies a panel of h rows of weights with an image, two groups of up to eight neighbouring outputs at a
// time. Every element is the chain of multiply-adds of a tile.
func correlate(g *asm, h int) {
	g.function(fmt.Sprintf("correlate%d", h),
		"kc int, a *float32, taps *int32, x *float32, pairs *int32, n int, c *float32, ldc int, accumulate bool, bias *float32, relu bool",
		fmt.Sprintf("correlate%d adds up a[p][i]*x[taps[p]+lane] over p < kc for %d rows i of c, ldc apart, and n pairs of groups of", h, h),
		"outputs. A pair is the places of its groups in x and in a row of c, as byte offsets like taps, and their numbers of",
		"outputs, 0 to 8. kc and n are at least 1. A bias, unless nil, is added, then relu cuts off what is below zero.")
	pairs, n := g.gp("pairs"), g.gp("n")
	ldc := g.gp("ldc")
	g.SHLQ(Imm(2), ldc)
	sum := g.tileOf(avx2, h, 2)
	b0, b1, t0, t1 := g.YMM(), g.YMM(), g.YMM(), g.YMM()

	g.Label("pair")
	for i := range sum {
		g.VXORPS(sum[i][0], sum[i][0], sum[i][0])
		g.VXORPS(sum[i][1], sum[i][1], sum[i][1])
	}
	a, taps, kc := g.gp("a"), g.gp("taps"), g.gp("kc")
	x0, x1 := g.GP64(), g.GP64()
	g.MOVLQSX(Mem{Base: pairs}, x0)
	g.MOVLQSX(Mem{Base: pairs, Disp: 4}, x1)
	x := g.gp("x")
	g.ADDQ(x, x0)
	g.ADDQ(x, x1)
	step := func(u int) {
		at := g.GP64()
		g.MOVLQSX(Mem{Base: taps, Disp: 4 * u}, at)
		g.VMOVUPS(Mem{Base: x0, Index: at, Scale: 1}, b0)
		g.VMOVUPS(Mem{Base: x1, Index: at, Scale: 1}, b1)
		for i := range h {
			t := [2]reg.VecVirtual{t0, t1}[i%2]
			g.VBROADCASTSS(Mem{Base: a, Disp: 4 * (u*avx2.m + i)}, t)
			g.VFMADD231PS(b0, t, sum[i][0])
			g.VFMADD231PS(b1, t, sum[i][1])
		}
	}
	const unroll = 4
	blocks := g.GP64()
	g.MOVQ(kc, blocks)
	g.SHRQ(Imm(2), blocks)
	g.JZ(LabelRef("rest"))
	g.Label("blocks")
	for u := range unroll {
		step(u)
	}
	g.ADDQ(Imm(uint64(4*unroll*avx2.m)), a)
	g.ADDQ(Imm(4*unroll), taps)
	g.DECQ(blocks)
	g.JNZ(LabelRef("blocks"))
	g.Label("rest")
	g.ANDQ(Imm(unroll-1), kc)
	g.JZ(LabelRef("done"))
	g.Label("single")
	step(0)
	g.ADDQ(Imm(uint64(4*avx2.m)), a)
	g.ADDQ(Imm(4), taps)
	g.DECQ(kc)
	g.JNZ(LabelRef("single"))
	g.Label("done")

	// One pass over the rows of C for each thing to do; m0 and m1 are masks, or nil for whole groups.
	rows := func(visit func(i int, c0, c1 Mem)) {
		c := g.gp("c")
		c0, c1 := g.GP64(), g.GP64()
		g.MOVLQSX(Mem{Base: pairs, Disp: 8}, c0)
		g.MOVLQSX(Mem{Base: pairs, Disp: 12}, c1)
		g.ADDQ(c, c0)
		g.ADDQ(c, c1)
		for i := range h {
			visit(i, Mem{Base: c0}, Mem{Base: c1})
			if i < h-1 {
				g.ADDQ(ldc, c0)
				g.ADDQ(ldc, c1)
			}
		}
	}
	finish := func(name string) {
		bias := g.gp("bias")
		g.TESTQ(bias, bias)
		g.JZ(LabelRef(name + "unbiased"))
		for i := range h {
			g.VBROADCASTSS(Mem{Base: bias, Disp: 4 * i}, t0)
			g.VADDPS(t0, sum[i][0], sum[i][0])
			g.VADDPS(t0, sum[i][1], sum[i][1])
		}
		g.Label(name + "unbiased")
		relu := g.Load(g.Param("relu"), g.GP8()).(reg.GPVirtual)
		g.TESTB(relu, relu)
		g.JZ(LabelRef(name + "linear"))
		g.VXORPS(t0, t0, t0)
		for i := range h {
			g.VMAXPS(sum[i][0], t0, sum[i][0]) // in this order NaN stays
			g.VMAXPS(sum[i][1], t0, sum[i][1])
		}
		g.Label(name + "linear")
	}
	accumulating := func(skip string) {
		accumulate := g.Load(g.Param("accumulate"), g.GP8()).(reg.GPVirtual)
		g.TESTB(accumulate, accumulate)
		g.JZ(LabelRef(skip))
	}
	n0, n1 := g.GP64(), g.GP64()
	g.MOVLQSX(Mem{Base: pairs, Disp: 16}, n0)
	g.MOVLQSX(Mem{Base: pairs, Disp: 20}, n1)
	both := g.GP64()
	g.LEAQ(Mem{Base: n0, Index: n1, Scale: 1}, both)
	g.CMPQ(both, Imm(uint64(avx2.n)))
	g.JNE(LabelRef("masked"))
	accumulating("put")
	rows(func(i int, c0, c1 Mem) {
		g.VADDPS(c0, sum[i][0], sum[i][0])
		g.VADDPS(c1, sum[i][1], sum[i][1])
	})
	g.Label("put")
	finish("whole")
	rows(func(i int, c0, c1 Mem) {
		g.VMOVUPS(sum[i][0], c0)
		g.VMOVUPS(sum[i][1], c1)
	})
	g.Label("next")
	g.ADDQ(Imm(24), pairs)
	g.DECQ(n)
	g.JNZ(LabelRef("pair"))
	g.VZEROUPPER()
	g.RET()

	g.Label("masked")
	g.mask(n0, b0)
	g.mask(n1, b1)
	accumulating("maskedput")
	rows(func(i int, c0, c1 Mem) {
		g.VMASKMOVPS(c0, b0, t0)
		g.VADDPS(t0, sum[i][0], sum[i][0])
		g.VMASKMOVPS(c1, b1, t1)
		g.VADDPS(t1, sum[i][1], sum[i][1])
	})
	g.Label("maskedput")
	finish("part")
	rows(func(i int, c0, c1 Mem) {
		g.VMASKMOVPS(sum[i][0], b0, c0)
		g.VMASKMOVPS(sum[i][1], b1, c1)
	})
	g.JMP(LabelRef("next"))
}

// contract sums over the positions of an image: h taps against width groups of f.lanes output channels.
func contract(g *asm, f form, name string, h, width int) {
	g.function(name, "rows, inner int, jumps *int32, x *float32, taps *int32, b *float32, c *float32, ldc, n int, accumulate bool",
		fmt.Sprintf("%s computes %d rows of C (+)= A*B, n columns of at most %d, where row i of A is read from x+taps[i] on: rows", name, h, f.lanes*width),
		fmt.Sprintf("times inner values, and after each of those rows a jump. B is packed, %d values a position. taps and jumps count", f.n),
		"in bytes; rows and inner are at least 1.")
	taps, x := g.gp("taps"), g.gp("x")
	p := make([]reg.GPVirtual, h)
	for i := range p {
		p[i] = g.GP64()
		g.MOVLQSX(Mem{Base: taps, Disp: 4 * i}, p[i])
		g.ADDQ(x, p[i])
	}
	b, jumps, rows := g.gp("b"), g.gp("jumps"), g.gp("rows")
	at := g.GP64()
	g.XORQ(at, at)
	sum := g.accumulators(f, h, width)
	b0, b1, t0, t1 := g.register(f), g.register(f), g.register(f), g.register(f)
	step := func(u int) {
		g.VMOVUPS(Mem{Base: b, Disp: 4 * f.n * u}, b0)
		if width == 2 {
			g.VMOVUPS(Mem{Base: b, Disp: 4*f.n*u + 4*f.lanes}, b1)
		}
		for i := range h {
			t := [2]vector{t0, t1}[i%2]
			g.VBROADCASTSS(Mem{Base: p[i], Index: at, Scale: 1, Disp: 4 * u}, t)
			g.VFMADD231PS(b0, t, sum[i][0])
			if width == 2 {
				g.VFMADD231PS(b1, t, sum[i][1])
			}
		}
	}
	g.Label("row")
	blocks := g.gp("inner")
	g.SHRQ(f.shift(), blocks)
	g.JZ(LabelRef("rest"))
	g.Label("blocks")
	for u := range f.unroll {
		step(u)
	}
	g.ADDQ(U32(uint32(4*f.unroll*f.n)), b)
	g.ADDQ(Imm(uint64(4*f.unroll)), at)
	g.DECQ(blocks)
	g.JNZ(LabelRef("blocks"))
	g.Label("rest")
	left := g.gp("inner")
	g.ANDQ(Imm(uint64(f.unroll-1)), left)
	g.JZ(LabelRef("jump"))
	g.Label("single")
	step(0)
	g.ADDQ(Imm(uint64(4*f.n)), b)
	g.ADDQ(Imm(4), at)
	g.DECQ(left)
	g.JNZ(LabelRef("single"))
	g.Label("jump")
	jump := g.GP64()
	g.MOVLQSX(Mem{Base: jumps}, jump)
	g.ADDQ(jump, at)
	g.ADDQ(Imm(4), jumps)
	g.DECQ(rows)
	g.JNZ(LabelRef("row"))

	g.storeTile(f, "", sum, g.gp("c"), g.floatStride("ldc"), g.gp("n"), g.Load(g.Param("accumulate"), g.GP8()).(reg.GPVirtual), b0, t0, func() {
		g.VZEROUPPER()
		g.RET()
	})
}

// tileOf is h rows of width registers.
func (g *asm) tileOf(f form, h, width int) [][]vector {
	sum := make([][]vector, h)
	for i := range sum {
		for range width {
			sum[i] = append(sum[i], g.register(f))
		}
	}
	return sum
}

// accumulators are h rows of width registers, all zero.
func (g *asm) accumulators(f form, h, width int) [][]vector {
	sum := g.tileOf(f, h, width)
	for i := range sum {
		for _, s := range sum[i] {
			g.VXORPS(s, s, s)
		}
	}
	return sum
}

// floatStride is a parameter that counts floats, in bytes.
func (g *asm) floatStride(param string) reg.GPVirtual {
	v := g.gp(param)
	g.SHLQ(Imm(2), v)
	return v
}

// storeTile writes, or adds, the first n columns of a tile whose last group may be cut, and finishes. It overwrites n.
func (g *asm) storeTile(f form, name string, sum [][]vector, c, ldc, n, accumulate reg.GPVirtual, mask, t vector, finish func()) {
	width := len(sum[0])
	edge := width - 1
	rows := func(visit func(i int, row Mem)) {
		row := g.GP64()
		g.MOVQ(c, row)
		for i := range sum {
			visit(i, Mem{Base: row})
			if i < len(sum)-1 {
				g.ADDQ(ldc, row)
			}
		}
	}
	if f.lanes == 16 {
		k := g.opmasks(n, width)
		g.TESTB(accumulate, accumulate)
		g.JZ(LabelRef(name + "put"))
		rows(func(i int, row Mem) {
			for j, s := range sum[i] {
				g.VADDPS(row.Offset(64*j), s, k[j], s)
			}
		})
		g.Label(name + "put")
		rows(func(i int, row Mem) {
			for j, s := range sum[i] {
				g.VMOVUPS(s, k[j], row.Offset(64*j))
			}
		})
		finish()
		return
	}
	g.SUBQ(Imm(uint64(8*edge)), n)
	g.CMPQ(n, Imm(8))
	g.JNE(LabelRef(name + "cut"))
	g.TESTB(accumulate, accumulate)
	g.JZ(LabelRef(name + "put"))
	rows(func(i int, row Mem) {
		for j, s := range sum[i] {
			g.VADDPS(row.Offset(32*j), s, s)
		}
	})
	g.Label(name + "put")
	rows(func(i int, row Mem) {
		for j, s := range sum[i] {
			g.VMOVUPS(s, row.Offset(32*j))
		}
	})
	finish()
	g.Label(name + "cut")
	g.mask(n, mask)
	g.TESTB(accumulate, accumulate)
	g.JZ(LabelRef(name + "cutput"))
	rows(func(i int, row Mem) {
		if width == 2 {
			g.VADDPS(row, sum[i][0], sum[i][0])
		}
		g.VMASKMOVPS(row.Offset(32*edge), mask, t)
		g.VADDPS(t, sum[i][edge], sum[i][edge])
	})
	g.Label(name + "cutput")
	rows(func(i int, row Mem) {
		if width == 2 {
			g.VMOVUPS(sum[i][0], row)
		}
		g.VMASKMOVPS(sum[i][edge], mask, row.Offset(32*edge))
	})
	finish()
}
