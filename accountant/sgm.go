package accountant

import "math"

// rdpSampledGaussian is the Rényi divergence of order alpha > 1 of one
// Gaussian release with noise multiplier sigma on a Poisson batch at rate q.
func rdpSampledGaussian(q, sigma, alpha float64, n Neighbouring) float64 {
	if sigma == 0 {
		return math.Inf(1)
	}
	mu := 1 / sigma
	if n == ReplaceOne {
		if q == 1 {
			return 2 * alpha * mu * mu
		}
		if x := (alpha - 1) * mu * mu / 2; x > far-math.Log(q)-math.Log1p(-q) {
			u, _ := mix(q, x)
			return alpha/(alpha-1)*u - math.Log1p(-q)
		}
		return logMoment(replacePair{q, mu}, alpha) / (alpha - 1)
	}
	if q == 1 {
		return alpha * mu * mu / 2
	}
	if x := (alpha - 1) * mu * mu / 2; x > far-math.Log(q) {
		u, _ := mix(q, x)
		return alpha / (alpha - 1) * u
	}
	if alpha == math.Trunc(alpha) {
		return log1pExp(logBinomialExcess(q, sigma, int(alpha))) / (alpha - 1)
	}
	return logMoment(addPair{q, mu}, alpha) / (alpha - 1)
}

// far is where little noise makes the divergence closed. By Minkowski's
// inequality E[(1−q+q·L)^α] ≤ (1−q+q·E[L^α]^{1/α})^α, and E[L^α] is
// e^{α(α−1)μ²/2}; the term q^α·E[L^α] alone falls short of that by a share of
// at most α·e^{−far} once (α−1)μ²/2 > far+ln(1/q). Under replace-one
// Q ≥ (1−q)N(0) adds the factor (1−q)^{1−α}, as tight once far+ln(1/(1−q)) is
// cleared too. The bound holds everywhere; beyond far it is the value.
const far = 40

// logBinomialExcess is ln(A−1) with A = Σ_l C(α,l)(1−q)^{α−l} q^l e^{(l²−l)/(2σ²)}.
// The binomial weights sum to 1, so A−1 is the same sum over e^{…}−1, all of
// whose terms are positive: nothing cancels however small A−1 is.
func logBinomialExcess(q, sigma float64, alpha int) float64 {
	var s logSum
	binomial(math.Log(q), math.Log1p(-q), alpha, func(l int, weight float64) {
		s.add(weight + logExpm1(float64(l)*float64(l-1)/(2*sigma*sigma)))
	})
	return s.log()
}

// binomial calls f with each l from 2 on and ln(C(n,l)·p^l·r^{n−l}).
func binomial(logP, logR float64, n int, f func(l int, weight float64)) {
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	all := lg(n)
	for l := 2; l <= n; l++ {
		f(l, all-lg(l)-lg(n-l)+float64(n-l)*logR+float64(l)*logP)
	}
}

// logExpm1 is ln(eˣ−1) for x > 0.
func logExpm1(x float64) float64 {
	if x < 1 {
		return math.Log(math.Expm1(x))
	}
	return x + math.Log1p(-math.Exp(-x))
}

