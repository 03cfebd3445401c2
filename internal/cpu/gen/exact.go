package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of internal/exact's table.
const (
	cellDigits = 7 // 2⁷ rows an octave
	rowShift   = 5 // of 2⁵ bytes
)

// exactNoise writes the kernels of rounded normals. They transform keystream as Fixed.Draw of internal/exact does, bit by bit.
// Rows are loaded one by one and turned into columns, as gathers are slow on many processors.
func exactNoise(g *asm) {
	for _, wide := range []bool{false, true} {
		addDraws(g, wide)
		release(g, wide)
	}
}

// draws is a kernel that draws a vector at a time, and stops before the first one that has an open draw.
type draws struct {
	*asm
	wide                bool
	lanes               int
	register, sum       func() vector // a new one of the kernel's width; that of a vector of draws
	words, table, i, n  reg.GPVirtual
	slots               reg.GPVirtual
	std, magic, places  vector
	open                vector
	mantissa, one, half vector // to split x
	digits, odd, sign   Op     // of words
	high, low, both     Op     // that make a float64 of halves
	order               [2]vector
}

// newDraws opens a function that takes some parameters before those of every kernel and some after them.
func newDraws(g *asm, wide bool, name, before, after, doc string) *draws {
	d := &draws{asm: g, wide: wide, lanes: 4, register: g.YMM}
	d.sum = d.sum256
	suffix := "AVX2"
	if wide {
		d.lanes, d.register, d.sum, suffix = 8, g.ZMM, d.sum512, "AVX512"
	}
	name += suffix
	g.function(name, before+", words *byte, table *[4]uint64, std, magic float64, open, places uint64, "+after+") (done int",
		fmt.Sprintf("%s %s", name, doc),
		fmt.Sprintf("for the len(dst), a multiple of %d, draws of the words, and stops before the first %d of which one is open. It returns how", d.lanes, d.lanes),
		"many it has done.")
	d.n = g.length("dst")
	d.words, d.table, d.i = g.gp("words"), g.gp("table"), g.GP64()
	d.std, d.magic, d.open, d.places = d.spread("std"), d.spread("magic"), d.spread("open"), d.spread("places")
	d.mantissa, d.one = d.held("mantissa", 1<<(52-cellDigits)-1), d.held("float1", math.Float64bits(1))
	d.half = d.held("centre", math.Float64bits(1+math.Ldexp(0.5, -cellDigits)))
	d.digits, d.odd, d.sign = d.number("digits", math.MaxInt64), d.number("odd", 1), d.number("sign64", 1<<63)
	if wide {
		for i, o := range []uint64{0, 2} { // of the columns' first four and last four
			d.order[i] = g.ZMM()
			g.VMOVUPD(g.quads(fmt.Sprint("order", o), o, o+1, o+8, o+9, o+4, o+5, o+12, o+13), d.order[i])
		}
		return d
	}
	d.high, d.low = d.four("float2to84", math.Float64bits(0x1p84)), d.four("float2to52", math.Float64bits(0x1p52))
	d.both = d.held("float2to84and52", math.Float64bits(0x1p84+0x1p52))
	return d
}

// spread broadcasts a parameter of 64 bits.
func (d *draws) spread(param string) vector {
	v := d.register()
	d.VBROADCASTSD(d.address(d.Param(param)), v)
	return v
}

// four is four copies of a number in memory, held as many as a register takes, and number the one for which there is room.
func (d *draws) four(name string, x uint64) Mem { return d.quads(name, x, x, x, x) }

func (d *draws) held(name string, x uint64) vector {
	v := d.register()
	d.VBROADCASTSD(d.four(name, x), v)
	return v
}

func (d *draws) number(name string, x uint64) Op {
	if d.wide {
		return d.held(name, x)
	}
	return d.four(name, x)
}

// at is where the vector lies whose draws have size bytes each.
func (d *draws) at(base reg.GPVirtual, size uint8) Mem {
	return Mem{Base: base, Index: d.i, Scale: size}
}

