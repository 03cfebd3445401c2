package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func vec(g *asm) {
	v := g.fresh
	g.elementwise("tanh", "dst[i] = tanh(x[i])", []string{"x"}, nil, func(in, held []vector) vector {
		x, z, s := in[0], v(), v()
		g.VORPS(g.copies("sign", 1<<31), x, z)
		g.VADDPS(z, z, z)
		g.VMAXPS(z, held[0], z) // in this order NaN stays
		q, n := g.expm1Reduced(z)
		g.exponent(n, s)
		e := v() // expm1(−2|x|) = 2ⁿq + (2ⁿ − 1)
		g.VSUBPS(g.floats("one", 1), s, e)
		g.VFMADD231PS(s, q, e)
		g.VADDPS(g.floats("two", 2), e, q)
		g.VANDPS(g.copies("magnitude", math.MaxInt32), e, e)
		g.VDIVPS(q, e, e)
		g.VANDPS(g.copies("sign", 1<<31), x, x)
		g.VORPS(x, e, e)
		return e
	}, func() vector { return g.load(g.floats("tanhLowest", -40)) }) // tanh(20) rounds to 1
	g.elementwise("sigmoid", "dst[i] = 1/(1+exp(-x[i]))", []string{"x"}, nil, func(in, held []vector) vector {
		x, z, s := in[0], v(), v()
		g.VORPS(g.copies("sign", 1<<31), x, z)
		g.VMAXPS(z, held[0], z)
		e, n := g.expm1Reduced(z)
		g.VADDPS(g.floats("one", 1), e, e)
		// 2ⁿ in two factors: their product may be subnormal.
		half := v()
		g.VPSRAD(Imm(1), n, half)
		g.VPSUBD(half, n, n)
		g.exponent(half, s)
		g.VMULPS(s, e, e)
		g.exponent(n, s)
		g.VMULPS(s, e, e)
		one := g.load(g.floats("one", 1))
		g.VADDPS(one, e, s)
		g.choose(x, e, one, e) // the numerator: exp(x) left of zero
		g.VDIVPS(s, e, e)
		return e
	}, func() vector { return g.load(g.floats("sigmoidLowest", -104)) }) // exp(−104) rounds to 0
	g.elementwise("relu", "dst[i] = max(x[i], 0), NaN for NaN", []string{"x"}, nil, func(in, held []vector) vector {
		g.VMAXPS(in[0], held[0], in[0])
		return in[0]
	}, g.zero)
	g.elementwise("tanhGrad", "dst[i] = g[i]*(1-y[i]*y[i])", []string{"y", "g"}, nil, func(in, _ []vector) vector {
		d := g.load(g.floats("one", 1))
		g.VFNMADD231PS(in[0], in[0], d)
		g.VMULPS(in[1], d, d)
		return d
	})
	g.elementwise("sigmoidGrad", "dst[i] = g[i]*(y[i]-y[i]*y[i])", []string{"y", "g"}, nil, func(in, _ []vector) vector {
		g.VFNMADD213PS(in[0], in[0], in[0])
		g.VMULPS(in[1], in[0], in[0])
		return in[0]
	})
	g.elementwise("reluGrad", "dst[i] = g[i] where y[i] > 0, else 0", []string{"y", "g"}, nil, func(in, held []vector) vector {
		g.positive(in[0], held[0], in[1], held[0], in[0])
		return in[0]
	}, g.zero)
	g.elementwise("leakyRelu", "dst[i] = max(x[i], a*x[i])", []string{"x"}, []string{"a"}, func(in, s []vector) vector {
		y := v()
		g.VMULPS(in[0], s[0], y)
		g.VMAXPS(in[0], y, y)
		return y
	})
	g.elementwise("leakyReluGrad", "dst[i] = g[i] where y[i] > 0, else a*g[i]", []string{"y", "g"}, []string{"a"}, func(in, s []vector) vector {
		d := v()
		g.VMULPS(in[1], s[0], d)
		g.positive(in[0], s[1], in[1], d, d)
		return d
	}, g.zero)
	g.elementwise("addVec", "dst[i] += x[i]", []string{"dst", "x"}, nil, func(in, _ []vector) vector {
		g.VADDPS(in[1], in[0], in[0])
		return in[0]
	})
	g.elementwise("axpy", "dst[i] += a*x[i], rounded once", []string{"dst", "x"}, []string{"a"}, func(in, s []vector) vector {
		g.VFMADD231PS(in[1], s[0], in[0])
		return in[0]
	})
	g.elementwise("mix", "dst[i] = a*x[i] + b*y[i], the first product unrounded", []string{"x", "y"}, []string{"a", "b"}, func(in, s []vector) vector {
		g.VMULPS(in[1], s[1], in[1])
		g.VFMADD231PS(in[0], s[0], in[1])
		return in[1]
	})
	g.elementwise("descend", "dst[i] += a*(b*x[i] + c*dst[i]), in three roundings, of which the first is c*dst[i]'s", []string{"dst", "x"}, []string{"a", "b", "c"}, func(in, s []vector) vector {
		d := v()
		g.VMULPS(in[0], s[2], d)
		g.VFMADD231PS(in[1], s[1], d)
		g.VFMADD231PS(d, s[0], in[0])
		return in[0]
	})
	g.elementwise("mixSquares", "dst[i] = a*dst[i] + b*x[i]*x[i]", []string{"dst", "x"}, []string{"a", "b"}, func(in, s []vector) vector {
		g.VMULPS(in[1], in[1], in[1])
		g.VMULPS(in[1], s[1], in[1])
		g.VFMADD231PS(in[0], s[0], in[1])
		return in[1]
	})
	g.elementwise("modulus", "dst[i] = sqrt(x[i]*x[i] + y[i]*y[i]), the second square unrounded", []string{"x", "y"}, nil, func(in, _ []vector) vector {
		g.VMULPS(in[0], in[0], in[0])
		g.VFMADD231PS(in[1], in[1], in[0])
		g.VSQRTPS(in[0], in[0])
		return in[0]
	})
	g.elementwise("addExcess", "dst[i] += max(a*x[i] - b, 0), NaN for NaN", []string{"dst", "x"}, []string{"a", "b"}, func(in, s []vector) vector {
		g.VFMSUB132PS(s[0], s[1], in[1])
		g.VMAXPS(in[1], s[2], in[1])
		g.VADDPS(in[1], in[0], in[0])
		return in[0]
	}, g.zero)
	g.elementwise("adam", "dst[i] -= a*x[i] / (sqrt(max(b*y[i] - less, least)) + c)", []string{"dst", "x", "y"}, []string{"a", "b", "less", "least", "c"}, func(in, s []vector) vector {
		g.VMULPS(in[2], s[1], in[2])
		g.VSUBPS(s[2], in[2], in[2])
		g.VMAXPS(in[2], s[3], in[2]) // a NaN stays: of unordered values it takes the first operand here
		g.VSQRTPS(in[2], in[2])
		g.VADDPS(s[4], in[2], in[2])
		g.VMULPS(in[1], s[0], in[1])
		g.VDIVPS(in[2], in[1], in[1])
		g.VSUBPS(in[1], in[0], in[0])
		return in[0]
	})
	g.elementwise("scaled", "dst[i] = a*x[i]", []string{"x"}, []string{"a"}, func(in, s []vector) vector {
		g.VMULPS(in[0], s[0], in[0])
		return in[0]
	})
	g.elementwise("mul", "dst[i] = x[i]*y[i]", []string{"x", "y"}, nil, func(in, _ []vector) vector {
		g.VMULPS(in[1], in[0], in[0])
		return in[0]
	})
	g.elementwise("mulAdd", "dst[i] = x[i]*y[i] + z[i], rounded once", []string{"x", "y", "z"}, nil, func(in, _ []vector) vector {
		g.VFMADD231PS(in[0], in[1], in[2])
		return in[2]
	})
	g.elementwise("normalize", "dst[i] = (x[i]-centre)*scale + offset, in two roundings", []string{"x"}, []string{"centre", "scale", "offset"}, func(in, s []vector) vector {
		g.VSUBPS(s[0], in[0], in[0])
		g.VFMADD213PS(s[2], s[1], in[0])
		return in[0]
	})
	gelu(g)
	columns(g)
	hadamard(g)
	lstm(g)
	grids(g)
	g.bytes()
	g.bytes512()
	g.prefetch()
	g.halves()
	g.halves512()
	g.addLines2()
	g.addLines512("addLinesAVX512", "AVX-512 F", func(x vector) Op { return x })
	g.addLines512("addShortLinesAVX512", "AVX-512 F and VL, and taps of at most eight lanes", func(x vector) Op { return x.AsY() })
	for _, lanes := range []int{4, 8} {
		g.maxPool2(1, lanes)
		g.maxPool2(2, lanes)
		g.maxUnpool2(lanes)
	}
	g.maxPool2Wide(1)
	g.maxPool2Wide(2)
	g.addUnpool2()
	g.addUnpool2By8()
	g.runs("copyRuns", "dst[d+i] = src[s+i]", func(from, to Mem, width int, x vector) {
		g.move(from, x, width)
		g.move(x, to, width)
	})
	g.runs("addRuns", "dst[d+i] += src[s+i]", func(from, to Mem, width int, x vector) {
		y := g.YMM()
		g.move(from, x, width)
		g.move(to, y, width)
		switch width {
		case 8:
			g.VADDPS(y, x, x)
		case 1:
			g.VADDSS(y.AsX(), x.AsX(), x.AsX())
		default:
			g.VADDPS(y.AsX(), x.AsX(), x.AsX())
		}
		g.move(x, to, width)
	})
	g.strided("gather2", "dst[d+i] = src[s+2i]", 1, 2, func(from, to Mem, width int, x vector) {
		y := g.YMM()
		switch width {
		case 8:
			g.VMOVUPS(from, x)
			g.VSHUFPS(Imm(0x88), from.Offset(32), x, x)
			g.VPERMPD(Imm(0xd8), x, x)
		case 4:
			g.VMOVUPS(from, x.AsX())
			g.VMOVUPS(from.Offset(16), y.AsX())
			g.VSHUFPS(Imm(0x88), y.AsX(), x.AsX(), x.AsX())
		default:
			g.move(from, x, width)
		}
		g.move(x, to, width)
	})
	g.strided("scatter2", "dst[d+2i] += src[s+i]", 2, 1, func(from, to Mem, width int, x vector) {
		switch width {
		case 8:
			y := g.YMM()
			g.VPMOVZXDQ(from, x)
			g.VPMOVZXDQ(from.Offset(16), y)
			g.VADDPS(to, x, x)
			g.VADDPS(to.Offset(32), y, y)
			g.VMOVUPS(x, to)
			g.VMOVUPS(y, to.Offset(32))
		case 4:
			g.VPMOVZXDQ(from, x)
			g.VADDPS(to, x, x)
			g.VMOVUPS(x, to)
		default:
			g.move(from, x, width)
			g.VADDSS(to, x.AsX(), x.AsX())
			g.move(x, to, width)
		}
	})
	g.gather2Wide()
	g.scatter2Wide()
	g.reduction("sum", "x[i]", []string{"x"}, func(in []vector, sum vector) { g.VADDPD(in[0], sum, sum) })
	g.reduction("sumSquares", "x[i]*x[i]", []string{"x"}, func(in []vector, sum vector) { g.VFMADD231PD(in[0], in[0], sum) })
	g.reduction("dot", "x[i]*y[i]", []string{"x", "y"}, func(in []vector, sum vector) { g.VFMADD231PD(in[0], in[1], sum) })
}