// log1pExp is ln(1+eˣ).
func log1pExp(x float64) float64 {
	if x > 36 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// logSum adds numbers given by their logarithms.
type logSum struct{ top, sum float64 }

func (s *logSum) add(x float64) {
	switch {
	case math.IsInf(x, -1):
	case s.sum == 0:
		s.top, s.sum = x, 1
	case x <= s.top:
		s.sum += math.Exp(x - s.top)
	default:
		s.sum = s.sum*math.Exp(s.top-x) + 1
		s.top = x
	}
}

func (s *logSum) log() float64 {
	if s.sum == 0 {
		return math.Inf(-1)
	}
	return s.top + math.Log(s.sum)
}

// A pair of densities P and Q on the line, noise scaled to variance 1.
type pair interface {
	// at gives ln Q(z), u = ln P(z)/Q(z), and d = P(z)/Q(z)−1 (which may
	// overflow to +Inf where u is large).
	at(z float64) (logQ, u, d float64)
	// mass is the interval of the centres of the normal densities that make
	// up Q·(P/Q)^k for every k from 0 to max(α, 2).
	mass(alpha float64) (low, high float64)
	// step is a spacing at which the trapezoid rule has converged.
	step(alpha float64) float64
}

// addPair is P = (1−q)N(0,1)+qN(μ,1) against Q = N(0,1), the worse direction
// of add/remove at every order (Mironov, Talwar and Zhang 2019, theorem 5).
type addPair struct{ q, mu float64 }

func (p addPair) at(z float64) (logQ, u, d float64) {
	u, d = mix(p.q, p.mu*z-p.mu*p.mu/2)
	return logNormal(z), u, d
}

func (p addPair) mass(alpha float64) (low, high float64) { return 0, math.Max(alpha, 2) * p.mu }

func (p addPair) step(float64) float64 { return trapezoidStep(p.mu, 1) }

// replacePair is P = (1−q)N(0,1)+qN(μ,1) against Q = (1−q)N(0,1)+qN(−μ,1);
// the other direction is its mirror image.
type replacePair struct{ q, mu float64 }

func (p replacePair) at(z float64) (logQ, u, d float64) {
	up, down := p.mu*z-p.mu*p.mu/2, -p.mu*z-p.mu*p.mu/2
	high, _ := mix(p.q, up)
	low, _ := mix(p.q, down)
	u = high - low
	d = -math.Exp(math.Log(p.q)+math.Max(up, down)-low) * math.Expm1(-math.Abs(up-down))
	if up < down {
		d = -d
	}
	if math.Abs(d) < 0.4 {
		u = math.Log1p(d) // the difference above cancels
	}
	return logNormal(z) + low, u, d
}

func (p replacePair) mass(alpha float64) (low, high float64) { return -2 * p.mu, 2 * alpha * p.mu }

// On the line at height y the denominator of (P/Q)^α may shrink by cos(μy/2),
// whose logarithm is above −μ²y²/4 within the strip.
func (p replacePair) step(alpha float64) float64 {
	return trapezoidStep(p.mu, 1+(alpha-1)*p.mu*p.mu/2)
}

// trapezoidStep is the spacing for an integrand that stays analytic within π/μ
// of the real line and grows by at most e^{rough·y²/2} at distance y: there the
// error of the trapezoid rule on the whole line is a share of about
// e^{rough·a²/2−2πa/h}, for every a in the strip (Trefethen and Weideman 2014,
// theorem 5.1). The spacing makes that e^{−45}.
func trapezoidStep(mu, rough float64) float64 {
	a := math.Min(0.9*math.Pi/mu, math.Sqrt(90/rough))
	return 2 * math.Pi * a / (45 + rough*a*a/2)
}

// mix is the density ratio 1−q+q·eᵗ by its logarithm u and its excess d over 1.
func mix(q, t float64) (u, d float64) {
	d = q * math.Expm1(t)
	if t > 700 { // where eᵗ overflows, though q·eᵗ need not
		d = math.Exp(math.Log(q)+t) - q
	}
	switch {
	case math.IsInf(d, 1):
		return math.Log(q) + t, d
	case d < -0.4: // log1p would round 1−q away for q near 1
		return math.Log((1 - q) + q*math.Exp(t)), d
	}
	return math.Log1p(d), d
}

func logNormal(z float64) float64 { return -z*z/2 - 0.918938533204672741780329736406 }

// reach is how far, in standard deviations, the quadrature goes beyond the
// centres of the integrand's mass: it leaves out a share of e^{−reach²/2} < 2e−22.
const reach = 10

// logMoment is ln E_Q[(P/Q)^α] by E_Q[r^α−1−α(r−1)], whose integrand is never
// negative and does not cancel for small divergences; E_Q[r−1] is 0. The rule
// is the trapezoid.
func logMoment(p pair, alpha float64) float64 {
	return log1pExp(trapezoid(p, alpha, p.step(alpha), reach, func(u, d float64) float64 { return logExcess(alpha, u, d) }))
}

// trapezoid is ln E_Q[f] of a function given by its logarithm, which grows no
// faster than (P/Q)^α.
func trapezoid(p pair, alpha, h, reach float64, logF func(u, d float64) float64) float64 {
	low, high := p.mass(alpha)
	n := int(math.Ceil((high - low + 2*reach) / h))
	var s logSum
	for i := range n + 1 {
		logQ, u, d := p.at(low - reach + float64(i)*h)
		s.add(logQ + logF(u, d))
	}
	return s.log() + math.Log(h)
}

// logExcess is ln(r^α−1−α(r−1)) with u = ln r and d = r−1, for α above 1 or below 0.
func logExcess(alpha, u, d float64) float64 {
	switch {
	case math.Max(math.Abs(alpha), 1)*math.Abs(d) < 0.02:
		// Binomial series from the second order on, over its first term;
		// max(|α|, 1)·|d| bounds the ratio of terms.
		term, sum := 1.0, 0.0
		for k := 2.0; k < 12; k++ {
			sum += term
			term *= (alpha - k) / (k + 1) * d
		}
		return math.Log(alpha*(alpha-1)/2*sum) + 2*math.Log(math.Abs(d))
	case alpha < 0 && u > 30: // the last term is all
		return math.Log(-alpha) + u
	case alpha < 0 && u < -0.5:
		// Over r^α, which may overflow, while 1+d may round to 0. Nothing cancels:
		// 1 − r^{−α} is at least 1.2 times |α·d|·r^{−α}.
		return alpha*u + math.Log(-math.Expm1(-alpha*u)-alpha*d*math.Exp(-alpha*u))
	case alpha*u < 30:
		// The same number without the difference of r^α and r, which are
		// close for orders near 1.
		return math.Log((1+d)*math.Expm1((alpha-1)*u) - (alpha-1)*d)
	default:
		// (r^α−1−α(r−1))/r^α = 1 − r^{1−α} − (α−1)·(r−1)/r^α
		x := (1 - alpha) * u
		return alpha*u + math.Log(-math.Expm1(x)+(alpha-1)*math.Exp(x)*math.Expm1(-u))
	}
}
