package prv

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// A loss is ln P(x)/Q(x) of a pair, as a function of x that never falls:
// P = (1−q)N(0)+qN(μ) against Q = N(0), or against (1−q)N(0)+qN(−μ) where
// replace is set (Gaussian only).
type loss struct {
	noise      Noise
	rate, size float64 // q, μ
	replace    bool
}

// at is the loss at x.
func (l loss) at(x float64) float64 {
	if l.noise == LaplaceNoise {
		return logMix(l.rate, 2*math.Min(math.Max(x, 0), l.size)-l.size)
	}
	half := l.size * l.size / 2
	y := logMix(l.rate, l.size*x-half)
	if l.replace {
		y -= logMix(l.rate, -l.size*x-half)
	}
	return y
}

// logMix is ln(1−q+q·eᵗ). At q = 1 that is t, also where eᵗ is too small for a float64.
func logMix(q, t float64) float64 {
	if q == 1 {
		return t
	}
	if t > 30 {
		return t + math.Log(q+(1-q)*math.Exp(-t))
	}
	if d := q * math.Expm1(t); d > -0.5 {
		return math.Log1p(d)
	}
	return math.Log((1 - q) + q*math.Exp(t))
}

// inverse is the largest x at which the loss is at most y: −Inf or +Inf where
// it is so nowhere or everywhere.
func (l loss) inverse(y float64) float64 {
	if l.replace {
		// With u = e^{μx}, P/Q = eʸ is a quadratic equation in u·e^{−y/2}, the
		// solution of which is the exponential of an inverse hyperbolic sine.
		a := (1 - l.rate) / l.rate * math.Exp(l.size*l.size/2) * math.Sinh(y/2)
		return (y/2 + math.Asinh(a)) / l.size
	}
	t := unmix(l.rate, y)
	if l.noise == GaussianNoise {
		return t/l.size + l.size/2
	}
	switch { // the loss is flat beyond 0 and μ
	case t < -l.size:
		return math.Inf(-1)
	case t >= l.size:
		return math.Inf(1)
	}
	return (t + l.size) / 2
}

// unmix is t with ln(1−q+q·eᵗ) = y, or −Inf where there is none.
func unmix(q, y float64) float64 {
	if q == 1 {
		return y
	}
	if y > 30 {
		return y + math.Log((1-(1-q)*math.Exp(-y))/q)
	}
	d := math.Expm1(y) / q
	if d > -0.5 {
		return math.Log1p(d)
	}
	if d = math.Exp(y) - (1 - q); d <= 0 {
		return math.Inf(-1)
	}
	return math.Log(d / q)
}

// cumulative of x drawn from Q, or from P, of a loss without replace's Q. For
// the sake of tiny tails it is P(X ≤ x) up to the middle μ/2, and that minus 1 above.
func (l loss) cumulative(x float64, fromQ bool) float64 {
	above := x > l.size/2
	one := func(z float64) float64 { // noise around 0
		if above {
			return -l.noise.below(-z)
		}
		return l.noise.below(z)
	}
	if fromQ {
		return one(x)
	}
	v := l.rate * one(x-l.size)
	if l.rate < 1 {
		v += (1 - l.rate) * one(x)
	}
	return v
}

// below is the noise's distribution function.
func (n Noise) below(z float64) float64 {
	switch {
	case n == GaussianNoise:
		return math.Erfc(-z/math.Sqrt2) / 2
	case z < 0:
		return math.Exp(z) / 2
	}
	return 1 - math.Exp(-z)/2
}

// reach is how far, in standard deviations, a single Gaussian release is
// followed beyond its centres. What lies beyond counts as being there.
const reach = 9

// beyond bounds the probability of that, 2Φ(−9).
const beyond = 2.3e-19

// node is a value of a variable with the logarithm of its weight.
type node struct{ y, logW float64 }

// variable is count independent copies of a privacy random variable Y.
type variable struct {
	loss  loss
	add   bool // Y = −loss, x from Q; otherwise Y = loss, x from P
	count float64
	nodes []node  // a quadrature: E[g(Y)] = Σ e^{logW}·g(y), also for e^{sY} with |s| up to the limit
	limit float64 // of |s|
	mean  float64
}

// maxTilt is a bound on the s of E[e^{sY}] that is worth trying: beyond it a
// far tail takes over, or the exponent at the tail is past what any δ needs.
func maxTilt(size, rate float64) float64 {
	return math.Min(20-4*math.Log(rate)/size, 100) / size
}

func newVariable(l loss, add bool, count, limit float64) *variable {
	v := &variable{loss: l, add: add, count: count, limit: limit}
	if l.noise == GaussianNoise {
		v.gaussianNodes()
	} else {
		v.laplaceNodes()
	}
	for _, n := range v.nodes {
		v.mean += math.Exp(n.logW) * n.y
	}
	return v
}