type vector = reg.VecVirtual

// as does something with registers of a form.
func (g *asm) as(f form, do func()) {
	defer func(before form) { g.form = before }(g.form)
	g.form = f
	do()
}

// fresh is a new register of the kernel's form.
func (g *asm) fresh() vector { return g.registers(g.form, 1)[0] }

func (g *asm) load(m Mem) vector {
	v := g.fresh()
	g.VMOVUPS(m, v)
	return v
}

func (g *asm) zero() vector {
	v := g.fresh()
	g.VXORPS(v, v, v)
	return v
}

// nearest rounds to whole numbers, halves to even ones.
func (g *asm) nearest(x, dst vector) {
	const nearest = 8
	if g.form == avx512 {
		g.VRNDSCALEPS(Imm(nearest), x, dst)
	} else {
		g.VROUNDPS(Imm(nearest), x, dst)
	}
}

// choose takes the lanes of yes where x has a sign, and else those of no; dst may be one of them.
func (g *asm) choose(x, yes, no, dst vector) {
	if g.form == avx512 {
		k := g.K()
		g.VPMOVD2M(x, k)
		g.VBLENDMPS(yes, no, k, dst)
	} else {
		g.VBLENDVPS(x, yes, no, dst)
	}
}

// positive takes the lanes of yes where x is above zero, and else those of no, of NaN, too; dst may be one of them.
func (g *asm) positive(x, zero, yes, no, dst vector) {
	const less = 0x11
	if g.form == avx512 {
		k := g.K()
		g.VCMPPS(Imm(less), x, zero, k)
		g.VBLENDMPS(yes, no, k, dst)
	} else {
		over := g.YMM()
		g.VCMPPS(Imm(less), x, zero, over)
		if no == zero {
			g.VANDPS(yes, over, dst)
		} else {
			g.VBLENDVPS(over, yes, no, dst)
		}
	}
}

// pointers loads the data pointers of slices.
func (g *asm) pointers(slices []string) map[string]reg.GPVirtual {
	p := map[string]reg.GPVirtual{}
	for _, s := range slices {
		p[s] = g.base(s)
	}
	return p
}

// elementwise writes kernels of the length of dst, for AVX2 and for AVX-512. body maps inputs, broadcast scalars and what is
// held in registers to the output; it may overwrite the inputs.
func (g *asm) elementwise(name, doc string, inputs, scalars []string, body func(in, s []vector) vector, held ...func() vector) {
	for _, f := range []form{avx2, avx512} {
		g.as(f, func() {
			var s []vector
			g.vectors(name, doc, inputs, scalars, 2, func() {
				for _, p := range scalars {
					s = append(s, g.splat(p))
				}
				for _, h := range held {
					s = append(s, h())
				}
			}, func(u int, in func(string, int) vector, out func(int, vector)) {
				for k := range u {
					var x []vector
					for _, p := range inputs {
						x = append(x, in(p, k))
					}
					out(k, body(x, s))
				}
			})
		})
	}
}

