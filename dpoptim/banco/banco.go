// Package banco is the arithmetic of the betting algorithm for noisy coins
// (Jun and Orabona 2019, "Parameter-free locally differentially private
// stochastic subgradient descent"): the noise that a client adds to its own
// subgradient before anybody else sees it, and the bet that the server makes
// on the noisy ones. It sees no data and draws no noise: package client has what a client runs, and
// Server what takes the reports.
package banco

import (
	"fmt"
	"math"
)

// Params are a client's privacy and what follows from it. The guarantee is
// local: whatever two records a client may hold, the density of what it sends
// differs by a factor of at most e^ε.
type Params struct {
	epsilon, bound float64
	dim            int
	law            law
}

// law is that of a client's noise.
type law uint8

const (
	gamma law = iota
	printed
	sphere
)

// New takes ε of one use of a client's record, the bound G that the client
// enforces on its subgradient's norm, and the number of parameters d.
func New(epsilon, bound float64, dim int) (Params, error) {
	switch {
	case !(epsilon > 0) || math.IsInf(epsilon, 0):
		return Params{}, fmt.Errorf("epsilon %v: must be a finite number above 0", epsilon)
	case !(bound > 0) || math.IsInf(bound, 0):
		return Params{}, fmt.Errorf("gradient bound %v: must be a finite number above 0", bound)
	case dim < 1:
		return Params{}, fmt.Errorf("dim %d: must be 1 or more", dim)
	case !(2*bound/epsilon*float64(dim) <= mostReport/0x1p100):
		return Params{}, fmt.Errorf("epsilon %.6g of a report: the noise on gradients up to %v is beyond what can be computed with; raise epsilon", epsilon, bound)
	}
	return Params{epsilon: epsilon, bound: bound, dim: dim}, nil
}

// Printed is the same noise under the paper's larger variance: the whole noise's E‖ξ‖² = d(d+1)(2G/ε)²,
// where that along the direction is enough.
func (p Params) Printed() Params {
	p.law = printed
	return p
}

// OnSphere is for reports of the hemisphere mechanism (Duchi, Jordan and Wainwright 2018), which are points of a
// sphere with Radius.
func (p Params) OnSphere() Params {
	p.law = sphere
	return p
}

// Epsilon is that of one report, Bound is G and Dim is d.
func (p Params) Epsilon() float64 { return p.epsilon }
func (p Params) Bound() float64   { return p.bound }
func (p Params) Dim() int         { return p.dim }

// Radius is the norm B = G·√π·Γ((d+1)/2)/Γ(d/2)·(e^ε+1)/(e^ε−1) of every report on a sphere, whose mean is then
// the gradient; and 0 for noise that is added.
func (p Params) Radius() float64 {
	if p.law != sphere {
		return 0
	}
	half := float64(p.dim) / 2
	above, _ := math.Lgamma(half + 0.5)
	below, _ := math.Lgamma(half)
	return p.bound * math.SqrtPi * math.Exp(above-below) / math.Tanh(p.epsilon/2)
}

// SecondMoment is E‖ĝ‖² of a report without a gradient.
func (p Params) SecondMoment() float64 {
	if p.law == sphere {
		return p.Radius() * p.Radius()
	}
	d := float64(p.dim)
	return d * (d + 1) * p.RadiusScale() * p.RadiusScale()
}

// RadiusScale is 2G/ε: the noise is r·u with r from the Gamma distribution of
// shape d and this scale and u uniform on the unit sphere, whose density is
// proportional to exp(−ε‖z‖/(2G)). Two subgradients are at most 2G apart.
func (p Params) RadiusScale() float64 { return 2 * p.bound / p.epsilon }

// Tail is b = 4G/ε: the noise in any direction is sub-exponential with
// parameters (DirectionVariance, b). The paper prints ε/4, its inverse at
// G = 1. On a sphere it is B/√d.
func (p Params) Tail() float64 {
	if p.law == sphere {
		return p.Radius() / math.Sqrt(float64(p.dim))
	}
	return 4 * p.bound / p.epsilon
}

// BetLimit is a = min(0.6838/G, 1/b), the largest fraction that is bet.
func (p Params) BetLimit() float64 { return min(0.6838/p.bound, 1/p.Tail()) }

// DirectionVariance is σ²_1D = 16·ln(4/3)·(d+1)G²/ε². Along a unit vector the
// noise has the moment generating function (1−(2Gβ/ε)²)^{−(d+1)/2}; its
// logarithm over β²/2 is largest at the end, |β| = 1/b, and this there. On
// a sphere it is 2r·b², with r of docs/proofs/local.md.
func (p Params) DirectionVariance() float64 {
	switch p.law {
	case printed:
		return p.SecondMoment()
	case sphere:
		r := math.Sqrt(math.E)*(1+math.Erf(math.Sqrt2/2)) - 1 - math.Sqrt(2/math.Pi)
		return 2 * r * p.Tail() * p.Tail()
	}
	s := p.bound / p.epsilon
	return 16 * math.Log(4./3) * (float64(p.dim) + 1) * s * s
}

