package btls

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
)

// Noise is the distribution of the noise on the threshold and the queries.
type Noise int

const (
	Gaussian Noise = iota
	Laplace
)

// agreement is how close two quadratures must come, relative to each
// probability: the second is then far closer, as both rules converge at least
// geometrically in the number of nodes.
const agreement = 1e-10

// maxNodes bounds the work of a quadrature.
const maxNodes = 1 << 22

// Distribution is the distribution of the index at which the search stops when
// its queries are levels above the threshold, all in units of Δ: entry i is the
// probability that query i is the first with q_i+ν_i ≥ T+λ, and the last entry,
// of index len(levels), that none is. Each is within 1e-10 of itself unless below
// 1e-290. Trials and Shared play no part. It is what a simulation is compared
// with; as a function of private data it is itself private.
func (s Search) Distribution(levels []float64, noise Noise) ([]float64, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	for i, q := range levels {
		if math.IsNaN(q) || math.IsInf(q, 0) {
			return nil, fmt.Errorf("level %d is %v: must be finite", i, q)
		}
	}
	switch noise {
	case Gaussian:
		return s.gaussianDistribution(levels)
	case Laplace:
		return s.laplaceDistribution(levels)
	}
	return nil, fmt.Errorf("noise %d: choose Gaussian or Laplace", noise)
}

// add puts weight times the distribution given the threshold's noise into p.
func (s Search) add(p, levels []float64, lambda, weight float64, tails func(x float64) (below, above float64)) {
	var below, above float64
	last := math.NaN()
	for i, q := range levels {
		if q != last { // equal levels come in groups
			below, above = tails((lambda - q) / s.Query)
			last = q
		}
		p[i] += weight * above
		if weight *= below; weight == 0 {
			return
		}
	}
	p[len(levels)] += weight
}

func normalTails(x float64) (below, above float64) {
	if x < 0 {
		below = math.Erfc(-x/math.Sqrt2) / 2
		return below, 1 - below
	}
	above = math.Erfc(x/math.Sqrt2) / 2
	return 1 - above, above
}

func laplaceTails(x float64) (below, above float64) {
	if x < 0 {
		below = math.Exp(x) / 2
		return below, 1 - below
	}
	above = math.Exp(-x) / 2
	return 1 - above, above
}

// gaussianDistribution uses the trapezoid rule on the whole line, which for
// these entire integrands converges faster than geometrically.
func (s Search) gaussianDistribution(levels []float64) ([]float64, error) {
	const reach = 38 // e^{−reach²/2} is the least float64
	sum := make([]float64, len(levels)+1)
	h := math.Min(0.5, s.Query/s.Threshold)
	for first := true; reach/h < maxNodes; h /= 2 {
		fresh := make([]float64, len(sum))
		n := math.Ceil(reach / h)
		for i := -n; i <= n; i++ {
			if first || math.Mod(i, 2) != 0 { // the even nodes are there already
				z := i * h
				s.add(fresh, levels, z*s.Threshold, h*math.Exp(logNormal(z)), normalTails)
			}
		}
		if first {
			sum, first = fresh, false
			continue
		}
		for i := range sum {
			fresh[i] += sum[i] / 2
		}
		if agree(sum, fresh) {
			return fresh, nil
		}
		sum = fresh
	}
	return nil, s.notConverged()
}

// laplaceDistribution uses Gauss's rule on panels between the kinks, which are
// at 0 and the levels.
func (s Search) laplaceDistribution(levels []float64) ([]float64, error) {
	const nodes = 16
	kinks := append(slices.Clone(levels), 0)
	slices.Sort(kinks)
	// Left of all kinks the integrand falls at least as the threshold's
	// density, and so it does to the right once the queries fall silent.
	far := 42 * s.Threshold
	kinks = append([]float64{kinks[0] - far}, kinks...)
	kinks = append(kinks, kinks[len(kinks)-1]+far+s.Query*math.Log1p(float64(len(levels))))
	kinks = slices.Compact(kinks)

	var last []float64
	x, w := make([]float64, nodes), make([]float64, nodes)
	for panel := 2 * math.Min(s.Threshold, s.Query); ; panel /= 2 {
		if (kinks[len(kinks)-1]-kinks[0])/panel > maxNodes/nodes {
			return nil, s.notConverged()
		}
		p := make([]float64, len(levels)+1)
		for i, from := range kinks[:len(kinks)-1] {
			width := kinks[i+1] - from
			n := math.Ceil(width / panel)
			for j := range int(n) {
				quad.Legendre{}.FixedLocations(x, w, from+width*float64(j)/n, from+width*float64(j+1)/n)
				for k, lambda := range x {
					s.add(p, levels, lambda, w[k]*math.Exp(-math.Abs(lambda)/s.Threshold)/(2*s.Threshold), laplaceTails)
				}
			}
		}
		if last != nil && agree(last, p) {
			return p, nil
		}
		last = p
	}
}

func agree(p, q []float64) bool {
	for i := range p {
		if !(math.Abs(p[i]-q[i]) <= agreement*q[i]+1e-300) {
			return false
		}
	}
	return true
}

func (s Search) notConverged() error {
	return fmt.Errorf("the quadrature for threshold scale %v and query scale %v over these levels needs too many nodes: "+
		"choose scales and levels closer to each other", s.Threshold, s.Query)
}