// vectors goes over the length of dst, unroll vectors at a time and then one. The lanes of the tail run through the same
// instructions under a mask, so an element's bits do not know its place.
func (g *asm) vectors(name, doc string, inputs, scalars []string, unroll int, prepare func(), body func(u int, in func(input string, k int) vector, out func(k int, v vector))) {
	slices := []string{"dst"}
	for _, s := range inputs {
		if s != "dst" {
			slices = append(slices, s)
		}
	}
	signature := strings.Join(slices, ", ") + " []float32"
	if len(scalars) > 0 {
		signature += ", " + strings.Join(scalars, ", ") + " float32"
	}
	lanes := g.form.lanes
	name += isa(lanes)
	g.function(name, signature, fmt.Sprintf("%s sets, for the length of dst, %s.", name, doc))
	at := g.pointers(slices)
	n, i := g.length("dst"), g.GP64()
	prepare()
	g.XORQ(i, i)
	m := func(p string, k int) Mem { return Mem{Base: at[p], Index: i, Scale: 4, Disp: 4 * lanes * k} }
	for _, u := range []int{unroll, 1} {
		g.whole(fmt.Sprint("by", u), fmt.Sprint("after", u), lanes*u, n, func() {
			a := g.plain()
			body(u, func(p string, k int) vector { return a.load(m(p, k)) }, func(k int, v vector) { a.store(v, m("dst", k)) })
			g.ADDQ(Imm(uint64(lanes*u)), i)
		})
	}
	g.JZ(LabelRef("done"))
	tail := g.masked(n)
	body(1, func(p string, _ int) vector { return tail.load(m(p, 0)) }, func(_ int, v vector) { tail.store(v, m("dst", 0)) })
	g.Label("done")
	g.end()
}

// access is how a kernel reads and writes vectors.
type access struct {
	load  func(Mem) vector
	store func(vector, Mem)
}

func (g *asm) plain() access {
	return access{g.load, func(v vector, to Mem) { g.VMOVUPS(v, to) }}
}

// masked is the access to the first n lanes, fewer than all; the others are read as zeros. It overwrites n.
func (g *asm) masked(n reg.GPVirtual) access {
	if g.form == avx512 {
		mask := g.opmasks(n, 1)[0]
		return access{func(from Mem) vector {
			x := g.ZMM()
			g.VMOVUPS_Z(from, mask, x)
			return x
		}, func(v vector, to Mem) { g.VMOVUPS(v, mask, to) }}
	}
	mask := g.YMM()
	g.mask(n, mask)
	return access{func(from Mem) vector {
		x := g.YMM()
		g.VMASKMOVPS(from, mask, x)
		return x
	}, func(v vector, to Mem) { g.VMASKMOVPS(v, mask, to) }}
}

// expm1Reduced returns q and the integers n with exp(z) = 2ⁿ(1+q): q = expm1(f) to 2.6e-8 of itself, where
// f = z − n ln 2 lies within ln 2 / 2 of zero. The polynomial interpolates (expm1(f) − f)/f² at Chebyshev points.
// Of a sum, z is the large term, and small are those that rounding would take from it.
func (g *asm) expm1Reduced(z vector, small ...vector) (q, n vector) {
	n, f, q := g.fresh(), g.fresh(), g.fresh()
	g.VMULPS(g.floats("log2e", math.Log2E), z, n)
	g.nearest(n, n)
	high := float32(math.Ln2)
	g.VMOVAPS(z, f)
	g.VFNMADD231PS(g.floats("ln2High", high), n, f)
	g.VFNMADD231PS(g.floats("ln2Low", float32(math.Ln2-float64(high))), n, f)
	for _, s := range small {
		g.VADDPS(s, f, f)
	}
	g.VCVTPS2DQ(n, n)
	g.expm1Polynomial([]vector{f}, []vector{q})
	return q, n
}

// expm1Polynomial sets q = expm1(f) for each f.
func (g *asm) expm1Polynomial(fs, qs []vector) {
	coefficients := []float32{0.5, 0.16666576266288757, 0.041666556149721146, 0.008363178931176662, 0.0013926184037700295}
	last := len(coefficients) - 1
	g.VMOVUPS(g.floats(fmt.Sprint("expm1_", last), coefficients[last]), qs[0])
	for _, q := range qs[1:] {
		g.VMOVAPS(qs[0], q)
	}
	for k := last - 1; k >= 0; k-- {
		var c Op = g.floats(fmt.Sprint("expm1_", k), coefficients[k])
		if len(fs) > 1 {
			c = g.load(c.(Mem))
		}
		for i, f := range fs {
			g.VFMADD213PS(c, f, qs[i])
		}
	}
	for i, f := range fs {
		ff := g.fresh()
		g.VMULPS(f, f, ff)
		g.VFMADD213PS(f, ff, qs[i])
	}
}

// exponent sets s = 2ⁿ for integers n; it overwrites n.
func (g *asm) exponent(n, s vector) {
	g.VPADDD(g.copies("bias", 127), n, n)
	g.VPSLLD(Imm(23), n, s)
}

func (g *asm) bytes() {
	g.function("bytesAVX2", "dst []float32, src []uint8, scale, offset float32",
		"bytesAVX2 sets, for the length of dst, dst[i] = src[i]*scale + offset, rounded once.")
	p := g.pointers([]string{"dst", "src"})
	n := g.length("dst")
	scale, offset := g.splat("scale"), g.splat("offset")
	x := g.YMM()
	g.whole("loop", "rest", 8, n, func() {
		g.VPMOVZXBD(Mem{Base: p["src"]}, x)
		g.VCVTDQ2PS(x, x)
		g.VFMADD213PS(offset, scale, x)
		g.VMOVUPS(x, Mem{Base: p["dst"]})
		g.ADDQ(Imm(8), p["src"])
		g.ADDQ(Imm(32), p["dst"])
	})
	g.JZ(LabelRef("done"))
	g.repeat("single", n, func() {
		b := g.GP32()
		g.MOVBLZX(Mem{Base: p["src"]}, b)
		g.VMOVD(b, x.AsX())
		g.VCVTDQ2PS(x, x)
		g.VFMADD213PS(offset, scale, x)
		g.VMOVSS(x.AsX(), Mem{Base: p["dst"]})
		g.INCQ(p["src"])
		g.ADDQ(Imm(4), p["dst"])
	})
	g.Label("done")
	g.end()
}

// widened writes the length of dst, of sixteen elements of src at a time that take so many bytes each. load converts them under
// a mask, or all where that is nil: reading past the last one might fault.
func (g *asm) widened(bytes int, load func(from Mem, mask Op, x vector)) {
	p, n, x := g.pointers([]string{"dst", "src"}), g.length("dst"), g.ZMM()
	g.whole("loop", "rest", 16, n, func() {
		load(Mem{Base: p["src"]}, nil, x)
		g.VMOVUPS(x, Mem{Base: p["dst"]})
		g.ADDQ(Imm(uint64(16*bytes)), p["src"])
		g.ADDQ(Imm(64), p["dst"])
	})
	g.JZ(LabelRef("done"))
	mask := g.opmasks(n, 1)[0]
	load(Mem{Base: p["src"]}, mask, x)
	g.VMOVUPS(x, mask, Mem{Base: p["dst"]})
	g.Label("done")
	g.end()
}

func (g *asm) bytes512() {
	g.function("bytesAVX512", "dst []float32, src []uint8, scale, offset float32", "bytesAVX512 is bytesAVX2; it needs AVX-512 F and BMI2.")
	var scale, offset vector
	g.as(avx512, func() { scale, offset = g.splat("scale"), g.splat("offset") })
	g.widened(1, func(from Mem, mask Op, x vector) {
		if mask == nil {
			g.VPMOVZXBD(from, x)
		} else {
			g.VPMOVZXBD_Z(from, mask, x)
		}
		g.VCVTDQ2PS(x, x)
		g.VFMADD213PS(offset, scale, x)
	})
}

func (g *asm) prefetch() {
	g.function("prefetch", "x []uint8", "prefetch asks for the lines of the cache that x is on; x has at least one element.")
	x, n := g.base("x"), g.length("x")
	end := g.GP64()
	g.LEAQ(Mem{Base: x, Index: n, Scale: 1, Disp: -1}, end)
	g.Label("line")
	g.PREFETCHT0(Mem{Base: x})
	g.ADDQ(Imm(64), x)
	g.CMPQ(x, end)
	g.JLT(LabelRef("line"))
	g.PREFETCHT0(Mem{Base: end})
	g.end()
}

