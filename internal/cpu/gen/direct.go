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
	for h := 1; h <= mostRuns; h++ {
		picks(g, h)
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
	pairs, n, ldc := g.gp("pairs"), g.gp("n"), g.floatStride("ldc")
	sum := g.tileOf(avx2, h, 2)
	b, t := several(2, g.YMM), several(2, g.YMM)
	// both is a number of each group of a pair.
	both := func(disp int) [2]reg.GPVirtual {
		p := [2]reg.GPVirtual{g.GP64(), g.GP64()}
		for j := range p {
			g.MOVLQSX(Mem{Base: pairs, Disp: disp + 4*j}, p[j])
		}
		return p
	}
	move := func(p [2]reg.GPVirtual, by reg.GPVirtual) {
		for j := range p {
			g.ADDQ(by, p[j])
		}
	}

	g.Label("pair")
	g.clear(sum)
	a, taps, kc := g.gp("a"), g.gp("taps"), g.gp("kc")
	x := both(0)
	move(x, g.gp("x"))
	g.weighted("", "done", avx2, kc, a, taps, func(u int) {
		at := g.GP64()
		g.MOVLQSX(Mem{Base: taps, Disp: 4 * u}, at)
		for j := range b {
			g.VMOVUPS(Mem{Base: x[j], Index: at, Scale: 1}, b[j])
		}
		g.products(sum, b, t, avx2.weights(a, u))
	})

	// One pass over the rows of C for each thing to do.
	each := func(visit func(j int, s vector, c Mem)) {
		base := g.gp("c")
		c := both(8)
		move(c, base)
		for i := range h {
			for j, s := range sum[i] {
				visit(j, s, Mem{Base: c[j]})
			}
			if i < h-1 {
				move(c, ldc)
			}
		}
	}
	lengths, total := both(16), g.GP64()
	g.LEAQ(Mem{Base: lengths[0], Index: lengths[1], Scale: 1}, total)
	g.CMPQ(total, Imm(uint64(avx2.n)))
	g.JNE(LabelRef("masked"))
	g.unless(g.flag("accumulate"), "put")
	each(func(_ int, s vector, c Mem) { g.VADDPS(c, s, s) })
	g.Label("put")
	g.finish("whole", sum, t[0])
	each(func(_ int, s vector, c Mem) { g.VMOVUPS(s, c) })
	g.Label("next")
	g.ADDQ(Imm(24), pairs)
	g.DECQ(n)
	g.JNZ(LabelRef("pair"))
	g.end()

	g.Label("masked")
	for j := range b {
		g.mask(lengths[j], b[j])
	}
	g.unless(g.flag("accumulate"), "maskedput")
	each(func(j int, s vector, c Mem) {
		g.VMASKMOVPS(c, b[j], t[j])
		g.VADDPS(t[j], s, s)
	})
	g.Label("maskedput")
	g.finish("part", sum, t[0])
	each(func(j int, s vector, c Mem) { g.VMASKMOVPS(s, b[j], c) })
	g.JMP(LabelRef("next"))
}

// finish adds the bias to the rows of a tile and cuts off what is below zero, as the parameters say.
func (g *asm) finish(name string, sum [][]vector, t vector) {
	bias := g.gp("bias")
	g.TESTQ(bias, bias)
	g.JZ(LabelRef(name + "unbiased"))
	for i, row := range sum {
		g.VBROADCASTSS(Mem{Base: bias, Disp: 4 * i}, t)
		for _, s := range row {
			g.VADDPS(t, s, s)
		}
	}
	g.Label(name + "unbiased")
	g.unless(g.flag("relu"), name+"linear")
	g.VXORPS(t, t, t)
	for _, row := range sum {
		for _, s := range row {
			g.VMAXPS(s, t, s) // in this order NaN stays
		}
	}
	g.Label(name + "linear")
}

// weighted does the steps that kc counts, and moves on past their weights and taps.
func (g *asm) weighted(name, done string, f form, kc, a, taps reg.GPVirtual, step func(u int)) {
	blocks := g.GP64()
	g.MOVQ(kc, blocks)
	g.unrolled(name, done, blocks, f.unroll, func() reg.GPVirtual { return kc }, func(steps int) {
		for u := range steps {
			step(u)
		}
		g.ADDQ(sizeOf(steps*f.m), a)
		g.ADDQ(sizeOf(steps), taps)
	})
}

