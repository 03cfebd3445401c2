package accountant

import "math"

// subsampledGaussianRDP returns D_α at every order α > 1 for one release of the
// Gaussian mechanism with standard deviation sigma, in units of the per-record
// bound, on a Poisson batch at rate q. q = 1 is the full data. The result is
// exact to about 1e-12 relative, also where it is tiny, except deep in the
// regime without privacy, where it is an upper bound (see unamplified).
func subsampledGaussianRDP(q, sigma float64, n Neighbouring, orders []float64) []float64 {
	rdp := make([]float64, len(orders))
	switch {
	case sigma == 0:
		for i := range rdp {
			rdp[i] = math.Inf(1)
		}
	case q == 1:
		for i, order := range orders {
			rdp[i] = gaussianRDP(sigma, n, order)
		}
	case n == ReplaceOne:
		quadratureRDP(rdp, replaceOnePair(q, sigma), orders)
	default:
		quadratureRDP(rdp, addRemovePair(q, sigma), orders)
	}
	return rdp
}

// gaussianRDP is D_α of the Gaussian mechanism on full data: αd²/(2σ²) with
// distance d = 1, or d = 2 when a record is replaced.
func gaussianRDP(sigma float64, n Neighbouring, order float64) float64 {
	if n == ReplaceOne {
		sigma /= 2
	}
	return order / sigma / sigma / 2
}

// binomialRDP is D_α under add/remove at an integer order (Mironov, Talwar and
// Zhang 2019, section 3.3): A_α = Σ_l C(α,l)(1−q)^{α−l}q^l e^{(l²−l)/2σ²}.
// Subtracting the binomial probabilities, which sum to 1, leaves A_α−1 as a sum
// of positive terms, so nothing cancels when the answer is tiny.
func binomialRDP(q, sigma float64, order int) float64 {
	terms := make([]float64, 0, order)
	logOdds := math.Log(q) - math.Log1p(-q)
	logWeight := float64(order) * math.Log1p(-q)
	for l := 1; l <= order; l++ {
		logWeight += math.Log(float64(order-l+1)/float64(l)) + logOdds
		if l > 1 {
			terms = append(terms, logWeight+logExpm1(float64(l)*float64(l-1)/2/sigma/sigma))
		}
	}
	return softplus(logSumExp(terms)) / float64(order-1)
}

// pair is a pair of distributions P, Q over a line scaled so that every Gaussian
// in it has unit variance.
type pair struct {
	q, sigma float64
	at       func(z float64) node
	left     float64                     // leftmost centre of P and Q
	right    func(order float64) float64 // P^α·Q^{1−α} falls like a unit Gaussian beyond it
	poles    float64                     // 1 where Q's zeros in the complex plane are poles of P^α·Q^{1−α}, else 0
	bound    func(order float64) float64 // upper bound on D_α, close where the quadrature is too long
	exact    func(order float64) (float64, bool)
}

// node is the pair at one point: w = P/Q − 1, l = ln(P/Q), and ln Q.
type node struct {
	w, l, logQ, z float64
}

// logInvSqrt2Pi = −ln √(2π).
const logInvSqrt2Pi = -0.91893853320467274178

func addRemovePair(q, sigma float64) pair {
	mu := 1 / sigma
	return pair{
		q: q, sigma: sigma,
		at: func(z float64) node {
			w, l := mixture(q, mu*z-mu*mu/2)
			return node{w: w, l: l, logQ: logInvSqrt2Pi - z*z/2, z: z}
		},
		right: func(order float64) float64 { return order * mu },
		bound: func(order float64) float64 { return unamplified(q, gaussianRDP(sigma, AddRemove, order), order) },
		exact: func(order float64) (float64, bool) {
			if order != math.Trunc(order) {
				return 0, false
			}
			return binomialRDP(q, sigma, int(order)), true
		},
	}
}

func replaceOnePair(q, sigma float64) pair {
	mu := 1 / sigma
	added := addRemovePair(q, sigma)
	return pair{
		q: q, sigma: sigma,
		at: func(z float64) node {
			_, p := mixture(q, mu*z-mu*mu/2)
			s, logS := mixture(q, -mu*z-mu*mu/2)
			n := node{logQ: logInvSqrt2Pi - z*z/2 + logS, z: z}
			if math.Abs(mu*z) < 1 {
				n.w = 2 * q * math.Exp(-mu*mu/2) * math.Sinh(mu*z) / (1 + s)
				n.l = math.Log1p(n.w)
			} else {
				n.l = p - logS
				n.w = math.Expm1(n.l)
			}
			return n
		},
		left:  -mu,
		right: func(order float64) float64 { return (2*order - 1) * mu },
		poles: 1,
		bound: func(order float64) float64 {
			// Q ≥ (1−q)N(0) costs at most −ln(1−q) over add/remove.
			rdp := make([]float64, 1)
			quadratureRDP(rdp, added, []float64{order})
			return min(rdp[0]-math.Log1p(-q), unamplified(q, gaussianRDP(sigma, ReplaceOne, order), order))
		},
		exact: func(float64) (float64, bool) { return 0, false },
	}
}

// mixture returns q(eᵉ−1) and ln(1+q(eᵉ−1)).
func mixture(q, e float64) (w, l float64) {
	w = q * math.Expm1(e)
	if e < 700 {
		return w, math.Log1p(w)
	}
	return w, logSumExp([]float64{math.Log1p(-q), math.Log(q) + e})
}

