package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// lstm writes the pointwise part of a layer of long short-term memory. The exponentials of a product share one division.
func lstm(g *asm) {
	v := g.YMM
	// Registers that bodies compare with: of two unordered values the instructions give the one that may be in memory.
	var highest, lowest, tanhLowest vector
	prepare := func() {
		highest = g.load(g.floats("expHighest", 87)) // beyond, 2ⁿ is no normal number
		lowest = g.load(g.floats("expLowest", -87))
		tanhLowest = g.load(g.floats("tanhLowest", -40))
	}
	// expm1 returns q and t with exp(z) = 2ⁿ(1+q), n standing in the low bits of t. With one factor of ln 2, f is off by
	// 1.9e-9·n, of which 1+q has 2.4e-7 at the ends of the range.
	expm1 := func(z vector) (q, t vector) {
		n, ff := v(), v()
		t, q = v(), v()
		magic := g.floats("roundToInt", 3<<22)
		g.VMOVUPS(magic, t)
		g.VFMADD231PS(g.floats("log2e", math.Log2E), z, t)
		g.VSUBPS(magic, t, n)
		g.VFNMADD231PS(g.floats("ln2High", math.Ln2), n, z)
		g.expm1Polynomial(z, ff, q)
		g.VPSLLD(Imm(23), t, t)
		return q, t
	}
	one := func() Mem { return g.floats("one", 1) }
	// opened returns 1 + exp(z), one over a gate.
	opened := func(z vector) vector {
		g.VMAXPS(z, lowest, z)
		g.VMINPS(z, highest, z)
		q, t := expm1(z)
		g.VADDPS(one(), q, q)
		g.VPADDD(t, q, q)
		g.VADDPS(one(), q, q)
		return q
	}
	// tanh returns the numerator and the denominator of tanh(x), -expm1(-2|x|) and 2 + expm1(-2|x|), the first with the sign of x.
	tanh := func(x vector) (num, den vector) {
		z, s, e := v(), v(), v()
		g.VORPS(g.octet("sign", 1<<31), x, z)
		g.VADDPS(z, z, z)
		g.VMAXPS(z, tanhLowest, z)
		q, t := expm1(z)
		g.VPADDD(one(), t, s)
		g.VSUBPS(one(), s, e)
		g.VFMADD231PS(s, q, e)
		g.VADDPS(g.floats("two", 2), e, q)
		g.VANDNPS(g.octet("sign", 1<<31), x, x)
		g.VXORPS(x, e, e)
		return e, q
	}
	g.elementwise("lstmCell", "dst[i] = dst[i]*sigmoid(f[i]-nf) + sigmoid(in[i]-ni)*tanh(x[i]+bx)", []string{"dst", "in", "f", "x"}, []string{"ni", "nf", "bx"},
		func() func(in, s []vector) vector {
			prepare()
			return func(in, s []vector) vector {
				c, i, f, x := in[0], in[1], in[2], in[3]
				g.VADDPS(s[2], x, x)
				num, den := tanh(x)
				g.VSUBPS(i, s[0], i)
				g.VMULPS(opened(i), den, den)
				g.VDIVPS(den, num, num)
				g.VSUBPS(f, s[1], f)
				g.VDIVPS(opened(f), c, c)
				g.VADDPS(num, c, c)
				return c
			}
		})
	g.elementwise("lstmOut", "dst[i] = sigmoid(o[i]-no)*tanh(c[i])", []string{"o", "c"}, []string{"no"}, func() func(in, s []vector) vector {
		prepare()
		return func(in, s []vector) vector {
			num, den := tanh(in[1])
			g.VSUBPS(in[0], s[0], in[0])
			g.VMULPS(opened(in[0]), den, den)
			g.VDIVPS(den, num, num)
			return num
		}
	})
}
