package accountant

import "math"

// rdpSampledGaussian is the Rényi divergence of order alpha > 1 of one
// Gaussian release with noise multiplier sigma on a Poisson batch at rate q.
func rdpSampledGaussian(q, sigma, alpha float64, n Neighbouring) float64 {
	if sigma == 0 {
		return math.Inf(1)
	}
	if n == ReplaceOne {
		if q == 1 {
			return 2 * alpha / (sigma * sigma)
		}
		return logMoment(replacePair{q, 1 / sigma}, 1/sigma, 2*alpha/sigma, alpha) / (alpha - 1)
	}
	if q == 1 {
		return alpha / (2 * sigma * sigma)
	}
	if alpha == math.Trunc(alpha) && alpha < 1<<20 {
		return log1pExp(logBinomialExcess(q, sigma, int(alpha))) / (alpha - 1)
	}
	return logMoment(addPair{q, 1 / sigma}, 0, alpha/sigma, alpha) / (alpha - 1)
}

// logBinomialExcess is ln(A−1) with A = Σ_l C(α,l)(1−q)^{α−l} q^l e^{(l²−l)/(2σ²)}.
// The binomial weights sum to 1, so A−1 is the same sum over e^{…}−1, all of
// whose terms are positive: nothing cancels however small A−1 is.
func logBinomialExcess(q, sigma float64, alpha int) float64 {
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	logQ, log1Q, all := math.Log(q), math.Log1p(-q), lg(alpha)
	var s logSum
	for l := 2; l <= alpha; l++ {
		x := float64(l) * float64(l-1) / (2 * sigma * sigma)
		s.add(all - lg(l) - lg(alpha-l) + float64(alpha-l)*log1Q + float64(l)*logQ + logExpm1(x))
	}
	return s.log()
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
	// strip is how far from the real line P/Q stays analytic.
	strip() float64
}

// addPair is P = (1−q)N(0,1)+qN(μ,1) against Q = N(0,1), the worse direction
// of add/remove at every order (Mironov, Talwar and Zhang 2019, theorem 5).
type addPair struct{ q, mu float64 }

func (p addPair) at(z float64) (logQ, u, d float64) {
	e := p.q * math.Expm1(p.mu*z-p.mu*p.mu/2)
	return logNormal(z), logMix(p.q, p.mu*z-p.mu*p.mu/2), e
}

func (p addPair) strip() float64 { return math.Pi / p.mu }

// replacePair is P = (1−q)N(0,1)+qN(μ,1) against Q = (1−q)N(0,1)+qN(−μ,1);
// the other direction is its mirror image.
type replacePair struct{ q, mu float64 }

func (p replacePair) at(z float64) (logQ, u, d float64) {
	up, down := p.mu*z-p.mu*p.mu/2, -p.mu*z-p.mu*p.mu/2
	low := logMix(p.q, down)
	return logNormal(z) + low, logMix(p.q, up) - low, p.q * math.Exp(down-low) * math.Expm1(up-down)
}

func (p replacePair) strip() float64 { return math.Pi / p.mu }

// logMix is ln(1−q+q·eᵗ).
func logMix(q, t float64) float64 {
	if t > 30 {
		return math.Log(q) + t + math.Log1p((1-q)/q*math.Exp(-t))
	}
	return math.Log1p(q * math.Expm1(t))
}

func logNormal(z float64) float64 { return -z*z/2 - 0.918938533204672741780329736406 }

// reach is how far, in standard deviations, the quadrature goes beyond the
// centres of the integrand's mass: it leaves out a share of e^{−reach²/2} < 2e−22.
const reach = 10

// logMoment is ln E_Q[(P/Q)^α] by E_Q[r^α−1−α(r−1)], whose integrand is never
// negative and does not cancel for small divergences; E_Q[r−1] is 0. The mass
// lies between −low−reach and high+reach. On the whole line the trapezoid rule
// errs by about exp(a²/2−2πa/h) for an integrand analytic in a strip of half
// width a (Trefethen and Weideman 2014, theorem 5.1); h makes that e^{−45}.
func logMoment(p pair, low, high, alpha float64) float64 {
	a := math.Min(0.9*p.strip(), 6)
	h := math.Min(2*math.Pi*a/(45+a*a/2), 0.25)
	from := -low - reach
	n := int(math.Ceil((high + reach - from) / h))
	var s logSum
	for i := range n + 1 {
		logQ, u, d := p.at(from + float64(i)*h)
		s.add(logQ + logExcess(alpha, u, d))
	}
	return log1pExp(s.log() + math.Log(h))
}

// logExcess is ln(r^α−1−α(r−1)) with u = ln r and d = r−1.
func logExcess(alpha, u, d float64) float64 {
	switch {
	case alpha*math.Abs(d) < 0.02:
		// Binomial series from the second order on; alpha·|d| bounds the ratio of terms.
		term := alpha * (alpha - 1) / 2 * d * d
		sum := 0.0
		for k := 2.0; k < 12; k++ {
			sum += term
			term *= (alpha - k) / (k + 1) * d
		}
		return math.Log(sum)
	case alpha*u < 30:
		return math.Log(math.Expm1(alpha*u) - alpha*d)
	default:
		// (1+αd)/r^α = α·r^{1−α} + (1−α)·r^{−α}
		rest := alpha*math.Exp((1-alpha)*u) - (alpha-1)*math.Exp(-alpha*u)
		return alpha*u + math.Log1p(-rest)
	}
}
