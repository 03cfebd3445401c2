package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// winograd writes the transforms of 3×3 convolutions by squares of 2×2 outputs, lanes squares at a time. Within a
// register squares lie as VSHUFPS leaves them: VUNPCKLPS and VUNPCKHPS put their outputs in order again.
func winograd(g *asm, lanes int) {
	readSquares(g, lanes)
	writeSquares(g, lanes)
}

// register is a new one of so many lanes.
func (g *asm) register(lanes int) vector {
	switch lanes {
	case 4:
		return g.XMM()
	case 8:
		return g.YMM()
	}
	return g.ZMM()
}

// parts addresses sixteen matrices, stride bytes apart: of each four the first is at a pointer of its own.
type parts struct {
	first          [4]reg.GPVirtual
	stride, triple reg.GPVirtual
}

func (g *asm) parts(stride string) (p parts) {
	p.stride, p.triple = g.floatStride(stride), g.GP64()
	g.LEAQ(Mem{Base: p.stride, Index: p.stride, Scale: 2}, p.triple)
	for i := range p.first {
		p.first[i] = g.GP64()
	}
	return p
}

// begin points at the first matrix.
func (p *parts) begin(g *asm, at reg.GPVirtual) {
	g.MOVQ(at, p.first[0])
	for i := range 3 {
		g.LEAQ(Mem{Base: p.first[i], Index: p.stride, Scale: 4}, p.first[i+1])
	}
}

func (p *parts) advance(g *asm, bytes int) {
	for _, at := range p.first {
		g.ADDQ(Imm(uint64(bytes)), at)
	}
}

func (p *parts) at(i, j int) Mem {
	switch j {
	case 0:
		return Mem{Base: p.first[i]}
	case 3:
		return Mem{Base: p.first[i], Index: p.triple, Scale: 1}
	}
	return Mem{Base: p.first[i], Index: p.stride, Scale: uint8(j)}
}

// readSquares transforms what the outputs of rows of squares read.
func readSquares(g *asm, lanes int) {
	name := fmt.Sprintf("readSquares%d", lanes)
	g.function(name, "channels, rows int, x *float32, plane, pitch int, v *float32, step, stride int",
		fmt.Sprintf("%s transforms %d squares of each of rows, two rows of the image apart, for all channels: image x has them", name, lanes),
		"plane floats apart and its rows pitch. Sixteen values of a square go to matrices stride floats apart, from v on: a channel",
		fmt.Sprintf("step further than the one before, a row %d. channels and rows are at least 1.", lanes))
	width := 4 * lanes
	p := g.parts("stride")
	x, v, channels, pitch := g.gp("x"), g.gp("v"), g.gp("channels"), g.floatStride("pitch")
	pitch3, row, rows := g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, pitch3)
	// What lies between the two halves of the transform stays in registers where there are enough.
	var t [4][4]Op
	local := Mem{}
	if lanes < 16 {
		local = g.AllocLocal(16 * width)
	}
	keep := func(i, j int, r vector) {
		if lanes == 16 {
			t[i][j] = r
			return
		}
		t[i][j] = local.Offset((4*i + j) * width)
		g.VMOVUPS(r, t[i][j])
	}
	kept := func(i, j int) vector {
		if r, ok := t[i][j].(vector); ok {
			return r
		}
		r := g.register(lanes)
		g.VMOVUPS(t[i][j], r)
		return r
	}
	g.repeat("channel", channels, func() {
		p.begin(g, v)
		g.MOVQ(x, row)
		g.MOVQ(g.address(g.Param("rows")), rows)
		g.repeat("row", rows, func() {
			for i := range 4 {
				at := Mem{Base: row}
				switch i {
				case 1, 2:
					at.Index, at.Scale = pitch, uint8(i)
				case 3:
					at.Index, at.Scale = pitch3, 1
				}
				// Even and odd elements, and those that follow two further on.
				split := func(from Mem) (even, odd vector) {
					a, b := g.register(lanes), g.register(lanes)
					g.VMOVUPS(from, a)
					g.VMOVUPS(from.Offset(width), b)
					even, odd = g.register(lanes), g.register(lanes)
					g.VSHUFPS(Imm(0x88), b, a, even)
					g.VSHUFPS(Imm(0xdd), b, a, odd)
					return even, odd
				}
				e, o := split(at)
				e1, o1 := split(at.Offset(8))
				r := [4]vector{}
				for j := range r {
					r[j] = g.register(lanes)
				}
				g.VSUBPS(e1, e, r[0])
				g.VADDPS(e1, o, r[1])
				g.VSUBPS(o, e1, r[2])
				g.VSUBPS(o1, o, r[3])
				for j := range r {
					keep(i, j, r[j])
				}
			}
			for j := range 4 {
				r1, r2, y := kept(1, j), kept(2, j), g.register(lanes)
				g.VSUBPS(r2, kept(0, j), y)
				g.VMOVUPS(y, p.at(0, j))
				y = g.register(lanes)
				g.VADDPS(r2, r1, y)
				g.VMOVUPS(y, p.at(1, j))
				y = g.register(lanes)
				g.VSUBPS(r1, r2, y)
				g.VMOVUPS(y, p.at(2, j))
				y = g.register(lanes)
				g.VSUBPS(t[3][j], r1, y)
				g.VMOVUPS(y, p.at(3, j))
			}
			p.advance(g, width)
			g.LEAQ(Mem{Base: row, Index: pitch, Scale: 2}, row)
		})
		next := g.floatStride("plane")
		g.ADDQ(next, x)
		next = g.floatStride("step")
		g.ADDQ(next, v)
	})
	g.end()
}

