package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakChains is how many independent multiply-adds are in flight: two a cycle times a latency of four or five, with room.
const peakChains = 12

// peak multiplies and adds in registers alone. x ← x/2 + 1 stays between 0 and 2, so that no value is slow.
func peak(g *asm) {
	g.function("chains", "rounds int, sum *float32",
		"chains sets x = x/2 + 1 twice a round in twelve registers of eight lanes, from zero, and writes the eight sums of the",
		"twelve. rounds is at least 1.")
	rounds, sum := g.gp("rounds"), g.gp("sum")
	half, one := g.YMM(), g.YMM()
	g.VMOVUPS(g.floats("half", 0.5), half)
	g.VMOVUPS(g.floats("one", 1), one)
	var x [peakChains]reg.VecVirtual
	for i := range x {
		x[i] = g.YMM()
		g.VXORPS(x[i], x[i], x[i])
	}
	g.Label("loop")
	for range 2 {
		for i := range x {
			g.VFMADD213PS(one, half, x[i])
		}
	}
	g.DECQ(rounds)
	g.JNZ(LabelRef("loop"))
	for i := 1; i < peakChains; i++ {
		g.VADDPS(x[i], x[0], x[0])
	}
	g.VMOVUPS(x[0], Mem{Base: sum})
	g.VZEROUPPER()
	g.RET()
}