// ends is the least and the largest value of Y.
func (v *variable) ends() (low, high float64) {
	low, high = v.loss.at(math.Inf(-1)), v.loss.at(math.Inf(1))
	if v.add {
		return -high, -low
	}
	return low, high
}

func (v *variable) put(x, logDensity, weight float64) {
	y := v.loss.at(x)
	if v.add {
		y = -y
	}
	v.nodes = append(v.nodes, node{y, logDensity + math.Log(weight)})
}

// gaussianNodes is the trapezoid rule. Its integrand, the density times
// e^{sY}, is analytic; at height η, θ = μη below π/2, the loss's mixtures
// |1−q+q·e^{a+iθ}| are at least cos(θ/2) of their value on the line, which
// e^{−0.14θ²} bounds below, so that it grows by e^{rη²/2} at most with r =
// 1+0.28|s|μ². The rule's error is then a share of e^{rη²/2−2πη/spacing}
// (Trefethen and Weideman 2014, theorem 5.1): e^{−40} by the choice below.
func (v *variable) gaussianNodes() {
	l := v.loss
	r := 1 + 0.28*(1+v.limit)*l.size*l.size
	height := math.Min(math.Pi/2/l.size, math.Sqrt(80/r))
	spacing := 2 * math.Pi * height / (40 + r*height*height/2)
	// Of q = 1, and of a replaced record, e^{sY} moves the centre by 2sμ at most.
	far := v.limit * l.size
	if l.replace {
		far *= 2
	}
	low, high := -far-reach-l.size, far+reach+l.size
	n := int(math.Ceil((high - low) / spacing))
	for i := range n + 1 {
		x := low + float64(i)*spacing
		logDensity := -x*x/2 - math.Log(2*math.Pi)/2
		if !v.add {
			logDensity += logMix(l.rate, l.size*x-l.size*l.size/2)
		}
		v.put(x, logDensity, spacing)
	}
}

// laplaceNodes is the two ends, where the loss is flat, and Gauss's rule on
// panels between them in which the integrand's exponent changes by at most 2.
func (v *variable) laplaceNodes() {
	l := v.loss
	for _, end := range []float64{0, l.size} {
		mass := l.cumulative(end, v.add)
		if end > l.size/2 {
			mass = -mass
		}
		v.put(end, 0, mass)
	}
	const order = 20
	at, weight := make([]float64, order), make([]float64, order)
	panels := math.Ceil(l.size * (1 + v.limit))
	for p := range int(panels) {
		width := l.size / panels
		quad.Legendre{}.FixedLocations(at, weight, float64(p)*width, float64(p+1)*width)
		for i, x := range at {
			logDensity := -x - math.Ln2
			if !v.add {
				logDensity += logMix(l.rate, 2*x-l.size)
			}
			v.put(x, logDensity, weight[i])
		}
	}
}

// logMoment is ln E[e^{sY}], |s| ≤ limit: for s > 0 that is s times the Rényi
// divergence of order 1+s.
func (v *variable) logMoment(s float64) float64 {
	top := math.Inf(-1)
	for _, n := range v.nodes {
		top = math.Max(top, s*n.y+n.logW)
	}
	sum := 0.0
	for _, n := range v.nodes {
		if e := s*n.y + n.logW - top; e > -50 {
			sum += math.Exp(e)
		}
	}
	return top + math.Log(sum)
}

// spread adds the probabilities of Y rounded to multiples of mesh, nearest
// first, to the cells of a circle, and gives the mean of what rounding took away.
func (v *variable) spread(cells []float64, mesh float64) float64 {
	from, to := -math.Inf(1), math.Inf(1)
	if v.loss.noise == GaussianNoise {
		from, to = -reach, reach
		if !v.add {
			to += v.loss.size
		}
	}
	from, to = math.Round(v.loss.at(from)/mesh), math.Round(v.loss.at(to)/mesh)
	size := len(cells)
	mean := 0.0
	last, above := 0.0, false
	index := int(math.Mod(from, float64(size)))
	step := 1
	if v.add {
		index, step = -index, -1
	}
	if index < 0 {
		index += size
	}
	for j := from; j <= to; j++ {
		next, nextAbove := 0.0, true // of 1 minus 1: all that is left
		if j < to {
			x := v.loss.inverse((j + 0.5) * mesh)
			next, nextAbove = v.loss.cumulative(x, v.add), x > v.loss.size/2
		}
		p := next - last
		if nextAbove && !above {
			p++
		}
		last, above = next, nextAbove
		cells[index] += p
		mean += p * j
		if index += step; index == size {
			index = 0
		} else if index < 0 {
			index = size - 1
		}
	}
	return v.mean - float64(step)*mean*mesh
}
