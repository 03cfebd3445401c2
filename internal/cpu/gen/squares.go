package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// squares writes 3×3 convolutions by squares of 2×2 outputs.
func squares(g *asm) {
	for _, lanes := range []int{4, 8, 16} {
		readSquares(g, lanes)
		writeSquares(g, lanes)
	}
	for _, f := range []form{avx2, avx512} {
		spreadSquares(g, f)
		contractSquares(g, f, 1)
		contractSquares(g, f, 2)
	}
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

// shuffles separates the elements of two registers, the even ones from the odd, and joins such registers again.
type shuffles struct {
	*asm
	lanes                   int
	even, odd, lower, upper vector // which elements, of wide registers
}

// pick loads the numbers of sixteen elements of two registers.
func (s *shuffles) pick(name string, element func(i int) int) vector {
	words := make([]uint32, 16)
	for i := range words {
		words[i] = uint32(element(i))
	}
	v := s.ZMM()
	s.VMOVUPS(s.words(name, words...), v)
	return v
}

// separate leaves nothing in a.
func (s *shuffles) separate(a, b vector) (even, odd vector) {
	even, odd = s.register(s.lanes), s.register(s.lanes)
	if s.lanes == 16 {
		s.VMOVAPS(a, odd)
		s.VPERMT2PS(b, s.even, a)
		s.VPERMT2PS(b, s.odd, odd)
		return a, odd
	}
	s.VSHUFPS(Imm(0x88), b, a, even)
	s.VSHUFPS(Imm(0xdd), b, a, odd)
	return s.quarters(even), s.quarters(odd)
}

// quarters swaps the middle two quarters of a register of eight.
func (s *shuffles) quarters(v vector) vector {
	if s.lanes == 8 {
		s.VPERMPD(Imm(0xd8), v, v)
	}
	return v
}

// join leaves nothing in even and odd.
func (s *shuffles) join(even, odd vector) (lower, upper vector) {
	lower, upper = s.register(s.lanes), s.register(s.lanes)
	if s.lanes == 16 {
		s.VMOVAPS(even, upper)
		s.VPERMT2PS(odd, s.lower, even)
		s.VPERMT2PS(odd, s.upper, upper)
		return even, upper
	}
	even, odd = s.quarters(even), s.quarters(odd)
	s.VUNPCKLPS(odd, even, lower)
	s.VUNPCKHPS(odd, even, upper)
	return lower, upper
}

// readSquares transforms what the outputs of rows of squares read.
func readSquares(g *asm, lanes int) {
	name := fmt.Sprintf("read%d%s", lanes, isa(lanes))
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
	s := &shuffles{asm: g, lanes: lanes}
	if lanes < 16 {
		local = g.AllocLocal(16 * width)
	} else {
		s.even = s.pick("even", func(i int) int { return 2 * i })
		s.odd = s.pick("uneven", func(i int) int { return 2*i + 1 })
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
					return s.separate(a, b)
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
	name := fmt.Sprintf("write%d%s", lanes, isa(lanes))
	g.function(name, "channels, rows, squares int, m *float32, step, stride int, y *float32, ldy, pitch int, accumulate bool, bias *float32, relu bool",
		fmt.Sprintf("%s makes the outputs of 1 to %d squares of each of rows, for all channels, of sixteen matrices stride floats", name, lanes),
		fmt.Sprintf("apart, from m on, where a row of squares is %d floats and a channel step further. Outputs y of channels lie ldy apart,", lanes),
		"their rows pitch. A bias, unless nil, is added, then relu cuts off what is below zero. channels and rows are at least 1.")
	width := 4 * lanes
	p := g.parts("stride")
	m, y, channels, pitch := g.gp("m"), g.gp("y"), g.gp("channels"), g.floatStride("pitch")
	row, rows := g.GP64(), g.GP64()
	biases, bias, s := g.gp("bias"), g.register(lanes), &shuffles{asm: g, lanes: lanes}
	if lanes == 16 {
		s.lower = s.pick("lower", func(i int) int { return i/2 + i%2*16 })
		s.upper = s.pick("higher", func(i int) int { return 8 + i/2 + i%2*16 })
	}
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
				out[2*r], out[2*r+1] = s.join(y0, y1)
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

// isa is the instruction set of registers of so many lanes.
func isa(lanes int) string {
	if lanes == 16 {
		return "AVX512"
	}
	return "AVX2"
}

// squareRows is how many channels contract takes: eight, or of narrow registers six.
func (f form) squareRows() int { return min(f.m, 8) }

// contractSquares sums over squares, then makes gradients of kernels of sixteen sums.
func contractSquares(g *asm, f form, width int) {
	h, lanes := f.squareRows(), f.lanes
	name := fmt.Sprintf("contract%d%s", width, isa(f.lanes))
	g.function(name, "rows, inner int, v *float32, channel, row, strideV int, b *float32, strideB int, p *float32, more bool, c *float32, ldc, n, skip int, accumulate bool",
		fmt.Sprintf("%s computes sixteen products of %d channels with n columns of at most %d, over rows times inner squares. v", name, h, lanes*width),
		"are sixteen matrices of channels, strideV floats apart: a channel is channel floats behind the one before, a row of squares",
		fmt.Sprintf("row floats. b are sixteen matrices packed with %d values a square, strideB apart. The products go to p, [16][%d][%d]; with", f.n, h, lanes*width),
		"more they are added to those there, and unless c is nil, they become the 9 weights' gradients of each channel but the first skip:",
		"9 rows of c, ldc apart, of n columns. With accumulate they are added to what is there. rows and inner are at least 1.")
	v, b, p := g.gp("v"), g.gp("b"), g.gp("p")
	channel := g.floatStride("channel")
	channel3, d, d5, columns, parts, rows := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: channel, Index: channel, Scale: 2}, channel3)
	number := []Mem{
		{Base: d}, {Base: d, Index: channel, Scale: 1}, {Base: d, Index: channel, Scale: 2}, {Base: d, Index: channel3, Scale: 1},
		{Base: d, Index: channel, Scale: 4}, {Base: d5}, {Base: d, Index: channel3, Scale: 2}, {Base: d5, Index: channel, Scale: 2},
	}
	sum := g.tileOf(f, h, width)
	cols, t := g.registers(f, 2), g.registers(f, 2)
	part := func(i, j int) int { return 4 * lanes * (width*i + j) } // in a product
	each := func(visit func(s vector, at Mem)) {
		for i, r := range sum {
			for j, s := range r {
				visit(s, Mem{Base: p, Disp: part(i, j)})
			}
		}
	}
	g.MOVQ(I32(16), parts)
	g.repeat("part", parts, func() {
		g.clear(sum)
		g.unless(g.flag("more"), "fresh")
		each(func(s vector, at Mem) { g.VMOVUPS(at, s) })
		g.Label("fresh")
		g.MOVQ(v, d)
		g.LEAQ(Mem{Base: d, Index: channel, Scale: 4}, d5)
		g.ADDQ(channel, d5)
		g.MOVQ(b, columns)
		g.MOVQ(g.address(g.Param("rows")), rows)
		g.repeat("row", rows, func() {
			inner := func() reg.GPVirtual { return g.gp("inner") }
			g.unrolled("inner", "done", inner(), f.unroll, inner, func(steps int) {
				for u := range steps {
					for j := range width {
						g.VMOVUPS(Mem{Base: columns, Disp: 4*f.n*u + 4*lanes*j}, cols[j])
					}
					g.products(sum, cols, t, func(i int) Mem { return number[i].Offset(4 * u) })
				}
				g.ADDQ(sizeOf(steps*f.n), columns)
				g.ADDQ(sizeOf(steps), d)
				g.ADDQ(sizeOf(steps), d5)
			})
			jump, done := g.floatStride("row"), g.floatStride("inner")
			g.SUBQ(done, jump)
			g.ADDQ(jump, d)
			g.ADDQ(jump, d5)
		})
		each(func(s vector, at Mem) { g.VMOVUPS(s, at) })
		g.ADDQ(U32(uint32(part(h, 0))), p)
		next := g.floatStride("strideV")
		g.ADDQ(next, v)
		next = g.floatStride("strideB")
		g.ADDQ(next, b)
	})

	c := g.gp("c")
	g.TESTQ(c, c)
	g.JZ(LabelRef("put"))
	g.SUBQ(U32(uint32(16*part(h, 0))), p)
	ldc, n, left := g.floatStride("ldc"), g.gp("n"), g.GP64()
	g.MOVQ(n, left)
	g.SUBQ(Imm(uint64(lanes*(width-1))), left)
	var masks []Op
	if lanes == 16 {
		for _, k := range g.opmasks(n, width) {
			masks = append(masks, k)
		}
	}
	edge := g.GP64()
	rest := g.registers(f, 1)[0]
	if lanes < 16 {
		g.MOVQ(left, edge)
		g.mask(edge, rest)
		masks = []Op{rest, rest}
	}
	channels := g.GP64()
	g.MOVQ(g.address(g.Param("skip")), channels)
	skipped := g.GP64()
	g.IMUL3Q(U32(uint32(part(1, 0))), channels, skipped)
	g.ADDQ(skipped, p)
	g.NEGQ(channels)
	g.ADDQ(Imm(uint64(h)), channels)
	g.repeat("channel", channels, func() {
		for j := range width {
			out, at := g.GP64(), func(q int) Mem { return Mem{Base: p, Disp: q*part(h, 0) + part(0, j)} }
			g.LEAQ(Mem{Base: c, Disp: 4 * lanes * j}, out)
			// of three rows, what the columns of four sums give
			three := func(x0, x1, x2, x3 Op, to [3]vector) {
				g.VADDPS(x2, x1.(vector), to[2])
				g.VSUBPS(x2, x1.(vector), to[1])
				g.VADDPS(x0, to[2], to[0])
				g.VSUBPS(x3, to[2], to[2])
			}
			var q [3][4]vector
			for col := range 4 {
				x1 := g.registers(f, 1)[0]
				g.VMOVUPS(at(4+col), x1)
				r := g.registers(f, 3)
				three(at(col), x1, at(8+col), at(12+col), [3]vector(r))
				for i := range r {
					q[i][col] = r[i]
				}
			}
			for i := range 3 {
				r := g.registers(f, 3)
				three(q[i][0], q[i][1], q[i][2], q[i][3], [3]vector(r))
				for tap, y := range r {
					label := fmt.Sprintf("tap%d_%d_%d", j, i, tap)
					to := Mem{Base: out}
					whole := lanes < 16 && j < width-1
					switch {
					case lanes == 16:
						g.unless(g.flag("accumulate"), label)
						g.VADDPS(to, y, masks[j], y)
						g.Label(label)
						g.VMOVUPS(y, masks[j], to)
					case whole:
						g.unless(g.flag("accumulate"), label)
						g.VADDPS(to, y, y)
						g.Label(label)
						g.VMOVUPS(y, to)
					default:
						was := g.registers(f, 1)[0]
						g.unless(g.flag("accumulate"), label)
						g.VMASKMOVPS(to, rest, was)
						g.VADDPS(was, y, y)
						g.Label(label)
						g.CMPQ(left, Imm(uint64(lanes)))
						g.JNE(LabelRef(label + "masked"))
						g.VMOVUPS(y, to)
						g.JMP(LabelRef(label + "next"))
						g.Label(label + "masked")
						g.VMASKMOVPS(y, rest, to)
						g.Label(label + "next")
					}
					if i < 2 || tap < 2 {
						g.ADDQ(ldc, out)
					}
				}
			}
		}
		for range 9 {
			g.ADDQ(ldc, c)
		}
		g.ADDQ(U32(uint32(part(1, 0))), p)
	})
	g.Label("put")
	g.end()
}

// spreadSquares transforms packed gradients at outputs.
func spreadSquares(g *asm, f form) {
	name := "spread" + isa(f.lanes)
	g.function(name, "rows, inner int, d, b *float32, stride int",
		fmt.Sprintf("%s transforms rows times inner squares of the gradients at outputs, of which d has %d for each position: each", name, f.n),
		"square's four to sixteen, in matrices stride floats apart from b on. rows and inner are at least 1.")
	p := g.parts("stride")
	d, pitch, rows, inner := g.gp("d"), g.gp("inner"), g.gp("rows"), g.GP64()
	g.IMUL3Q(U32(uint32(2*4*f.n)), pitch, pitch) // from a row of positions to the next
	p.begin(g, g.gp("b"))
	half := g.registers(f, 1)[0]
	g.VBROADCASTSS(g.floats("half", 0.5), half)
	pair := func(x0, x1 vector) [4]vector {
		r := g.registers(f, 2)
		g.VADDPS(x1, x0, r[0])
		g.VSUBPS(x1, x0, r[1])
		for _, s := range r {
			g.VMULPS(half, s, s)
		}
		return [4]vector{x0, r[0], r[1], x1}
	}
	g.repeat("row", rows, func() {
		g.MOVQ(g.address(g.Param("inner")), inner)
		g.repeat("square", inner, func() {
			for j := range 2 {
				var rows [2][4]vector
				for i := range rows {
					x := g.registers(f, 2)
					for k := range x {
						at := Mem{Base: d, Disp: 4 * (f.n*k + f.lanes*j)}
						if i == 1 {
							at.Index, at.Scale = pitch, 1
						}
						g.VMOVUPS(at, x[k])
					}
					rows[i] = pair(x[0], x[1])
				}
				for col := range 4 {
					for i, y := range pair(rows[0][col], rows[1][col]) {
						g.VMOVUPS(y, p.at(i, col).Offset(4*f.lanes*j))
					}
				}
			}
			p.advance(g, 4*f.n)
			g.ADDQ(sizeOf(2*f.n), d)
		})
		g.ADDQ(pitch, d)
	})
	g.end()
}
