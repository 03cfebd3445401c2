package btls

import (
	"math"
	"testing"
)

// One query stops with the probability that one variable is above another,
// which has a closed form for either noise.
func TestDistributionOfOneTrial(t *testing.T) {
	for _, s := range []Search{{Threshold: 1, Query: 1.5}, {Threshold: 0.01, Query: 1}, {Threshold: 3, Query: 0.02}, {Threshold: 40, Query: 7}} {
		for _, level := range []float64{0, 0.3, -0.3, 2.5, -7, -25} {
			p := distribution(t, s, []float64{level}, Gaussian)
			above := math.Erfc(-level/math.Hypot(s.Threshold, s.Query)/math.Sqrt2) / 2
			within(t, "gaussian, stops", p[0], above, 1e-10)
			within(t, "gaussian, none", p[1], 1-above, 1e-10)

			// ν−λ of Laplace variables of scales a ≠ b: tail
			// (b²e^{−x/b} − a²e^{−x/a})/(2(b²−a²)) at x > 0.
			a, b, x := s.Threshold, s.Query, math.Abs(level)
			tail := (b*b*math.Exp(-x/b) - a*a*math.Exp(-x/a)) / (2 * (b*b - a*a))
			if level > 0 {
				tail = 1 - tail
			}
			p = distribution(t, s, []float64{level}, Laplace)
			within(t, "laplace, stops", p[0], tail, 1e-10)
			within(t, "laplace, none", p[1], 1-tail, 1e-10)
		}
	}
}

// Equal levels and equal scales: λ and the ν_i are exchangeable. None stops if λ
// is the largest of K+1; query i is the first to if λ is the largest of λ and the
// first i−1, and ν_i of those and itself: 1/(i(i+1)).
func TestDistributionOfExchangeableTrials(t *testing.T) {
	for _, noise := range []Noise{Gaussian, Laplace} {
		for _, k := range []int{1, 2, 7, 60, 900} {
			p := distribution(t, Search{Threshold: 1.3, Query: 1.3}, make([]float64, k), noise)
			for i := range k {
				within(t, "stops", p[i], 1/float64((i+1)*(i+2)), 1e-10)
			}
			within(t, "none", p[k], 1/float64(k+1), 1e-10)
		}
	}
}

func TestDistributionAddsUp(t *testing.T) {
	levels := []float64{-3, 1.5, -3, -3, 0.25, -12, 4, -0.5, 2}
	for _, noise := range []Noise{Gaussian, Laplace} {
		for _, s := range []Search{{Threshold: 1, Query: 2}, {Threshold: 5, Query: 0.1}, {Threshold: 0.05, Query: 3}} {
			sum := 0.0
			for _, p := range distribution(t, s, levels, noise) {
				sum += p
			}
			within(t, "sum", sum, 1, 1e-10)
		}
	}
	if p := distribution(t, Search{Threshold: 1, Query: 1}, nil, Gaussian); len(p) != 1 || math.Abs(p[0]-1) > 1e-12 {
		t.Errorf("without queries: %v", p)
	}
}

func TestDistributionRefuses(t *testing.T) {
	s := Search{Threshold: 1, Query: 1}
	for _, levels := range [][]float64{{math.NaN()}, {0, math.Inf(1)}} {
		if _, err := s.Distribution(levels, Gaussian); err == nil {
			t.Errorf("levels %v were accepted", levels)
		}
	}
	if _, err := s.Distribution(nil, Noise(7)); err == nil {
		t.Error("an unknown noise was accepted")
	}
	if _, err := (Search{Threshold: 1, Query: 0}).Distribution(nil, Gaussian); err == nil {
		t.Error("a scale of 0 was accepted")
	}
	for _, noise := range []Noise{Gaussian, Laplace} {
		if _, err := (Search{Threshold: 1, Query: 1e-9}).Distribution([]float64{0}, noise); err == nil {
			t.Errorf("noise %v: a quadrature without end was accepted", noise)
		}
	}
}