// writeSquares makes outputs of sixteen products.
func writeSquares(g *asm, lanes int) {
	name := fmt.Sprintf("writeSquares%d", lanes)
	g.function(name, "channels, rows, squares int, m *float32, step, stride int, y *float32, ldy, pitch int, accumulate bool, bias *float32, relu bool",
		fmt.Sprintf("%s makes the outputs of 1 to %d squares of each of rows, for all channels, of sixteen matrices stride floats", name, lanes),
		fmt.Sprintf("apart, from m on, where a row of squares is %d floats and a channel step further. Outputs y of channels lie ldy apart,", lanes),
		"their rows pitch. A bias, unless nil, is added, then relu cuts off what is below zero. channels and rows are at least 1.")
	width := 4 * lanes
	p := g.parts("stride")
	m, y, channels, pitch := g.gp("m"), g.gp("y"), g.gp("channels"), g.floatStride("pitch")
	row, rows := g.GP64(), g.GP64()
	biases, bias := g.gp("bias"), g.register(lanes)
	// Of 2·squares outputs a row the first half goes to one register.
	counts := [2]reg.GPVirtual{g.gp("squares"), g.GP64()}
	g.ADDQ(counts[0], counts[0])
	g.MOVQ(counts[0], counts[1])
	half := g.GP64()
	g.MOVQ(I32(int32(lanes)), half)
	g.CMPQ(counts[0], half)
	g.CMOVQGT(half, counts[0])
	g.SUBQ(counts[0], counts[1])
	var masks [2]Op
	for h, n := range counts {
		if lanes == 16 {
			masks[h] = g.opmasks(n, 1)[0]
			continue
		}
		masks[h] = g.register(lanes)
		g.mask(n, masks[h].(vector))
	}
	g.repeat("channel", channels, func() {
		p.begin(g, m)
		g.MOVQ(y, row)
		g.MOVQ(g.address(g.Param("rows")), rows)
		g.TESTQ(biases, biases)
		g.JZ(LabelRef("row"))
		g.VBROADCASTSS(Mem{Base: biases}, bias)
		g.ADDQ(Imm(4), biases)
		g.repeat("row", rows, func() {
			var a [2][4]vector
			for j := range 4 {
				m1, m2 := g.register(lanes), g.register(lanes)
				g.VMOVUPS(p.at(1, j), m1)
				g.VMOVUPS(p.at(2, j), m2)
				a[0][j], a[1][j] = g.register(lanes), g.register(lanes)
				g.VADDPS(p.at(0, j), m1, a[0][j])
				g.VADDPS(m2, a[0][j], a[0][j])
				g.VSUBPS(m2, m1, a[1][j])
				g.VSUBPS(p.at(3, j), a[1][j], a[1][j])
			}
			var out [4]vector // of each row the lower and the upper half
			for r := range 2 {
				y0, y1 := g.register(lanes), g.register(lanes)
				g.VADDPS(a[r][1], a[r][0], y0)
				g.VADDPS(a[r][2], y0, y0)
				g.VSUBPS(a[r][2], a[r][1], y1)
				g.VSUBPS(a[r][3], y1, y1)
				out[2*r], out[2*r+1] = g.register(lanes), g.register(lanes)
				g.VUNPCKLPS(y1, y0, out[2*r])
				g.VUNPCKHPS(y1, y0, out[2*r+1])
			}
			each := func(visit func(v vector, mask Op, at Mem)) {
				for q, v := range out {
					at := Mem{Base: row, Disp: q % 2 * width}
					if q >= 2 {
						at.Index, at.Scale = pitch, 1
					}
					visit(v, masks[q%2], at)
				}
			}
			g.unless(g.flag("accumulate"), "fresh")
			each(func(v vector, mask Op, at Mem) {
				t := g.register(lanes)
				if lanes == 16 {
					g.VMOVUPS_Z(at, mask, t)
				} else {
					g.VMASKMOVPS(at, mask, t)
				}
				g.VADDPS(t, v, v)
			})
			g.Label("fresh")
			g.TESTQ(biases, biases)
			g.JZ(LabelRef("unbiased"))
			each(func(v vector, _ Op, _ Mem) { g.VADDPS(bias, v, v) })
			g.Label("unbiased")
			g.unless(g.flag("relu"), "linear")
			zero := g.register(lanes)
			g.VXORPS(zero, zero, zero)
			each(func(v vector, _ Op, _ Mem) { g.VMAXPS(v, zero, v) }) // in this order NaN stays
			g.Label("linear")
			if lanes == 16 {
				each(func(v vector, mask Op, at Mem) { g.VMOVUPS(v, mask, at) })
			} else {
				squares := g.gp("squares")
				g.CMPQ(squares, Imm(uint64(lanes)))
				g.JNE(LabelRef("masked"))
				each(func(v vector, _ Op, at Mem) { g.VMOVUPS(v, at) })
				g.JMP(LabelRef("put"))
				g.Label("masked")
				each(func(v vector, mask Op, at Mem) { g.VMASKMOVPS(v, mask, at) })
				g.Label("put")
			}
			p.advance(g, width)
			g.LEAQ(Mem{Base: row, Index: pitch, Scale: 2}, row)
		})
		next := g.floatStride("ldy")
		g.ADDQ(next, y)
		next = g.floatStride("step")
		g.ADDQ(next, m)
	})
	g.end()
}