func (g *asm) halves() {
	g.function("halvesAVX2", "dst []float32, src []uint16", "halvesAVX2 sets dst[i] to the value of the half src[i]; it needs F16C.")
	p := g.pointers([]string{"dst", "src"})
	n := g.length("dst")
	x := g.YMM()
	g.whole("loop", "rest", 8, n, func() {
		g.VCVTPH2PS(Mem{Base: p["src"]}, x)
		g.VMOVUPS(x, Mem{Base: p["dst"]})
		g.ADDQ(Imm(16), p["src"])
		g.ADDQ(Imm(32), p["dst"])
	})
	g.JZ(LabelRef("done"))
	g.repeat("single", n, func() {
		h := g.GP32()
		g.MOVWLZX(Mem{Base: p["src"]}, h)
		g.VMOVD(h, x.AsX())
		g.VCVTPH2PS(x.AsX(), x.AsX())
		g.VMOVSS(x.AsX(), Mem{Base: p["dst"]})
		g.ADDQ(Imm(2), p["src"])
		g.ADDQ(Imm(4), p["dst"])
	})
	g.Label("done")
	g.end()
}

func (g *asm) halves512() {
	g.function("halvesAVX512", "dst []float32, src []uint16", "halvesAVX512 is halvesAVX2; it needs AVX-512 F, BW and VL, and BMI2.")
	h := g.YMM()
	g.widened(2, func(from Mem, mask Op, x vector) {
		if mask == nil {
			g.VCVTPH2PS(from, x)
			return
		}
		g.VMOVDQU16_Z(from, mask, h)
		g.VCVTPH2PS(h, x)
	})
}

// linesTogether go through addLines at a time: one chain of additions alone would wait for each.
const linesTogether = 4

// addLines is addRuns for lines that all get the same taps, row after row: a line is in registers until all of its are added.
// lanes makes the mask of lines ready, and tap that of a tap, whose place it may change. load, add and store are for one line.
func (g *asm) addLines(name, needs string, start func(), lanes func(bits Mem), tap func(bits Mem, at reg.GPVirtual), load, add, store func(line int, at Mem)) {
	g.function(name, "dst, src *float32, list *int32, groups int",
		fmt.Sprintf("%s adds rows of taps to groups of %d lines of at most sixteen floats; there is at least one. list begins", name, linesTogether),
		"with four times the number of taps, at least one; how far apart rows lie in src; a mask of the lowest lanes, which are loaded",
		"and stored; and for each tap its place in a row, a mask of neighbouring lanes that it is added to, one of as many, which are",
		"the lowest, and the first of those lanes. For each group follow the number of rows, at least one, and for each line its place",
		"in dst and that of its first row in src. It needs "+needs+".")
	list, groups := g.gp("list"), g.gp("groups")
	taps, end, step := g.GP64(), g.GP64(), g.GP64()
	start()
	g.MOVLQSX(Mem{Base: list}, end)
	g.MOVLQSX(Mem{Base: list, Disp: 4}, step)
	g.SHLQ(Imm(2), step)
	g.LEAQ(Mem{Base: list, Disp: 12}, taps)
	g.LEAQ(Mem{Base: taps, Index: end, Scale: 4}, end)
	g.MOVQ(end, list)
	lines := func(do func(line int, at Mem)) {
		lanes(Mem{Base: taps, Disp: -4})
		dst := g.gp("dst")
		for i := range linesTogether {
			at := g.GP64()
			g.MOVLQSX(Mem{Base: list, Disp: 4 + 8*i}, at)
			do(i, Mem{Base: dst, Index: at, Scale: 4})
		}
	}
	rows := make([]reg.GPVirtual, linesTogether)
	for i := range rows {
		rows[i] = g.GP64()
	}
	g.repeat("group", groups, func() {
		lines(load)
		src := g.gp("src")
		for i, row := range rows {
			g.MOVLQSX(Mem{Base: list, Disp: 8 + 8*i}, row)
			g.LEAQ(Mem{Base: src, Index: row, Scale: 4}, row)
		}
		left := g.GP64()
		g.MOVLQSX(Mem{Base: list}, left)
		g.repeat("row", left, func() {
			next, at := g.GP64(), g.GP64()
			g.MOVQ(taps, next)
			g.Label("tap")
			g.MOVLQSX(Mem{Base: next}, at)
			tap(Mem{Base: next, Disp: 4}, at)
			for i, row := range rows {
				add(i, Mem{Base: row, Index: at, Scale: 4})
			}
			g.ADDQ(Imm(16), next)
			g.CMPQ(next, end)
			g.JNZ(LabelRef("tap"))
			for _, row := range rows {
				g.ADDQ(step, row)
			}
		})
		lines(store)
		g.ADDQ(Imm(4+8*linesTogether), list)
	})
	g.end()
}

// addLines512 has a line in one register. Stretches are loaded from their beginning and then moved to their lanes: of those of
// at most eight, few lie on two lines of the cache, which takes twice as long.
func (g *asm) addLines512(name, needs string, part func(vector) Op) {
	mask, stretch, sum, place, lane := g.K(), g.K(), several(linesTogether, g.ZMM), g.ZMM(), g.ZMM()
	g.addLines(name, needs, func() { g.VMOVDQU32(g.counted("by1", 0, 1), lane) },
		func(bits Mem) { g.KMOVW(bits, mask) },
		func(bits Mem, _ reg.GPVirtual) {
			g.KMOVW(bits, mask)
			g.KMOVW(bits.Offset(4), stretch)
			g.VPBROADCASTD(bits.Offset(8), place)
			g.VPSUBD(place, lane, place)
		},
		func(line int, at Mem) { g.VMOVUPS_Z(at, mask, sum[line]) },
		func(line int, at Mem) {
			x := g.ZMM()
			g.VMOVUPS_Z(at, stretch, part(x))
			g.VPERMPS(x, place, x)
			g.VADDPS(x, sum[line], mask, sum[line])
		},
		func(line int, at Mem) { g.VMOVUPS(sum[line], mask, at) })
}

// addLines2 has the low and the high half of a line in registers of their own. A mask's bits are shifted up to the signs of
// lanes, which is where loads look for them. Lanes that are not in a mask get a -0, which changes no number.
func (g *asm) addLines2() {
	low, high, masks, nothing := several(linesTogether, g.YMM), several(linesTogether, g.YMM), several(2, g.YMM), several(2, g.YMM)
	width := g.GP64()
	halves := func(line int, at Mem, do func(sum vector, half int, at Mem)) {
		do(low[line], 0, at)
		do(high[line], 1, at.Offset(32))
	}
	ready := func(bits Mem) {
		all := g.YMM()
		g.VPBROADCASTD(bits, all)
		g.VPSLLVD(g.words("low", 31, 30, 29, 28, 27, 26, 25, 24), all, masks[0])
		g.VPSLLVD(g.words("high", 23, 22, 21, 20, 19, 18, 17, 16), all, masks[1])
	}
	lanes := func(bits Mem) {
		ready(bits)
		g.POPCNTL(bits, width.As32())
	}
	g.addLines("addLinesAVX2", "AVX2", func() {}, lanes, func(bits Mem, at reg.GPVirtual) {
		first := g.GP64()
		g.MOVLQSX(bits.Offset(8), first)
		g.SUBQ(first, at)
		ready(bits)
		for half, mask := range masks {
			g.VANDNPS(g.copies("minus0", 1<<31), mask, nothing[half])
		}
	}, func(line int, at Mem) {
		halves(line, at, func(sum vector, half int, at Mem) { g.VMASKMOVPS(at, masks[half], sum) })
	}, func(line int, at Mem) {
		halves(line, at, func(sum vector, half int, at Mem) {
			x := g.YMM()
			g.VMASKMOVPS(at, masks[half], x)
			g.VORPS(nothing[half], x, x)
			g.VADDPS(x, sum, sum)
		})
	}, func(line int, at Mem) {
		to, x := g.GP64(), g.YMM()
		g.LEAQ(at, to)
		label := func(s string) string { return fmt.Sprintf("line%d%s", line, s) }
		g.TESTL(U32(16), width.As32())
		g.JZ(LabelRef(label("short")))
		g.VMOVUPS(low[line], Mem{Base: to})
		g.VMOVUPS(high[line], Mem{Base: to, Disp: 32})
		g.JMP(LabelRef(label("done")))
		g.Label(label("short"))
		g.VMOVAPS(low[line], x)
		g.TESTL(U32(8), width.As32())
		g.JZ(LabelRef(label("low")))
		g.VMOVUPS(x, Mem{Base: to})
		g.VMOVAPS(high[line], x)
		g.ADDQ(Imm(32), to)
		g.Label(label("low"))
		g.few(x, to, width, label("left"))
		g.Label(label("done"))
	})
}

