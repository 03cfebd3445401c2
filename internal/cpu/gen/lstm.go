package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// lstm writes the pointwise part of a layer of long short-term memory. The exponentials of a product share one division, and
// those of several vectors go in step, as each is one long chain of operations that wait for one another.
func lstm(g *asm) {
	v := g.YMM
	// Of two unordered values the instructions give the first here: NaN stays.
	bounded := func(by func(...Op), bound Mem, xs []vector) {
		b := g.load(bound)
		for _, x := range xs {
			by(x, b, x)
		}
	}
	// gates bounds arguments of exp: beyond 87, 2ⁿ is no normal number.
	gates := func(zs []vector) {
		bounded(g.VMAXPS, g.floats("expLowest", -87), zs)
		bounded(g.VMINPS, g.floats("expHighest", 87), zs)
	}
	// twice gives -2|x|, bounded where tanh(x) has long been 1.
	twice := func(xs []vector) (zs []vector) {
		sign := g.load(g.copies("sign", 1<<31))
		for _, x := range xs {
			z := v()
			g.VORPS(sign, x, z)
			g.VADDPS(z, z, z)
			zs = append(zs, z)
		}
		bounded(g.VMAXPS, g.floats("tanhLowest", -40), zs)
		return zs
	}
	// expm1 returns q and t with exp(z) = 2ⁿ(1+q), n being the exponent of t. With one factor of ln 2, f is off by
	// 1.9e-9·n, of which 1+q has 2.4e-7 at the ends of the range.
	expm1 := func(zs []vector) (qs, ts []vector) {
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
	// opened sets q to 1 + exp(z), one over a gate.
	opened := func(one, q, t vector) {
		g.VADDPS(one, q, q)
		g.VPADDD(t, q, q)
		g.VADDPS(one, q, q)
	}
	g.vectors("gated", "dst[i] = sigmoid(o[i]-no)*tanh(x[i]+bx)", []string{"o", "x"}, []string{"no", "bx"}, 2, func() {}, func(u int, in func(string, int) vector, out func(int, vector)) {
		var os, xs []vector
		no, bx := g.splat("no"), g.splat("bx")
		for k := range u {
			o, x := in("o", k), in("x", k)
			g.VSUBPS(o, no, o)
			g.VADDPS(bx, x, x)
			os, xs = append(os, o), append(xs, x)
		}
		gates(os)
		q, t := expm1(append(twice(xs), os...))
		one, sign := g.load(g.floats("one", 1)), g.load(g.copies("sign", 1<<31))
		for k, x := range xs {
			// tanh(x) is -expm1(-2|x|) over 2 + expm1(-2|x|), the first with the sign of x.
			s, num, den := t[k], v(), q[k]
			g.VPADDD(one, s, s)
			g.VSUBPS(one, s, num)
			g.VFMADD231PS(s, den, num)
			g.VADDPS(g.floats("two", 2), num, den)
			g.VANDNPS(sign, x, x)
			g.VXORPS(x, num, num)
			opened(one, q[u+k], t[u+k])
			g.VMULPS(q[u+k], den, den)
			g.VDIVPS(den, num, num)
			out(k, num)
		}
	})
	g.vectors("keep", "dst[i] = dst[i]*sigmoid(f[i]-nf) + x[i]", []string{"f", "dst", "x"}, []string{"nf"}, 4, func() {}, func(u int, in func(string, int) vector, out func(int, vector)) {
		var fs []vector
		nf := g.splat("nf")
		for k := range u {
			f := in("f", k)
			g.VSUBPS(f, nf, f)
			fs = append(fs, f)
		}
		gates(fs)
		q, t := expm1(fs)
		one := g.load(g.floats("one", 1))
		for k := range u {
			opened(one, q[k], t[k])
			c := in("dst", k)
			g.VDIVPS(q[k], c, c)
			g.VADDPS(in("x", k), c, c)
			out(k, c)
		}
	})
}