// each runs body on every vector, given sums whose upper bits count the draws.
func (d *draws) each(body func(sum vector)) {
	// Aligned, so that no store crosses two lines of the cache, from which loads would wait too.
	d.slots = d.GP64()
	d.LEAQ(d.AllocLocal(8*d.lanes+32), d.slots)
	d.ADDQ(Imm(31), d.slots)
	d.ANDQ(I8(-32), d.slots)
	d.XORQ(d.i, d.i)
	d.JMP(LabelRef("next"))
	d.Label("loop")
	body(d.sum())
	d.ADDQ(Imm(uint64(d.lanes)), d.i)
	d.Label("next")
	d.CMPQ(d.i, d.n)
	d.JL(LabelRef("loop"))
	d.Label("open")
	d.Store(d.i, d.ReturnIndex(0))
	d.end()
}

// rows gives the place of each lane's row.
func (d *draws) rows(x vector) []reg.GPVirtual {
	place := d.register()
	d.VPSRLQ(Imm(52-cellDigits), x, place)
	d.VPSLLQ(Imm(rowShift), place, place)
	if d.wide { // in halves, as loads from the store of a whole one wait until it is in the cache
		upper := d.YMM()
		d.VEXTRACTF64X4(Imm(1), place, upper)
		d.VMOVUPD(place.AsY(), Mem{Base: d.slots})
		d.VMOVUPD(upper, Mem{Base: d.slots, Disp: 32})
	} else {
		d.VMOVUPD(place, Mem{Base: d.slots})
	}
	rows := make([]reg.GPVirtual, d.lanes)
	for q := range rows {
		rows[q] = d.GP64()
		d.MOVQ(Mem{Base: d.slots, Disp: 8 * q}, rows[q])
	}
	return rows
}

// in is a word of a row.
func (d *draws) in(row reg.GPVirtual, word int) Mem {
	return Mem{Base: d.table, Index: row, Scale: 1, Disp: 8*word - 1023<<(cellDigits+rowShift)}
}

// fixed evaluates polynomials at t, and adds them, multiplied by the signed deviation, to the magic number.
func (d *draws) fixed(c [4]vector, t, std vector) vector {
	z := d.register()
	d.VPSLLQ(Imm(32), c[3], z)
	for i := 3; i >= 0; i-- {
		d.VFMADD213PD(c[i], t, z)
	}
	d.VFMADD213PD(d.magic, std, z)
	return z
}

func (d *draws) sum256() vector {
	v, high, x := d.YMM(), d.YMM(), d.YMM()
	d.VMOVUPD(d.at(d.words, 8), v)
	// The halves beside 2⁸⁴ and 2⁵², which the first difference takes away without rounding.
	d.VPAND(d.digits, v, high)
	d.VPSRLQ(Imm(32), high, high)
	d.VPOR(d.high, high, high)
	d.VSUBPD(d.both, high, high)
	d.VPBLENDD(Imm(0xaa), d.low, v, x)
	d.VPOR(d.odd, x, x)
	d.VADDPD(x, high, x)
	rows := d.rows(x)
	d.VPAND(d.mantissa, x, x)
	d.VPOR(d.one, x, x)
	d.VSUBPD(d.half, x, x)
	var c [4]vector
	for word := 2; word >= 0; word -= 2 {
		var of [2]vector // rows 0 and 2, rows 1 and 3
		for i := range of {
			of[i] = d.YMM()
			d.VBROADCASTF128(d.in(rows[i], word), of[i]) // a load that, unlike a move, writes the whole register
			d.VINSERTF128(Imm(1), d.in(rows[i+2], word), of[i], of[i])
		}
		c[word], c[word+1] = d.YMM(), of[0]
		d.VUNPCKLPD(of[1], of[0], c[word])
		d.VUNPCKHPD(of[1], of[0], c[word+1])
	}
	d.VPAND(d.sign, v, v)
	d.VPXOR(d.std, v, v)
	z := d.fixed(c, x, v)
	zero, open := d.YMM(), d.GP32()
	d.VPXOR(zero, zero, zero)
	d.VPAND(d.open, z, v)
	d.VPCMPEQQ(zero, v, v)
	d.VMOVMSKPD(v, open)
	d.TESTL(open, open)
	d.JNZ(LabelRef("open"))
	return z
}