// few stores the first n mod 8 lanes of x. Stores under a mask are slow on some processors.
func (g *asm) few(x vector, to, n reg.GPVirtual, name string) {
	for _, width := range []int{4, 2, 1} {
		skip := fmt.Sprintf("%sbelow%d", name, width)
		g.TESTL(U32(uint32(width)), n.As32())
		g.JZ(LabelRef(skip))
		g.move(x, Mem{Base: to}, width)
		switch width {
		case 4:
			g.VEXTRACTF128(Imm(1), x, x.AsX())
		case 2:
			g.VMOVHLPS(x.AsX(), x.AsX(), x.AsX())
		}
		g.ADDQ(Imm(uint64(4*width)), to)
		g.Label(skip)
	}
}

// move loads or stores 8, 4, 2 or 1 floats.
func (g *asm) move(from, to Op, width int) {
	half := func(o Op) Op {
		if v, ok := o.(vector); ok {
			return v.AsX()
		}
		return o
	}
	switch width {
	case 8:
		g.VMOVUPS(from, to)
	case 4:
		g.VMOVUPS(half(from), half(to))
	case 2:
		g.VMOVSD(half(from), half(to))
	default:
		g.VMOVSS(half(from), half(to))
	}
}

// eachRun is a kernel over triples of destination, source and length, after start.
func (g *asm) eachRun(name, doc string, start func(), body func(from, to, n reg.GPVirtual)) {
	g.function(name, "dst, src []float32, list []int32", fmt.Sprintf("%s does %s, i < n, for each triple d, s, n of list.", name, doc))
	p := g.pointers([]string{"dst", "src", "list"})
	left := g.length("list")
	from, to, n := g.GP64(), g.GP64(), g.GP64()
	start()
	g.Label("run")
	g.SUBQ(Imm(3), left)
	g.JL(LabelRef("done"))
	g.MOVLQSX(Mem{Base: p["list"]}, to)
	g.MOVLQSX(Mem{Base: p["list"], Disp: 4}, from)
	g.MOVLQSX(Mem{Base: p["list"], Disp: 8}, n)
	g.ADDQ(Imm(12), p["list"])
	g.LEAQ(Mem{Base: p["dst"], Index: to, Scale: 4}, to)
	g.LEAQ(Mem{Base: p["src"], Index: from, Scale: 4}, from)
	body(from, to, n)
	g.JMP(LabelRef("run"))
	g.Label("done")
	g.end()
}

// runs visits stretches of neighbours.
func (g *asm) runs(name, doc string, each func(from, to Mem, width int, x vector)) {
	x := g.YMM()
	g.eachRun(name+"AVX2", doc, func() {}, func(from, to, n reg.GPVirtual) {
		g.SUBQ(Imm(16), n)
		g.JL(LabelRef("tail"))
		g.Label("sixteen")
		each(Mem{Base: from}, Mem{Base: to}, 8, x)
		each(Mem{Base: from, Disp: 32}, Mem{Base: to, Disp: 32}, 8, x)
		g.ADDQ(Imm(64), from)
		g.ADDQ(Imm(64), to)
		g.SUBQ(Imm(16), n)
		g.JGE(LabelRef("sixteen"))
		g.Label("tail") // the low four bits of n are those of the rest
		for _, width := range []int{8, 4, 2, 1} {
			skip := fmt.Sprintf("below%d", width)
			g.TESTQ(U32(uint32(width)), n)
			g.JZ(LabelRef(skip))
			each(Mem{Base: from}, Mem{Base: to}, width, x)
			if width > 1 {
				g.ADDQ(Imm(uint64(4*width)), from)
				g.ADDQ(Imm(uint64(4*width)), to)
			}
			g.Label(skip)
		}
	})
}

// strided is runs whose elements stand apart on one side. A block also touches what stands behind its last element
// there, so the last element of a run is always done alone.
func (g *asm) strided(name, doc string, toStep, fromStep int, each func(from, to Mem, width int, x vector)) {
	x := g.YMM()
	g.eachRun(name+"AVX2", doc, func() {}, func(from, to, n reg.GPVirtual) {
		for _, width := range []int{8, 4, 1} {
			loop, below := fmt.Sprintf("by%d", width), fmt.Sprintf("below%d", width)
			need := width + min(1, width-1)
			g.Label(loop)
			g.CMPQ(n, Imm(uint64(need)))
			g.JL(LabelRef(below))
			each(Mem{Base: from}, Mem{Base: to}, width, x)
			g.ADDQ(Imm(uint64(4*width*fromStep)), from)
			g.ADDQ(Imm(uint64(4*width*toStep)), to)
			g.SUBQ(Imm(uint64(width)), n)
			g.JMP(LabelRef(loop))
			g.Label(below)
		}
	})
}

// gather2Wide and scatter2Wide touch nothing between the elements that stand two apart.
func (g *asm) gather2Wide() {
	evens, x := g.ZMM(), g.ZMM()
	g.apart2("gather2AVX512", "dst[d+i] = src[s+2i]", 1, 2, g.counted("evens", 0, 2), evens, func(from, to Mem, mask, wide reg.OpmaskVirtual) {
		g.VMOVUPS_Z(from, wide, x)
		g.VPERMPS(x, evens, x)
		g.VMOVUPS(x.AsY(), mask, to)
	})
}

func (g *asm) scatter2Wide() {
	pairs, x := g.ZMM(), g.ZMM()
	table := g.words("pairs", 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7)
	g.apart2("scatter2AVX512", "dst[d+2i] += src[s+i]", 2, 1, table, pairs, func(from, to Mem, mask, wide reg.OpmaskVirtual) {
		g.VMOVUPS_Z(from, mask, x.AsY())
		g.VPERMPS(x, pairs, x)
		g.VADDPS(to, x, wide, x)
		g.VMOVUPS(x, wide, to)
	})
}

// apart2 is a kernel for runs whose elements stand two apart on one side. step does so for up to eight of them: mask has their
// lanes, and wide those of their places there. Sixteen would wait for stores nearby, even where those have no lane in common.
// A table stays in a register.
func (g *asm) apart2(name, doc string, toStep, fromStep int, table Mem, held vector, step func(from, to Mem, mask, wide reg.OpmaskVirtual)) {
	ones, evens, most, mask, wide := g.GP64(), g.GP64(), g.GP64(), g.K(), g.K()
	start := func() {
		g.MOVQ(I32(-1), ones)
		g.MOVQ(U32(0x5555), evens)
		g.MOVQ(U32(8), most)
		g.VMOVDQU32(table, held)
	}
	g.eachRun(name, doc, start, func(from, to, n reg.GPVirtual) {
		lanes, bits := g.GP64(), g.GP64()
		g.Label("eight")
		g.MOVQ(n, lanes)
		g.CMPQ(lanes, most)
		g.CMOVQGT(most, lanes)
		g.BZHIQ(lanes, ones, bits)
		g.KMOVW(bits.As32(), mask)
		g.ADDQ(lanes, lanes)
		g.BZHIQ(lanes, evens, bits)
		g.KMOVW(bits.As32(), wide)
		step(Mem{Base: from}, Mem{Base: to}, mask, wide)
		g.ADDQ(Imm(uint64(32*fromStep)), from)
		g.ADDQ(Imm(uint64(32*toStep)), to)
		g.SUBQ(Imm(8), n)
		g.JG(LabelRef("eight"))
	})
}

