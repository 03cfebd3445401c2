package pld

import "math"

// A nearGaussian is a composition of Gaussians whose noise is so large that it is all but one
// unsampled Gaussian, which has a closed form.
//
// On |z| ≤ Z the density of (1−q)N(0,1)+qN(μ,1) is that of N(qμ,1) times a factor whose logarithm
// is at most η in magnitude: with u = μz−μ²/2 and |u| ≤ U = μZ+μ²/2, f(u) = ln(1−q+qe^u) has
// f(0) = 0, f'(0) = q and 0 ≤ f”(u) ≤ q(1−q)e^{|u|}, so that
//
//	−q(1−q)μ²/2 ≤ f(u) − (qμz−q²μ²/2) ≤ q(1−q)(U²e^U−μ²)/2.
//
// So a step's curve is H(ε) ≤ e^η·G(ε−η)+τ and at least e^{−η}·(G(ε+η)−τ), where G is the curve of
// distance qμ (2qμ and 2η under replace-one) and τ the mass beyond Z, in both directions and for
// the larger of both. Bounds of this form compose: distances by squares, η and τ by sums, with e^{Ση} on Στ.
type nearGaussian struct {
	mu    float64
	shift float64 // Ση
	tail  float64 // Στ
}

// nearGaussian is that of the composition, if it has only Gaussians, with so much mass beyond Z.
func (c *composition) nearGaussian(tail float64) (g nearGaussian, ok bool) {
	steps, squares := 0.0, 0.0
	for _, k := range c.kinds {
		steps += float64(k.count)
	}
	z := normalAbove(tail / steps / 4)
	for _, k := range c.kinds {
		high, ok := gaussianOf(k.high)
		low, alike := gaussianOf(k.low)
		if !ok || !alike || low != high {
			return g, false
		}
		n, q, mu, sides := float64(k.count), high.q, high.mu, 1.0
		if high.twoSided {
			sides = 2
		}
		if q < 1 {
			// The tails are those at Z−μ, of normals at 0 and ±μ.
			u := mu*(z+mu) + mu*mu/2
			g.shift += n * sides * q * (1 - q) * u * u * math.Exp(u) / 2
		}
		squares += n * sides * sides * q * q * mu * mu
	}
	g.mu, g.tail = math.Sqrt(squares), tail
	g.shift *= 1 + 1e-12
	return g, g.shift < 1
}

// gaussianOf is the Gaussian that a law is made of.
func gaussianOf(l law) (gaussian, bool) {
	if s, ok := l.(subset); ok {
		l = s.of
	}
	g, ok := l.(gaussian)
	return g, ok
}

// normalAbove is a z with at most so much of N(0,1) above it.
func normalAbove(mass float64) float64 {
	low, high := 0.0, 38.0
	for range 50 {
		if z := (low + high) / 2; upper(z) > mass {
			low = z
		} else {
			high = z
		}
	}
	return high
}

func (g nearGaussian) epsilon(delta float64) (r Interval) {
	r.Upper = math.Inf(1)
	if rest := (delta - g.tail*math.Exp(g.shift)) * math.Exp(-g.shift); rest > 0 {
		r.Upper = (gaussianEpsilon(g.mu, rest) + g.shift) * (1 + analytic)
	}
	if rest := delta*math.Exp(g.shift) + g.tail; rest < 1 {
		r.Lower = max(0, (gaussianEpsilon(g.mu, rest)-g.shift)*(1-analytic))
	}
	return r
}

func (g nearGaussian) delta(epsilon float64) Interval {
	return g.around(math.Exp(gaussianDelta(g.mu, epsilon-g.shift)), math.Exp(gaussianDelta(g.mu, epsilon+g.shift)))
}

// around widens the ends of a probability.
func (g nearGaussian) around(upper, lower float64) Interval {
	return Interval{
		max(0, math.Exp(-g.shift)*lower*(1-analytic)-g.tail),
		min(1, math.Exp(g.shift)*(upper*(1+analytic)+g.tail)),
	}
}

// power is the ends of the true-positive rate at a false-positive rate.
func (g nearGaussian) power(alpha float64) Interval {
	p := gaussianPower(g.mu, alpha)
	return g.around(p, p)
}

// gaussianPower is that of a Gaussian alone.
func gaussianPower(mu, alpha float64) float64 {
	return math.Erfc(math.Erfcinv(2*alpha)-mu/math.Sqrt2) / 2
}

// closed is the relative width at which a closed form does without a grid.
const closed = 1e-4

func (i Interval) narrow() bool { return !math.IsInf(i.Upper, 1) && i.Upper-i.Lower <= closed*i.Upper }

// or is what a grid and a closed form say together. Where a grid says nothing of such losses, the closed form is left.
func (i Interval) or(form Interval, err error) (Interval, error) {
	switch {
	case err != nil && !math.IsInf(form.Upper, 1):
		return form, nil
	case err != nil:
		return i, err
	}
	upper := min(i.Upper, form.Upper)
	return Interval{min(upper, max(i.Lower, form.Lower)), upper}, nil
}