func (d *draws) sum512() vector {
	const andOr, xorAnd = 0xea, 0x78 // (a & b) | c and a ^ (b & c)
	v, x, std := d.ZMM(), d.ZMM(), d.ZMM()
	d.VMOVUPD(d.at(d.words, 8), v)
	d.VMOVAPD(v, x)
	d.VPTERNLOGQ(Imm(andOr), d.odd, d.digits, x)
	d.VCVTQQ2PD(x, x)
	rows := d.rows(x)
	d.VPTERNLOGQ(Imm(andOr), d.one, d.mantissa, x)
	d.VSUBPD(d.half, x, x)
	var of [2][2]vector // words 0 and 2, then 1 and 3, of rows 0, 1, 4, 5, then of the others
	for i := range of {
		var pair [2]vector
		for j := range pair {
			pair[j] = d.ZMM()
			d.VBROADCASTF64X4(d.in(rows[2*i+j], 0), pair[j])
			d.VINSERTF64X4(Imm(1), d.in(rows[2*i+j+4], 0), pair[j], pair[j])
		}
		of[i] = [2]vector{d.ZMM(), d.ZMM()}
		d.VUNPCKLPD(pair[1], pair[0], of[i][0])
		d.VUNPCKHPD(pair[1], pair[0], of[i][1])
	}
	var c [4]vector
	for word := range c {
		c[word] = d.ZMM()
		d.VMOVAPD(d.order[word/2], c[word])
		d.VPERMI2PD(of[1][word%2], of[0][word%2], c[word])
	}
	d.VMOVAPD(d.std, std)
	d.VPTERNLOGQ(Imm(xorAnd), d.sign, v, std)
	z := d.fixed(c, x, std)
	k := d.K()
	d.VPTESTNMQ(d.open, z, k)
	d.KORTESTB(k, k)
	d.JNZ(LabelRef("open"))
	return z
}

func addDraws(g *asm, wide bool) {
	d := newDraws(g, wide, "addDraws", "dst []int64", "whole int64", "adds the upper bits of sums, less whole, to dst")
	dst := g.base("dst")
	whole := d.spread("whole")
	d.each(func(sum vector) {
		g.VPSRLVQ(d.places, sum, sum)
		g.VPSUBQ(whole, sum, sum)
		g.VPADDQ(d.at(dst, 8), sum, sum)
		g.VMOVUPD(sum, d.at(dst, 8))
	})
}

// release has room for its parameters in registers of AVX-512; those of AVX2 lie on the stack.
func release(g *asm, wide bool) {
	d := newDraws(g, wide, "release", "dst, src []float32", "perGrid, least, most, less, grid float64",
		"sets dst to grid*(src*perGrid + less + upper bits of sums - 1.5*2^52), src cut off at least and most,")
	p := g.pointers([]string{"dst", "src"})
	size := 8 * d.lanes
	param := func(name string) Op {
		v := d.spread(name)
		if wide {
			return v
		}
		m := g.AllocLocal(size)
		g.VMOVUPD(v, m)
		return m
	}
	per, least, most, less, grid := param("perGrid"), param("least"), param("most"), param("less"), param("grid")
	centre := d.number("middle", math.Float64bits(0x1.8p52))
	d.each(func(sum vector) {
		x, scale := d.register(), d.register()
		g.VPSRLVQ(d.places, sum, sum)
		g.VCVTPS2PD(d.at(p["src"], 4), x)
		g.VMAXPD(least, x, x) // in this order NaN becomes the least
		g.VMINPD(most, x, x)
		g.VMOVUPD(per, scale)
		g.VFMADD213PD(less, scale, x)
		g.VPADDQ(sum, x, x)
		g.VSUBPD(centre, x, x)
		g.VMULPD(grid, x, x)
		if wide {
			g.VCVTPD2PS(x, x.AsY())
			g.VMOVUPS(x.AsY(), d.at(p["dst"], 4))
		} else {
			g.VCVTPD2PSY(x, x.AsX())
			g.VMOVUPS(x.AsX(), d.at(p["dst"], 4))
		}
	})
}