// maxPool2 takes windows that stand step apart.
func (g *asm) maxPool2(step, lanes int) {
	g.function(fmt.Sprintf("maxPool2By%dStep%dAVX2", lanes, step), "y *float32, arg *int32, x *float32, rows, cols, width, down, at int",
		fmt.Sprintf("maxPool2By%dStep%dAVX2 pools rows by cols windows of 2x2, cols at least %d, that stand %d apart in a row and down", lanes, step, lanes, step),
		"from row to row.")
	wide, register := lanes == 8, g.XMM
	if wide {
		register = g.YMM
	}
	y, arg, upper, rows, cols := g.gp("y"), g.gp("arg"), g.gp("x"), g.gp("rows"), g.gp("cols")
	width, at := g.gp("width"), g.gp("at")
	right, down, diagonal := register(), register(), register()
	g.VMOVDQU(g.copies("int1", 1), right)
	g.fill(down, width)
	g.VPADDD(right, down, diagonal)
	g.windows(lanes, upper, width, y, arg, rows, cols, func(lower, j reg.GPVirtual) {
		best, which, over, a, b, place := register(), register(), register(), register(), register(), register()
		scale := uint8(4 * step)
		// column loads the left or the right column of the windows in a row. At step two the wide lanes stay in the order
		// 0 1 4 5 2 3 6 7 until the end.
		column := func(row reg.GPVirtual, side int, dst reg.VecVirtual) {
			if step == 1 {
				g.VMOVUPS(Mem{Base: row, Index: j, Scale: scale, Disp: 4 * side}, dst)
				return
			}
			g.VMOVUPS(Mem{Base: row, Index: j, Scale: scale}, a)
			g.VMOVUPS(Mem{Base: row, Index: j, Scale: scale, Disp: 4 * lanes}, b)
			g.VSHUFPS(Imm([]uint64{0x88, 0xdd}[side]), b, a, dst)
		}
		const greater = 0x1e
		column(upper, 0, best)
		g.VPXOR(which, which, which)
		v := register()
		for _, c := range []struct {
			row  reg.GPVirtual
			side int
			is   reg.VecVirtual
		}{{upper, 1, right}, {lower, 0, down}, {lower, 1, diagonal}} {
			column(c.row, c.side, v)
			g.VCMPPS(Imm(greater), best, v, over)
			g.VBLENDVPS(over, v, best, best)
			g.VBLENDVPS(over, c.is, which, which)
		}
		if step == 2 && wide {
			g.VPERMPD(Imm(0xd8), best, best)
			g.VPERMPD(Imm(0xd8), which, which)
		}
		g.VMOVUPS(best, Mem{Base: y, Index: j, Scale: 4})
		here := g.GP64()
		g.LEAQ(Mem{Base: at, Index: j, Scale: uint8(step)}, here)
		g.fill(place, here)
		if step == 1 {
			g.VPADDD(g.words("ones", 0, 1, 2, 3, 4, 5, 6, 7), place, place)
		} else {
			g.VPADDD(g.words("twos", 0, 2, 4, 6, 8, 10, 12, 14), place, place)
		}
		g.VPADDD(which, place, place)
		g.VMOVDQU(place, Mem{Base: arg, Index: j, Scale: 4})
	}, func() {
		below := g.gp("down")
		g.LEAQ(Mem{Base: upper, Index: below, Scale: 4}, upper)
		g.ADDQ(below, at)
	})
}

// maxPool2Wide goes down sixteen columns of windows after the other, so that masks stay as they are.
func (g *asm) maxPool2Wide(step int) {
	g.function(fmt.Sprintf("maxPool2Step%dAVX512", step), "y *float32, arg *int32, x *float32, rows, cols, width, down, at int",
		fmt.Sprintf("maxPool2Step%dAVX512 pools rows by cols windows of 2x2 that stand %d apart in a row and down from row to row.", step, step))
	j, left := g.GP64(), g.gp("cols")
	right, below, diagonal, ahead := g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM()
	g.VMOVDQU32(g.copies("int1", 1), right)
	g.fill(below, g.gp("width"))
	g.VPADDD(right, below, diagonal)
	var even, odd vector
	if step == 2 {
		even, odd = g.ZMM(), g.ZMM()
		g.VMOVDQU32(g.counted("evens", 0, 2), even)
		g.VMOVDQU32(g.counted("odds", 1, 2), odd)
	}
	g.XORQ(j, j)
	g.Label("columns")
	// What reads the first register of a row has lanes up to step·left, and the second what is beyond sixteen of them.
	lanes, most := g.GP64(), g.GP64()
	g.MOVQ(left, lanes)
	g.MOVQ(U32(16), most)
	g.CMPQ(lanes, most)
	g.CMOVQGT(most, lanes)
	columns := g.opmasks(lanes, 1)[0]
	var halves []reg.OpmaskVirtual
	if step == 2 {
		g.ADDQ(lanes, lanes)
		halves = g.opmasks(lanes, 2)
	}
	y, arg, upper, rows, place := g.gp("y"), g.gp("arg"), g.gp("x"), g.gp("rows"), g.gp("at")
	g.LEAQ(Mem{Base: y, Index: j, Scale: 4}, y)
	g.LEAQ(Mem{Base: arg, Index: j, Scale: 4}, arg)
	g.LEAQ(Mem{Base: upper, Index: j, Scale: uint8(4 * step)}, upper)
	g.LEAQ(Mem{Base: place, Index: j, Scale: uint8(step)}, place)
	g.fill(ahead, place)
	g.VPADDD(g.counted(fmt.Sprint("by", step), 0, step), ahead, ahead)
	down, lower, next, pitch := g.ZMM(), g.GP64(), g.gp("down"), g.floatStride("width")
	g.fill(down, next)
	g.SHLQ(Imm(2), next)
	pooled := g.floatStride("cols")
	g.repeat("row", rows, func() {
		g.LEAQ(Mem{Base: upper, Index: pitch, Scale: 1}, lower)
		best, which, v, a, b := g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM()
		load := func(row reg.GPVirtual) {
			if step == 2 {
				g.VMOVUPS_Z(Mem{Base: row}, halves[0], a)
				g.VMOVUPS_Z(Mem{Base: row, Disp: 64}, halves[1], b)
			}
		}
		// column is the left or the right column of the windows in the row that was loaded.
		column := func(row reg.GPVirtual, side int, dst vector) {
			if step == 1 {
				g.VMOVUPS_Z(Mem{Base: row, Disp: 4 * side}, columns, dst)
				return
			}
			g.VMOVDQU32([]vector{even, odd}[side], dst)
			g.VPERMI2PS(b, a, dst)
		}
		const greater = 0x1e
		load(upper)
		column(upper, 0, best)
		g.VPXORD(which, which, which)
		for i, is := range []vector{right, below, diagonal} {
			row, side := upper, 1
			if i > 0 {
				row, side = lower, i-1
			}
			if i == 1 {
				load(lower)
			}
			over := g.K()
			column(row, side, v)
			g.VCMPPS(Imm(greater), best, v, over)
			g.VMOVAPS(v, over, best)
			g.VMOVDQA32(is, over, which)
		}
		g.VMOVUPS(best, columns, Mem{Base: y})
		g.VPADDD(ahead, which, which)
		g.VMOVDQU32(which, columns, Mem{Base: arg})
		g.VPADDD(down, ahead, ahead)
		g.ADDQ(next, upper)
		g.ADDQ(pooled, y)
		g.ADDQ(pooled, arg)
	})
	g.ADDQ(Imm(16), j)
	g.SUBQ(Imm(16), left)
	g.JG(LabelRef("columns"))
	g.end()
}

