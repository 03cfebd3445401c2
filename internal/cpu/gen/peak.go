package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
)

// peakChains is how many independent multiply-adds are in flight: two a cycle times a latency of four or five, with room.
const peakChains = 12

// peak multiplies and adds in registers alone. x ← x/2 + 1 stays between 0 and 2, so that no value is slow.
func peak(g *asm) {
	chains(g, avx2)
	chains(g, avx512)
}

func chains(g *asm, f form) {
	name := "chains" + f.suffix
	g.function(name, "rounds int, sum *float32",
		fmt.Sprintf("%s sets x = x/2 + 1 twice a round in twelve registers of %d lanes, from zero, and writes the %d sums of the", name, f.lanes, f.lanes),
		"twelve. rounds is at least 1.")
	rounds, sum := g.gp("rounds"), g.gp("sum")
	constants, x := g.registers(f, 2), g.registers(f, peakChains)
	half, one := constants[0], constants[1]
	g.VBROADCASTSS(g.floats("half", 0.5), half)
	g.VBROADCASTSS(g.floats("one", 1), one)
	g.clear([][]vector{x})
	g.repeat("loop", rounds, func() {
		for range 2 {
			for i := range x {
				g.VFMADD213PS(one, half, x[i])
			}
		}
	})
	for i := 1; i < peakChains; i++ {
		g.VADDPS(x[i], x[0], x[0])
	}
	g.VMOVUPS(x[0], Mem{Base: sum})
	g.end()
}