// unamplified bounds D_α of a mixture by convexity: with probability 1−q the
// record is not in the batch, otherwise the divergence is rdp.
func unamplified(q, rdp, order float64) float64 {
	return softplus(math.Log(q)+logExpm1((order-1)*rdp)) / (order - 1)
}

const (
	// accuracy is −ln of the error the quadrature's step and range allow
	// relative to the integral, with room for the constants in front.
	accuracy = 45.0
	// reach is how many standard deviations beyond the outermost centres the
	// quadrature goes: e^{−reach²/2} = 2e-22.
	reach = 10.0
	// maxNodes bounds the work at one order. It is passed only when D_α itself
	// is in the thousands, where pair.bound loses next to nothing.
	maxNodes = 1 << 14
)

// quadratureRDP fills rdp with D_α(P‖Q) = ln(1+E_Q[t^α−1−α(t−1)])/(α−1), t = P/Q.
// E_Q[t−1] = 0, so the subtraction changes nothing but makes the integrand
// positive and second order where t is close to 1.
//
// The trapezoid rule on the line errs by e^{−2πd/h} times the largest integral
// of the integrand's modulus along Im z = d. Write d = θσ. There a Gaussian is
// larger by e^{d²/2}, a mixture (1−q)+q·e^{z/σ−…} is never larger than on the
// real line, and never smaller than cos(θ/2) times it, so a power 1−α of it
// costs at most cos(θ/2)^{1−α}. step solves for h.
func quadratureRDP(rdp []float64, p pair, orders []float64) {
	var nodes []node
	var terms []float64
	reused := 0.0 // largest order the nodes serve
	for i, order := range orders {
		if exact, ok := p.exact(order); ok {
			rdp[i] = exact
			continue
		}
		if p.length(order) > maxNodes {
			rdp[i] = p.bound(order)
			continue
		}
		if order > reused || order < reused/4 {
			reused = p.widest(orders[i:])
			nodes = p.nodes(nodes[:0], reused)
		}
		terms = terms[:0]
		largest := math.Inf(-1)
		for _, n := range nodes {
			// t^α bounds the integrand where t > 1.
			if n.l > 0 && order*n.l+n.logQ < largest-accuracy-5 {
				continue
			}
			term := logExcess(order, n) + n.logQ
			largest = max(largest, term)
			terms = append(terms, term)
		}
		h := nodes[1].z - nodes[0].z
		rdp[i] = softplus(math.Log(h)+logSumExp(terms)) / (order - 1)
	}
}

// widest returns the largest leading order that may share nodes with the first:
// within a factor of 2, or the cost of long ranges and fine steps spreads to the
// orders that need neither.
func (p pair) widest(orders []float64) float64 {
	most := orders[0]
	for _, order := range orders {
		if order > 2*orders[0] || p.length(order) > maxNodes {
			break
		}
		most = max(most, order)
	}
	return most
}

func (p pair) length(order float64) float64 {
	return (p.right(order) - p.left + 2*reach) / p.step(order)
}

func (p pair) nodes(buffer []node, order float64) []node {
	h := p.step(order)
	from := p.left - reach
	for i := range int(p.length(order)) + 2 {
		buffer = append(buffer, p.at(from+float64(i)*h))
	}
	return buffer
}

// step returns the largest h, over a geometric grid of θ < π, that satisfies
// 2πθσ/h − (θσ)²/2 + (α−1)·ln cos(θ/2) ≥ accuracy, the last term only with
// poles. h rises and then falls in θ, so the first fall ends the search.
func (p pair) step(order float64) float64 {
	best := 0.0
	for theta := 0.98 * math.Pi; ; theta *= 0.85 {
		d := theta * p.sigma
		h := 2 * math.Pi * d / (accuracy + d*d/2 - p.poles*(order-1)*math.Log(math.Cos(theta/2)))
		if h <= best {
			return best
		}
		best = h
	}
}

// logExcess returns ln(t^α − 1 − α(t−1)) without cancellation.
func logExcess(order float64, n node) float64 {
	b := order - 1
	switch {
	case math.Abs(n.w)*order < 0.1:
		// Binomial series from its second-order term.
		term := order * b / 2 * n.w * n.w
		sum := term
		for k := 2.0; math.Abs(term) > 1e-17*sum; k++ {
			term *= (order - k) / (k + 1) * n.w
			sum += term
		}
		return math.Log(sum)
	case b*n.l > 50:
		return order * n.l
	case n.l > 1:
		return n.l + math.Log(math.Expm1(b*n.l)+b*math.Expm1(-n.l))
	default:
		return math.Log((1+n.w)*math.Expm1(b*n.l) - b*n.w)
	}
}

// logExpm1 returns ln(eˣ−1) for x ≥ 0.
func logExpm1(x float64) float64 {
	if x < 1 {
		return math.Log(math.Expm1(x))
	}
	return x + math.Log1p(-math.Exp(-x))
}

// softplus returns ln(1+eˣ).
func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

func logSumExp(x []float64) float64 {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = max(largest, v)
	}
	if math.IsInf(largest, 0) {
		return largest
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	return largest + math.Log(sum)
}
