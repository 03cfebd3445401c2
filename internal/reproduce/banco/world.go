package banco

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/dpoptim/banco"
)

// A world is where records come from: x is uniform on the unit sphere, and the label follows from w*, along the
// first axis. So every gradient has a norm of at most 1, and the excess risk is an integral in one or two dimensions.
type world struct {
	loss   loss
	dim    int
	length float64 // of w*
	// flipped is the share of records whose label is that of −w*, under absolute loss: at ½ there is nothing to learn.
	flipped float64
}

type loss string

const (
	// absolute is |⟨w, x⟩ − y|, and y is ⟨w*, x⟩.
	absolute loss = "absolute"
	// logistic is ln(1+exp(−y⟨w, x⟩)), and y is 1 with probability 1/(1+exp(−⟨w*, x⟩)), else −1.
	logistic loss = "logistic"
)

// gradient draws a record, and puts the gradient of its loss at w into g.
func (v world) gradient(w, g []float64, random *rand.Rand) {
	sum := 0.0
	for i := range g {
		g[i] = random.NormFloat64()
		sum += g[i] * g[i]
	}
	norm, at := math.Sqrt(sum), 0.0
	for i := range g {
		g[i] /= norm
		at += w[i] * g[i]
	}
	slope, target := 0.0, v.length*g[0]
	if v.flipped > 0 && random.Float64() < v.flipped {
		target = -target
	}
	switch {
	case v.loss == absolute && at > target:
		slope = 1
	case v.loss == absolute && at < target:
		slope = -1
	case v.loss == logistic:
		slope = sigmoid(at)
		if random.Float64() < sigmoid(target) {
			slope--
		}
	}
	for i := range g {
		g[i] *= slope
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// excess is F(w) − F(w*), exact up to the rounding of quadrature.
func (v world) excess(w []float64) float64 {
	along, rest := w[0], 0.0
	for _, x := range w[1:] {
		rest += x * x
	}
	if rest = math.Sqrt(rest); v.loss == absolute {
		half := float64(v.dim) / 2
		above, _ := math.Lgamma(half)
		below, _ := math.Lgamma(half + 0.5)
		far := (1-v.flipped)*math.Hypot(along-v.length, rest) + v.flipped*(math.Hypot(along+v.length, rest)-2*v.length)
		return far * math.Exp(above-below) / math.SqrtPi // E|x₁|
	}
	// x is (sin a, cos a·sin b, …) in the plane of w* and w.
	mean := func(power int, f func(sin, cos float64) float64) float64 {
		weight := func(a float64) float64 { return math.Pow(math.Cos(a), float64(power)) }
		sum := func(f func(a float64) float64) float64 {
			return quad.Fixed(f, -math.Pi/2, math.Pi/2, points, quad.Legendre{}, 0)
		}
		return sum(func(a float64) float64 { return weight(a) * f(math.Sin(a), math.Cos(a)) }) / sum(weight)
	}
	return mean(v.dim-2, func(x, cos float64) float64 {
		return mean(v.dim-3, func(y, _ float64) float64 {
			return divergence(v.length*x, along*x+rest*cos*y)
		})
	})
}

// points of a quadrature, which leaves less than 1e-9 of smooth functions.
const points = 48

// divergence is that of a coin with logit b from one with logit a: the excess of the logistic loss.
func divergence(a, b float64) float64 {
	p := sigmoid(a)
	return p*(softplus(-b)-softplus(-a)) + (1-p)*(softplus(b)-softplus(a))
}

// softplus is ln(1+e^x).
func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// A reporter makes a report of a gradient, in its place.
type reporter interface{ report(g []float64) error }

// gamma adds the paper's noise in float64, drawn fast.
type gamma struct {
	length distuv.Gamma
	random *rand.Rand
	noise  []float64
}

func newGamma(p banco.Params, random *rand.Rand) *gamma {
	return &gamma{distuv.Gamma{Alpha: float64(p.Dim()), Beta: 1 / p.RadiusScale(), Src: random}, random, make([]float64, p.Dim())}
}

func (r *gamma) report(g []float64) error {
	size := r.length.Rand() / direction(r.noise, r.random)
	for i, x := range r.noise {
		g[i] += size * x
	}
	return nil
}

// hemisphere gives a point of a sphere, in float64.
type hemisphere struct {
	params banco.Params
	random *rand.Rand
	point  []float64
}

func (r *hemisphere) report(g []float64) error {
	size, along, norm := r.params.Radius()/direction(r.point, r.random), 0.0, 0.0
	for i, x := range g {
		along += x * r.point[i]
		norm += x * x
	}
	own := r.random.Float64() < 0.5+math.Sqrt(norm)/(2*r.params.Bound())
	if wrong := r.random.Float64() < sigmoid(-r.params.Epsilon()); (along >= 0) != (own != wrong) {
		size = -size
	}
	for i, x := range r.point {
		g[i] = size * x
	}
	return nil
}

// direction draws one, and gives its length.
func direction(v []float64, random *rand.Rand) float64 {
	sum := 0.0
	for i := range v {
		v[i] = random.NormFloat64()
		sum += v[i] * v[i]
	}
	return math.Sqrt(sum)
}
