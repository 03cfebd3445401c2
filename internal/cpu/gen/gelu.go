package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
)

// gelu writes the Gaussian error linear unit, x·Φ(x), and its derivative. Both follow from the tail of the normal distribution
// at m = −|x|, which does not cancel: Φ(m) = exp(−m²/2)·r(m).
func gelu(g *asm) {
	v := g.fresh
	// Beyond, the tail and its product with x are less than half the smallest float.
	lowest := func() vector { return g.load(g.floats("geluLowest", -15)) }
	g.elementwise("gelu", "dst[i] = x[i]*Φ(x[i])", []string{"x"}, nil, func(in, held []vector) vector {
		x, y := in[0], v()
		m, r, rise, high, low := g.tail(x, held[0])
		g.VFMADD231PS(rise, r, r)
		g.VMULPS(high, r, r)
		g.VMULPS(m, r, r)
		g.VMAXPS(x, held[1], y) // what becomes of NaN is no matter: r is NaN, too
		g.VFMADD231PS(low, r, y)
		g.VANDPS(g.copies("sign", 1<<31), x, x) // where r became zero
		g.VORPS(x, y, y)
		return y
	}, lowest, g.zero)
	g.elementwise("geluGrad", "dst[i] = g[i]*(Φ(x[i]) + x[i]*φ(x[i]))", []string{"x", "g"}, nil, func(in, held []vector) vector {
		x, d := in[0], v()
		m, r, rise, high, low := g.tail(x, held[0])
		g.VFMADD231PS(g.floats("density", 0.3989422804), m, r) // 1/√2π
		g.VFMADD231PS(rise, r, r)
		g.VMULPS(high, r, r)
		g.choose(x, held[1], g.load(g.floats("one", 1)), d)
		g.VANDPS(g.copies("sign", 1<<31), x, x) // right of zero, the derivative is 1 less that of the tail
		g.VXORPS(x, r, r)
		g.VFNMADD231PS(low, r, d)
		g.VMULPS(in[1], d, d)
		return d
	}, lowest, g.zero)
}

// tail returns m = max(−|x|, lowest), r and what makes Φ(m) = r·(1+rise)·high·low. The powers of two are two factors, as their
// product may be subnormal.
func (g *asm) tail(x, lowest vector) (m, r, rise, high, low vector) {
	m, half, square := g.fresh(), g.fresh(), g.fresh()
	g.VORPS(g.copies("sign", 1<<31), x, m)
	g.VMAXPS(m, lowest, m) // in this order NaN stays
	g.VMULPS(g.floats("minusHalf", -0.5), m, half)
	g.VMULPS(m, half, square)
	g.VFMSUB132PS(m, square, half) // what −m²/2 lost by rounding, up to 4e-6: exp needs it
	rise, n := g.expm1Reduced(square, half)
	high, low = g.fresh(), g.fresh()
	first := g.fresh()
	g.VPSRAD(Imm(1), n, first)
	g.VPSUBD(first, n, n)
	g.exponent(first, high)
	g.exponent(n, low)
	// r(m) = Φ(m)·exp(m²/2) for −15 ≤ m ≤ 0, to 9e-9 of itself; a minimax quotient. In −m all coefficients are positive.
	r = g.polynomial("tailAbove", m, 0.5, -0.437897562980651855, 0.182917967438697815, -0.0405197069048881531, 0.00409742910414934158)
	below := g.polynomial("tailBelow", m, 1, -1.67367994785308838, 1.20123541355133057, -0.468627244234085083, 0.101574331521987915, -0.0102706113830208778)
	g.VDIVPS(below, r, r)
	return m, r, rise, high, low
}

// polynomial is that of x, by coefficients from the constant on.
func (g *asm) polynomial(name string, x vector, coefficients ...float32) vector {
	last := len(coefficients) - 1
	constant := func(k int) Mem { return g.floats(fmt.Sprint(name, "_", k), coefficients[k]) }
	y := g.load(constant(last))
	for k := last - 1; k >= 0; k-- {
		g.VFMADD213PS(constant(k), x, y)
	}
	return y
}