// addUnpool2By8 goes down eight columns at a time, the last ones first, with a row of x in a register, which gets what its windows
// pick in it: first those above it, then those that begin in it. Windows are loaded twice: where they begin, and a place to the
// right.
func (g *asm) addUnpool2By8() {
	g.function("addUnpool2AVX2", "x *float32, arg *int32, y *float32, rows, cols, at int, accumulate bool",
		"addUnpool2AVX2 adds y to what arg names, counted from at, for rows by cols windows of 2x2, one apart; cols is at least 7.",
		"Without accumulate, x is taken for zero.")
	x, arg, y, rows, cols, pitch := g.gp("x"), g.gp("arg"), g.gp("y"), g.GP64(), g.GP64(), g.GP64()
	first, left := g.GP64(), g.gp("cols") // of the eight columns: their place, and how many windows begin in them or behind
	place, width, nothing := g.YMM(), g.YMM(), g.YMM()
	begin, behind, elements, load := g.YMM(), g.YMM(), g.YMM(), g.YMM() // masks
	g.LEAQ(Mem{Base: left, Disp: 1}, pitch)
	g.fill(width, pitch)
	g.VMOVUPS(g.copies("sign", 1<<31), nothing) // −0: whatever it is added to stays
	g.MOVQ(left, cols)
	g.SHLQ(Imm(2), cols)
	g.SHLQ(Imm(2), pitch)
	g.MOVQ(left, first)
	g.ANDQ(Imm(7), left)
	g.SUBQ(left, first)
	for _, at := range []*reg.GPVirtual{&x, &arg, &y} {
		g.LEAQ(Mem{Base: *at, Index: first, Scale: 4}, *at)
	}
	g.ADDQ(g.gp("at"), first)
	all := g.words("notFirst", append([]uint32{0}, slices.Repeat([]uint32{math.MaxUint32}, 15)...)...)
	some := func(n reg.GPVirtual, v vector) {
		most := g.GP64()
		g.MOVQ(U32(8), most)
		g.CMPQ(n, most)
		g.CMOVQGT(most, n)
		g.mask(n, v)
	}
	row, next, which, after, picked, pushed, t := g.YMM(), g.YMM(), g.YMM(), g.YMM(), g.YMM(), g.YMM(), g.YMM()
	add := func() {
		for _, w := range []struct{ which, mask, y vector }{{after, behind, pushed}, {which, begin, picked}} {
			g.VPCMPEQD(place, w.which, t)
			g.VANDPS(w.mask, t, t)
			g.VBLENDVPS(t, w.y, nothing, t)
			g.VADDPS(t, row, row)
		}
	}
	xAt, argAt, yAt := g.GP64(), g.GP64(), g.GP64()
	g.Label("columns")
	n := g.GP64()
	g.MOVQ(left, n)
	some(n, begin)
	g.LEAQ(Mem{Base: left, Disp: 1}, n)
	some(n, elements)
	g.VMOVAPS(elements, behind)
	here := g.gp("at")
	g.CMPQ(first, here)
	g.JNE(LabelRef("inside"))
	g.VANDPS(all, behind, behind) // no window is left of the first element
	g.Label("inside")
	g.fill(place, first)
	g.VPADDD(g.counted("by1", 0, 1), place, place)
	g.VXORPS(load, load, load)
	g.unless(g.flag("accumulate"), "fresh")
	g.VMOVUPS(all.Offset(4), load)
	g.Label("fresh")
	g.MOVQ(x, xAt)
	g.MOVQ(arg, argAt)
	g.MOVQ(y, yAt)
	g.MOVQ(g.address(g.Param("rows")), rows)
	g.VMASKMOVPS(Mem{Base: x}, load, row)
	g.repeat("row", rows, func() {
		g.VMASKMOVPS(Mem{Base: argAt}, begin, which)
		g.VMASKMOVPS(Mem{Base: argAt, Disp: -4}, behind, after)
		g.VMASKMOVPS(Mem{Base: yAt}, begin, picked)
		g.VMASKMOVPS(Mem{Base: yAt, Disp: -4}, behind, pushed)
		for _, at := range []reg.GPVirtual{argAt, yAt} {
			g.PREFETCHT0(Mem{Base: at, Disp: 512}) // loads under a mask bring nothing ahead
		}
		add()
		// The next row is loaded before the store, which a load so near behind would wait for. A store of all eight elements
		// may reach the first ones of the next row. With accumulate it puts them back as they were. Without it, nobody has
		// read or written them: the first columns come last. Behind the last row there are none.
		g.CMPQ(rows, Imm(1))
		g.JNE(LabelRef("more"))
		g.VANDPS(elements, load, load)
		g.Label("more")
		g.VMASKMOVPS(Mem{Base: xAt, Index: pitch, Scale: 1}, load, next)
		g.VMOVUPS(row, Mem{Base: xAt})
		g.VMOVAPS(next, row)
		g.ADDQ(pitch, xAt)
		g.VPADDD(width, place, place)
		add()
		g.ADDQ(cols, argAt)
		g.ADDQ(cols, yAt)
	})
	g.VMASKMOVPS(row, elements, Mem{Base: xAt})
	for _, at := range []reg.GPVirtual{x, arg, y} {
		g.SUBQ(Imm(32), at)
	}
	g.SUBQ(Imm(8), first)
	g.ADDQ(Imm(8), left)
	g.CMPQ(first, g.gp("at"))
	g.JGE(LabelRef("columns"))
	g.end()
}

// addUnpool2 has a row of x in a register, which gets what its windows pick in it: first those above it, then those that begin
// in it. In each row that is first the one to the left, which is the order of the windows.
func (g *asm) addUnpool2() {
	g.function("addUnpool2AVX512", "x *float32, arg *int32, y *float32, rows, cols, at int, accumulate bool",
		"addUnpool2AVX512 adds y to what arg names, counted from at, for rows by cols windows of 2x2, one apart; cols is from 1 to 15.",
		"Without accumulate, x is taken for zero.")
	x, arg, y, rows, cols, pitch := g.gp("x"), g.gp("arg"), g.gp("y"), g.gp("rows"), g.gp("cols"), g.GP64()
	one, width, place, zero := g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM()
	g.VMOVDQU32(g.copies("int1", 1), one)
	wider := g.GP64()
	g.LEAQ(Mem{Base: cols, Disp: 1}, wider)
	g.fill(width, wider)
	g.MOVQ(wider, pitch)
	g.SHLQ(Imm(2), pitch)
	g.fill(place, g.gp("at"))
	g.VPADDD(g.counted("by1", 0, 1), place, place)
	g.VPXORD(zero, zero, zero)
	windows := g.opmasks(cols, 1)[0]
	elements, old := g.opmasks(wider, 1)[0], g.GP64()
	g.XORQ(old, old)
	g.unless(g.flag("accumulate"), "fresh")
	g.MOVQ(wider, old)
	g.Label("fresh")
	load := g.opmasks(old, 1)[0] // of what x holds
	g.SHLQ(Imm(2), cols)
	row, next, which, picked, behind, there := g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM()
	// add adds to the row what windows pick in it that have it at place.
	add := func() {
		left, right := g.K(), g.K()
		g.VPADDD(one, place, there)
		g.VPCMPEQD(there, which, windows, right)
		g.VPCMPEQD(place, which, windows, left)
		g.KSHIFTLW(Imm(1), right, right) // to the lane of the element
		g.VADDPS(behind, row, right, row)
		g.VADDPS(picked, row, left, row)
	}
	g.VMOVUPS_Z(Mem{Base: x}, load, row)
	g.repeat("row", rows, func() {
		g.VMOVDQU32_Z(Mem{Base: arg}, windows, which)
		g.VMOVUPS_Z(Mem{Base: y}, windows, picked)
		g.VALIGND(Imm(15), zero, picked, behind)
		add()
		// The next row is loaded before the store, which a load so near behind would wait for.
		g.VMOVUPS_Z(Mem{Base: x, Index: pitch, Scale: 1}, load, next)
		g.VMOVUPS(row, elements, Mem{Base: x})
		g.VMOVAPS(next, row)
		g.ADDQ(pitch, x)
		g.VPADDD(width, place, place)
		add()
		g.ADDQ(cols, arg)
		g.ADDQ(cols, y)
	})
	g.VMOVUPS(row, elements, Mem{Base: x})
	g.end()
}