// Curvature is y = t(σ²_1D/2+G²) after t subgradients.
func (p Params) Curvature(t int) float64 {
	return float64(t) * (p.DirectionVariance()/2 + p.bound*p.bound)
}

// LogMagnitude is ln|m| and the sign of the bet m after t ≥ 1 noisy
// subgradients whose inner products with the directions played sum to x,
//
//	m = sign(x)/a · ∫₀^a β·exp(−yβ²)·sinh(β|x|) dβ.
//
// At x = 0, m is 0: its logarithm is −Inf, its sign 0.
func (p Params) LogMagnitude(x float64, t int) (logAbs float64, sign int) {
	return logMagnitude(x, p.BetLimit(), p.Curvature(t))
}

// Excess bounds the expected excess of the average after t reports over a point of a norm: theorem 2 of the paper
// with its constants. The bets regret at most 1 + norm·x with m(x) = norm, the directions at most 3·√(t·E‖ĝ‖²)
// times the norm; docs/proofs/local.md has the proof.
func (p Params) Excess(norm float64, t int) float64 {
	square := p.SecondMoment()
	if p.law != sphere {
		square += p.bound * p.bound
	}
	return (1 + norm*p.winning(norm, t) + 3*norm*math.Sqrt(float64(t)*square)) / float64(t)
}

// winning is the sum at which the bet is a number above 0.
func (p Params) winning(bet float64, t int) float64 {
	if !(bet > 0) {
		return 0
	}
	low, high := -700., 700. // of its logarithm
	for range 100 {
		mid := (low + high) / 2
		if log, _ := p.LogMagnitude(math.Exp(mid), t); log < math.Log(bet) {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(high)
}

// Cost is kε, the price of k uses of one client's record.
func (p Params) Cost(uses int) float64 { return float64(uses) * p.epsilon }

// logMagnitude is m's logarithm by one of two closed forms, each used where
// it neither overflows nor cancels. With A, B = a√y∓x/(2√y), the first holds
// for a peak of the integrand inside [0, a]. It subtracts numbers whose ratio
// stays clear of 1 while a²y does not vanish, and a²y is 0.25 or more for every
// ε, d and t by the choice of a and y.
func logMagnitude(x, a, y float64) (logAbs float64, sign int) {
	if x == 0 || math.IsNaN(x) {
		return math.Log(math.Abs(x)), 0
	}
	sign = 1
	if x < 0 {
		x, sign = -x, -1
	}
	root := math.Sqrt(y)
	b := a*root + x/(2*root)
	if at := a*root - x/(2*root); at >= 0 {
		first := math.Log(math.SqrtPi*x/(8*a*y*root)) + x/(2*root)*(x/(2*root)) + math.Log(math.Erf(at)+math.Erf(b))
		second := -a*a*y + logSinh(a*x) - math.Log(2*a*y)
		return first + math.Log1p(-math.Exp(second-first)), sign
	}
	// x beyond the peak: e^{ax−a²y}/(2ay) times a bracket of scaled tails. With
	// x/(2√y) = z+a√y the bracket's ½ cancels against √π·z·erfcx(z)/2 by hand.
	z := x/(2*root) - a*root
	bracket := (math.SqrtPi*a*root*erfcx(z) - tailGap(z)) / 2
	bracket -= math.Exp(-2*a*x) * (math.SqrtPi*x/(4*root)*erfcx(b) - 0.5)
	return a*x - a*a*y - math.Log(2*a*y) + math.Log(bracket), sign
}

// logSinh is ln sinh(u), u > 0.
func logSinh(u float64) float64 {
	if u < 1 {
		return math.Log(math.Sinh(u))
	}
	return u - math.Ln2 + math.Log1p(-math.Exp(-2*u))
}

// far is where the expansions of erfcx at infinity take over: six terms leave
// out less than 1e-16.
const far = 25

// erfcx is e^{z²}·erfc(z) for z ≥ 0.
func erfcx(z float64) float64 {
	if z > far {
		return (1 - tailGap(z)) / (z * math.SqrtPi)
	}
	high := z * z
	low := math.FMA(z, z, -high) // what rounding z² lost, which the exponential would magnify
	return math.Exp(high) * (1 + low) * math.Erfc(z)
}

// tailGap is 1−√π·z·erfcx(z) for z ≥ 0.
func tailGap(z float64) float64 {
	if z <= far {
		return 1 - math.SqrtPi*z*erfcx(z)
	}
	w := 1 / (2 * z * z)
	return w * (1 - 3*w*(1-5*w*(1-7*w*(1-9*w*(1-11*w)))))
}
