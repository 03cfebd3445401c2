package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// excess multiplies as tile does, and adds up at once how far what it finds lies beyond a threshold: no product goes to memory.
func excess(g *asm, f form, h int) {
	name := fmt.Sprintf("excess%d%s", h, f.suffix)
	g.function(name, "tiles, kc int, a *float32, lda int, b, above, below *float32, ld int, less float32",
		fmt.Sprintf("%s adds to above[j] max(x+less, 0), and to below[j] max(less-x, 0), of element x of column j of each of %d rows", name, h),
		fmt.Sprintf("of A*B, in their order, NaN for NaN: from a[kc][%d] and b[kc][%d], with the chains of a tile. It goes through so", f.m, f.n),
		"many tiles with the same b; each has a panel of A, lda apart, and sums, ld apart. tiles and kc are at least 1.")
	tiles, panel, lda, b := g.gp("tiles"), g.gp("a"), g.floatStride("lda"), g.gp("b")
	ld, sides := g.floatStride("ld"), []reg.GPVirtual{g.gp("above"), g.gp("below")}
	g.repeat("tile", tiles, func() {
		sum, cols, t := g.tileOf(f, h, 2), g.registers(f, 2), g.registers(f, 2)
		a, from, blocks, kc := g.GP64(), g.GP64(), g.GP64(), g.gp("kc")
		g.MOVQ(panel, a)
		g.MOVQ(b, from)
		g.MOVQ(kc, blocks)
		g.clear(sum)
		g.unrolled("product", "done", blocks, f.unroll, func() reg.GPVirtual { return kc }, func(steps int) {
			for u := range steps {
				for j := range cols {
					g.VMOVUPS(Mem{Base: from, Disp: 4 * (u*f.n + j*f.lanes)}, cols[j])
				}
				g.products(sum, cols, t, f.weights(a, u))
			}
			g.ADDQ(sizeOf(steps*f.n), from)
			g.ADDQ(sizeOf(steps*f.m), a)
		})
		// Here two registers are left beside sum, less and zero.
		less, zero := g.registers(f, 1)[0], g.registers(f, 1)[0]
		g.VBROADCASTSS(g.address(g.Param("less")), less)
		g.VXORPS(zero, zero, zero)
		for side, sums := range sides {
			for j := range cols {
				at, total, x := Mem{Base: sums, Disp: 4 * j * f.lanes}, g.registers(f, 1)[0], g.registers(f, 1)[0]
				g.VMOVUPS(at, total)
				for _, row := range sum {
					if side == 0 {
						g.VADDPS(less, row[j], x)
					} else {
						g.VSUBPS(row[j], less, x)
					}
					g.VMAXPS(x, zero, x) // a NaN stays: of unordered values it takes the first operand here
					g.VADDPS(x, total, total)
				}
				g.VMOVUPS(total, at)
			}
			g.ADDQ(ld, sums)
		}
		g.ADDQ(lda, panel)
	})
	g.end()
}