// contract sums over the positions of an image: h taps against width groups of f.lanes output channels.
func contract(g *asm, f form, name string, h, width int) {
	g.function(name, "rows, inner int, jumps *int32, x *float32, taps *int32, b *float32, c *float32, ldc, n int, accumulate bool",
		fmt.Sprintf("%s computes %d rows of C (+)= A*B, n columns of at most %d, where row i of A is read from x+taps[i] on: rows", name, h, f.lanes*width),
		fmt.Sprintf("times inner values, and after each of those rows a jump. B is packed, %d values a position. taps and jumps count", f.n),
		"in bytes; rows and inner are at least 1.")
	p := g.places("x", "taps", h)
	b := g.gp("b")
	sum := g.tileOf(f, h, width)
	g.clear(sum)
	cols, t := g.registers(f, 2), g.registers(f, 2)
	g.positions(f, func(u int, at reg.GPVirtual) {
		for j := range width {
			g.VMOVUPS(Mem{Base: b, Disp: 4*f.n*u + 4*f.lanes*j}, cols[j])
		}
		g.products(sum, cols, t, func(i int) Mem { return Mem{Base: p[i], Index: at, Scale: 1, Disp: 4 * u} })
	}, func(steps int) { g.ADDQ(sizeOf(steps*f.n), b) })
	g.storeTile(f, "", sum, g.gp("c"), g.floatStride("ldc"), g.gp("n"), g.flag("accumulate"), cols[0], t[0], g.end)
}

// mostRuns of taps are as many as there are registers for their places in an image.
const mostRuns = 8

// picks sums over the windows of a max pooling, whose δ stands at one output each: h runs of four to eight taps.
func picks(g *asm, h int) {
	g.function(fmt.Sprintf("picks%d", h),
		"channels, windows int, delta *float32, at *int32, outputs int, places *int32, x *float32, runs *int32, c *float32, ldc, run int",
		fmt.Sprintf("picks%d writes %d runs of c, of four to eight values, for each channel, whose rows of c are ldc apart. Value l of run i is, of", h, h),
		"channel j, the sum of delta[k]*x[places[at[k]-j*outputs]+runs[i]+l] over its windows k. Channels have their delta and at",
		"one after the other. places and runs count in bytes; channels and windows are at least 1.")
	p := g.places("x", "runs", h)
	channels, delta, at, places, c := g.gp("channels"), g.gp("delta"), g.gp("at"), g.gp("places"), g.gp("c")
	sum, d := g.registers(avx2, h), g.YMM()
	g.repeat("channel", channels, func() {
		g.clear([][]vector{sum})
		g.repeat("window", g.gp("windows"), func() {
			place := g.GP64()
			g.MOVLQSX(Mem{Base: at}, place)
			g.MOVLQSX(Mem{Base: places, Index: place, Scale: 4}, place)
			g.VBROADCASTSS(Mem{Base: delta}, d)
			for i, s := range sum {
				g.VFMADD231PS(Mem{Base: p[i], Index: place, Scale: 1}, d, s)
			}
			g.ADDQ(Imm(4), at)
			g.ADDQ(Imm(4), delta)
		})
		to, run := g.GP64(), g.floatStride("run")
		g.MOVQ(c, to)
		for _, s := range sum[:h-1] {
			g.VMOVUPS(s, Mem{Base: to}) // what this writes behind a run has its place in the next
			g.ADDQ(run, to)
		}
		last := g.gp("run")
		g.TESTL(U32(8), last.As32())
		g.JZ(LabelRef("few"))
		g.VMOVUPS(sum[h-1], Mem{Base: to})
		g.Label("few")
		g.few(sum[h-1], to, last, "last")
		g.ADDQ(g.floatStride("ldc"), c)
		g.SUBQ(g.floatStride("outputs"), places)
	})
	g.end()
}

// places points at count places in memory, at byte offsets from a parameter that another one lists.
func (g *asm) places(base, offsets string, count int) []reg.GPVirtual {
	from, list := g.gp(base), g.gp(offsets)
	p := make([]reg.GPVirtual, count)
	for i := range p {
		p[i] = g.GP64()
		g.MOVLQSX(Mem{Base: list, Disp: 4 * i}, p[i])
		g.ADDQ(from, p[i])
	}
	return p
}

// positions does step for every position of the rows, at byte offset at of an image; past moves on what is read besides.
func (g *asm) positions(f form, step func(u int, at reg.GPVirtual), past func(steps int)) {
	jumps, rows, at := g.gp("jumps"), g.gp("rows"), g.GP64()
	g.XORQ(at, at)
	inner := func() reg.GPVirtual { return g.gp("inner") }
	g.repeat("row", rows, func() {
		g.unrolled("", "jump", inner(), f.unroll, inner, func(steps int) {
			for u := range steps {
				step(u, at)
			}
			past(steps)
			g.ADDQ(sizeOf(steps), at)
		})
		jump := g.GP64()
		g.MOVLQSX(Mem{Base: jumps}, jump)
		g.ADDQ(jump, at)
		g.ADDQ(Imm(4), jumps)
	})
}

// tileOf is h rows of width registers.
func (g *asm) tileOf(f form, h, width int) [][]vector {
	sum := make([][]vector, h)
	for i := range sum {
		sum[i] = g.registers(f, width)
	}
	return sum
}

// clear sets a tile to zero.
func (g *asm) clear(sum [][]vector) {
	for _, row := range sum {
		for _, s := range row {
			g.VXORPS(s, s, s)
		}
	}
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
		g.unless(accumulate, name+"put")
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
	g.unless(accumulate, name+"put")
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
	g.unless(accumulate, name+"cutput")
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
