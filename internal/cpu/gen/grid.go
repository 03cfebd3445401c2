package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// towardsZero rounds to a whole number and raises no flag.
const towardsZero = 0x0b

// grids writes the kernels of exact sums. They take float32 products, two vectors of them at a time, to float64.
func grids(g *asm) {
	for _, wide := range []bool{false, true} {
		squareColumns(g, wide)
		gridSum(g, wide)
	}
}

// grid is one of them: registers of float64, and of as many float32.
type grid struct {
	*asm
	wide        bool
	full, half  func() vector
	lanes, size int    // float64 of a register, and their bytes
	suffix      string // of names
}

func newGrid(g *asm, wide bool) *grid {
	if wide {
		return &grid{g, true, g.ZMM, g.YMM, 8, 64, "AVX512"}
	}
	return &grid{g, false, g.YMM, g.XMM, 4, 32, "AVX2"}
}

// pair is two registers.
func (k *grid) pair(register func() vector) [2]vector { return [2]vector{register(), register()} }

// load fills registers from the memory at base and behind it.
func (k *grid) load(base reg.GPVirtual, disp, size int, v [2]vector) {
	for h := range v {
		k.VMOVUPS(Mem{Base: base, Disp: disp + h*size}, v[h])
	}
}

// truncate multiplies products by the scale and drops the fraction.
func (k *grid) truncate(scale, x vector) {
	k.VMULPD(scale, x, x)
	if k.wide {
		k.VRNDSCALEPD(Imm(towardsZero), x, x)
	} else {
		k.VROUNDPD(Imm(towardsZero), x, x)
	}
}

// products are those of d and the floats at x, as float64.
func (k *grid) products(x reg.GPVirtual, disp int, d [2]vector) [2]vector {
	p, full := k.pair(k.half), k.pair(k.full)
	for h := range p {
		k.VMULPS(Mem{Base: x, Disp: disp + h*k.size/2}, d[h], p[h])
		k.VCVTPS2PD(p[h], full[h])
	}
	return full
}

const gridColumns = 16

// squareColumns has a chain of additions for each column and remainder of the row by four.
func squareColumns(g *asm, wide bool) {
	k := newGrid(g, wide)
	const lanes, row = 4, 4 * gridColumns
	g.function("squareColumns"+k.suffix, "sum *float64, d, x *float32, rows int",
		"squareColumns"+k.suffix+" adds (d[c]*x[16*r+c])^2 to sum[16*(r%4)+c] for so many rows r and the first",
		map[bool]string{false: "8", true: "16"}[wide]+" columns c. The product is rounded, its square is not.")
	sum, x, rows := g.gp("sum"), g.gp("x"), g.gp("rows")
	d := k.pair(k.half)
	k.load(g.gp("d"), 0, k.size/2, d)
	var acc [lanes][2]vector
	for q := range acc {
		acc[q] = k.pair(k.full)
		k.load(sum, q*8*gridColumns, k.size, acc[q])
	}
	step := func(q, disp int) {
		p := k.products(x, disp, d)
		for h := range p {
			g.VFMADD231PD(p[h], p[h], acc[q][h])
		}
	}
	g.whole("loop", "rest", lanes, rows, func() {
		for q := range lanes {
			step(q, q*row)
		}
		g.ADDQ(U32(lanes*row), x)
	})
	for q := range lanes - 1 {
		g.TESTQ(rows, rows)
		g.JZ(LabelRef("done"))
		step(q, q*row)
		g.DECQ(rows)
	}
	g.Label("done")
	for q := range acc {
		for h, v := range acc[q] {
			g.VMOVUPS(v, Mem{Base: sum, Disp: q*8*gridColumns + h*k.size})
		}
	}
	g.end()
}

// gridSum holds sixteen sums in registers.
func gridSum(g *asm, wide bool) {
	k := newGrid(g, wide)
	g.function("gridSum"+k.suffix, "sum, squares *float64, d, x *float32, stride int, scale *float64, rows int",
		"gridSum"+k.suffix+" adds trunc(d[r]*x[stride*r+c]*scale[r]) to sum[c] for so many rows r, one or more, and 16 columns c, and",
		"its squares to squares[8*r], ... The products are rounded one after the other.")
	sum, squares, d, x, stride, scale, rows := g.gp("sum"), g.gp("squares"), g.gp("d"), g.gp("x"), g.floatStride("stride"), g.gp("scale"), g.gp("rows")
	acc := make([]vector, gridColumns/k.lanes)
	for i := range acc {
		acc[i] = k.full()
		g.VMOVUPS(Mem{Base: sum, Disp: i * k.size}, acc[i])
	}
	at := g.GP64()
	g.XORQ(at, at)
	g.Label("loop")
	each, by, square := k.half(), k.full(), k.full()
	g.VBROADCASTSS(Mem{Base: d, Index: at, Scale: 4}, each)
	g.VBROADCASTSD(Mem{Base: scale, Index: at, Scale: 8}, by)
	g.VMOVUPS(Mem{Base: squares}, square)
	for i := 0; i < len(acc); i += 2 {
		p := k.products(x, i*k.size/2, [2]vector{each, each})
		for h := range p {
			k.truncate(by, p[h])
			g.VADDPD(p[h], acc[i+h], acc[i+h])
			g.VFMADD231PD(p[h], p[h], square)
		}
	}
	g.VMOVUPS(square, Mem{Base: squares})
	g.ADDQ(stride, x)
	g.ADDQ(Imm(64), squares)
	g.ADDQ(Imm(1), at)
	g.CMPQ(at, rows)
	g.JL(LabelRef("loop"))
	for i, v := range acc {
		g.VMOVUPS(v, Mem{Base: sum, Disp: i * k.size})
	}
	g.end()
}
