package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// hadamard transforms eight rows at a time, a vector of each: three steps of sums and differences stay in registers.
func hadamard(g *asm) {
	const radix = 8
	lanes := g.form.lanes
	g.function("hadamard"+isa(lanes), "x *float32, apart, vectors int",
		"hadamard"+isa(lanes)+" replaces, at each place of so many vectors of eight floats, eight values apart floats apart by their Hadamard transform. There is at least one vector.")
	stride := g.floatStride("apart")
	zero, two, three, six := g.gp("x"), g.GP64(), g.GP64(), g.GP64() // rows; others are one, two or four rows behind them
	g.LEAQ(Mem{Base: zero, Index: stride, Scale: 2}, two)
	g.LEAQ(Mem{Base: two, Index: stride, Scale: 1}, three)
	g.LEAQ(Mem{Base: two, Index: stride, Scale: 4}, six)
	row := func(k int) Mem {
		return [radix]Mem{
			{Base: zero}, {Base: zero, Index: stride, Scale: 1}, {Base: two}, {Base: three},
			{Base: zero, Index: stride, Scale: 4}, {Base: three, Index: stride, Scale: 2}, {Base: six}, {Base: three, Index: stride, Scale: 4},
		}[k]
	}
	g.repeat("vectors", g.gp("vectors"), func() {
		var v []vector
		for k := range radix {
			v = append(v, g.load(row(k)))
		}
		for apart := radix / 2; apart > 0; apart /= 2 {
			for k := range radix {
				if k&apart != 0 {
					continue
				}
				difference := g.fresh()
				g.VSUBPS(v[k+apart], v[k], difference)
				g.VADDPS(v[k+apart], v[k], v[k])
				v[k+apart] = difference
			}
		}
		for k := range radix {
			g.VMOVUPS(v[k], row(k))
		}
		for _, p := range []reg.GPVirtual{zero, two, three, six} {
			g.ADDQ(sizeOf(lanes), p)
		}
	})
	g.end()
}