// counted is a table of sixteen integers, from first on, so far apart.
func (g *asm) counted(name string, first, apart int) Mem {
	w := make([]uint32, 16)
	for i := range w {
		w[i] = uint32(first + i*apart)
	}
	return g.words(name, w...)
}

func (g *asm) maxUnpool2(lanes int) {
	g.function(fmt.Sprintf("maxUnpool2By%dAVX2", lanes), "x *float32, arg *int32, y *float32, rows, cols, width, at int",
		fmt.Sprintf("maxUnpool2By%dAVX2 writes rows by cols windows of 2x2, cols at least %d, side by side and row below row: y where arg", lanes, lanes),
		"names the element, zero elsewhere.")
	wide, register := lanes == 8, g.XMM
	if wide {
		register = g.YMM
	}
	upper, arg, y, rows, cols := g.gp("x"), g.gp("arg"), g.gp("y"), g.gp("rows"), g.gp("cols")
	width, at := g.gp("width"), g.gp("at")
	one, down, twos := register(), register(), register()
	g.VMOVDQU(g.copies("int1", 1), one)
	g.VMOVDQU(g.words("twos", 0, 2, 4, 6, 8, 10, 12, 14), twos)
	g.fill(down, width)
	g.windows(lanes, upper, width, y, arg, rows, cols, func(lower, j reg.GPVirtual) {
		d, which, place, even, odd, t := register(), register(), register(), register(), register(), register()
		here := g.GP64()
		g.LEAQ(Mem{Base: at, Index: j, Scale: 2}, here)
		g.fill(place, here)
		g.VPADDD(twos, place, place)
		g.VMOVUPS(Mem{Base: y, Index: j, Scale: 4}, d)
		g.VMOVDQU(Mem{Base: arg, Index: j, Scale: 4}, which)
		for i, to := range []reg.GPVirtual{upper, lower} {
			if i == 1 {
				g.VPADDD(down, place, place)
			}
			g.VPCMPEQD(place, which, even)
			g.VPADDD(one, place, t)
			g.VPCMPEQD(t, which, odd)
			g.VANDPS(d, even, even)
			g.VANDPS(d, odd, odd)
			g.VUNPCKLPS(odd, even, t)
			g.VUNPCKHPS(odd, even, even)
			if wide {
				g.VPERM2F128(Imm(0x20), even, t, odd)
				g.VPERM2F128(Imm(0x31), even, t, even)
				t = odd
			}
			g.VMOVUPS(t, Mem{Base: to, Index: j, Scale: 8})
			g.VMOVUPS(even, Mem{Base: to, Index: j, Scale: 8, Disp: 4 * lanes})
			if wide {
				odd, t = register(), register()
			}
		}
	}, func() {
		g.LEAQ(Mem{Base: upper, Index: width, Scale: 8}, upper)
		g.LEAQ(Mem{Base: at, Index: width, Scale: 2}, at)
	})
}

// windows does body for lanes windows of a row at a time, and next behind each row; the last ones of a row overlap those before,
// which writes the same again.
func (g *asm) windows(lanes int, upper, width, y, arg, rows, cols reg.GPVirtual, body func(lower, j reg.GPVirtual), next func()) {
	lower, last, j := g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: cols, Disp: -lanes}, last)
	g.repeat("row", rows, func() {
		g.LEAQ(Mem{Base: upper, Index: width, Scale: 4}, lower)
		g.XORQ(j, j)
		g.Label("loop")
		body(lower, j)
		g.ADDQ(Imm(uint64(lanes)), j)
		g.CMPQ(j, cols)
		g.JGE(LabelRef("next"))
		g.CMPQ(j, last)
		g.CMOVQGT(last, j)
		g.JMP(LabelRef("loop"))
		g.Label("next")
		g.LEAQ(Mem{Base: y, Index: cols, Scale: 4}, y)
		g.LEAQ(Mem{Base: arg, Index: cols, Scale: 4}, arg)
		next()
	})
	g.end()
}

// fill sets every lane of dst to an integer.
func (g *asm) fill(dst vector, from reg.GPVirtual) {
	g.VMOVD(from.As32(), dst.AsX())
	g.VPBROADCASTD(dst.AsX(), dst)
}

// reduction writes a sum over the length of x in 32 float64 lanes: element i goes to lane i mod 32, and the lanes are
// added in a tree of halves. Missing elements count as zero, which changes no lane.
func (g *asm) reduction(name, doc string, inputs []string, add func(in []vector, sum vector)) {
	g.function(name+"AVX2", strings.Join(inputs, ", ")+" []float32) (sum float64",
		fmt.Sprintf("%sAVX2 returns the sum of %s over the length of x.", name, doc))
	p := g.pointers(inputs)
	n := g.length("x")
	sums := several(8, g.YMM)
	g.clear([][]vector{sums})
	each := func(load func(k int, m Mem, x vector)) {
		for k, s := range sums {
			var in []vector
			for _, i := range inputs {
				x := g.YMM()
				load(k, Mem{Base: p[i], Disp: 16 * k}, x)
				in = append(in, x)
			}
			add(in, s)
		}
	}
	g.whole("loop", "rest", 32, n, func() {
		each(func(_ int, m Mem, x vector) { g.VCVTPS2PD(m, x) })
		for _, i := range inputs {
			g.SUBQ(I8(-128), p[i]) // += 128
		}
	})
	g.JZ(LabelRef("done"))
	table := g.GP64()
	g.LEAQ(g.lanes(32).Offset(4*32), table)
	g.NEGQ(n)
	mask := g.XMM()
	each(func(k int, m Mem, x vector) {
		g.VMOVUPS(Mem{Base: table, Index: n, Scale: 4, Disp: 16 * k}, mask)
		g.VMASKMOVPS(m, mask, x.AsX())
		g.VCVTPS2PD(x.AsX(), x)
	})
	g.Label("done")
	for w := 4; w > 0; w /= 2 {
		for k := range w {
			g.VADDPD(sums[k+w], sums[k], sums[k])
		}
	}
	total, high := sums[0].AsX(), sums[1].AsX()
	g.VEXTRACTF128(Imm(1), sums[0], high)
	g.VADDPD(high, total, total)
	g.VUNPCKHPD(total, total, high)
	g.VADDSD(high, total, total)
	g.VMOVSD(total, g.address(g.ReturnIndex(0)))
	g.end()
}
