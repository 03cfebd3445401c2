package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// lstm writes the pointwise part of a layer of long short-term memory. The exponentials of a product share one division, and
// those of an output go in step: alone, each would be one long chain of operations that wait for one another.
func lstm(g *asm) {
	v := g.YMM
	one := func() Mem { return g.floats("one", 1) }
	// above returns the larger of x and a bound, below the smaller. Of two unordered values the instructions give the first
	// here: NaN stays.
	above := func(x vector, bound Mem) vector {
		b := g.load(bound)
		g.VMAXPS(x, b, b)
		return b
	}
	below := func(x vector, bound Mem) vector {
		b := g.load(bound)
		g.VMINPS(x, b, b)
		return b
	}
	// Beyond 87, 2ⁿ is no normal number; tanh(20) rounds to 1.
	gate := func(z vector) vector {
		return below(above(z, g.floats("expLowest", -87)), g.floats("expHighest", 87))
	}
	twice := func(x vector) vector { // -2|x|
		z := v()
		g.VORPS(g.octet("sign", 1<<31), x, z)
		g.VADDPS(z, z, z)
		return above(z, g.floats("tanhLowest", -40))
	}
	// expm1 returns q and t with exp(z) = 2ⁿ(1+q), n being the exponent of t. With one factor of ln 2, f is off by
	// 1.9e-9·n, of which 1+q has 2.4e-7 at the ends of the range.
	expm1 := func(zs ...vector) (qs, ts []vector) {
		magic, log2e := g.load(g.floats("roundToInt", 3<<22)), g.load(g.floats("log2e", math.Log2E))
		for _, z := range zs {
			t, q := v(), v()
			g.VMOVAPS(z, t)
			g.VFMADD213PS(magic, log2e, t)
			g.VSUBPS(magic, t, q)
			ts, qs = append(ts, t), append(qs, q)
		}
		ln2 := g.load(g.floats("ln2High", math.Ln2))
		for i, z := range zs {
			g.VFNMADD231PS(ln2, qs[i], z)
		}
		g.expm1Polynomial(zs, qs)
		for _, t := range ts {
			g.VPSLLD(Imm(23), t, t)
		}
		return qs, ts
	}
	// opened returns 1 + exp(z), one over a gate.
	opened := func(q, t vector) vector {
		g.VADDPS(one(), q, q)
		g.VPADDD(t, q, q)
		g.VADDPS(one(), q, q)
		return q
	}
	// tanh returns the numerator and the denominator of tanh(x), -expm1(-2|x|) and 2 + expm1(-2|x|), the first with the sign of x.
	tanh := func(x, q, t vector) (num, den vector) {
		s, e := t, v()
		g.VPADDD(one(), t, s)
		g.VSUBPS(one(), s, e)
		g.VFMADD231PS(s, q, e)
		g.VADDPS(g.floats("two", 2), e, q)
		g.VANDNPS(g.octet("sign", 1<<31), x, x)
		g.VXORPS(x, e, e)
		return e, q
	}
	g.inStep("gated", "dst[i] = sigmoid(o[i]-no)*tanh(x[i]+bx)", []string{"o", "x"}, []string{"no", "bx"}, 2, func(u int, in func(string, int) vector, out func(int, vector)) {
		no, bx := g.splat("no"), g.splat("bx")
		var xs, zs []vector
		for k := range u {
			o, x := in("o", k), in("x", k)
			g.VSUBPS(o, no, o)
			g.VADDPS(bx, x, x)
			xs, zs = append(xs, x), append(zs, twice(x), gate(o))
		}
		q, t := expm1(zs...)
		for k, x := range xs {
			num, den := tanh(x, q[2*k], t[2*k])
			g.VMULPS(opened(q[2*k+1], t[2*k+1]), den, den)
			g.VDIVPS(den, num, num)
			out(k, num)
		}
	})
	g.inStep("keep", "dst[i] = dst[i]*sigmoid(f[i]-nf) + x[i]", []string{"f", "dst", "x"}, []string{"nf"}, 4, func(u int, in func(string, int) vector, out func(int, vector)) {
		nf := g.splat("nf")
		var zs []vector
		for k := range u {
			f := in("f", k)
			g.VSUBPS(f, nf, f)
			zs = append(zs, gate(f))
		}
		q, t := expm1(zs...)
		for k := range u {
			c := in("dst", k)
			g.VDIVPS(opened(q[k], t[k]), c, c)
			g.VADDPS(in("x", k), c, c)
			out(k, c)
		}
	})
}
