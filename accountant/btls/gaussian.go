package btls

import (
	"fmt"
	"math"
)

// Names of the bounds that a search's Rényi curve is the least of.
const (
	BoundGDP       = "gdp"       // αμ²/2
	BoundRecursion = "recursion" // α/(2s₁²) + ln V_K/(α−1)
	BoundUnion     = "union"     // α/(2s₁²) + s²α/(2s₂²) + ln(1+K)/(α−1)
)

// maxOrder is the highest Rényi order taken.
const maxOrder = 1 << 20

// GaussianRDP bounds the Rényi divergence of order alpha in (1, 2²⁰], in both
// directions, of the search with Gaussian noise under add-remove, and names
// the bound that is least there. It is rounded up.
//
// The union bound is never below the recursion's, and stands in for it where
// rounding leaves the recursion without a certificate.
func (s Search) GaussianRDP(alpha float64) (rdp float64, bound string, err error) {
	if !(alpha > 1 && alpha <= maxOrder) {
		return 0, "", fmt.Errorf("order %v: Rényi orders lie above 1 and up to %v", alpha, maxOrder)
	}
	mu, err := s.Mu()
	if err != nil {
		return 0, "", err
	}
	rdp, bound = alpha/2*mu*mu*up, BoundGDP
	if r := s.recursionRDP(alpha); r < rdp {
		rdp, bound = r, BoundRecursion
	}
	if r := s.unionRDP(alpha); r < rdp {
		rdp, bound = r, BoundUnion
	}
	return rdp, bound, nil
}

func (s Search) unionRDP(alpha float64) float64 {
	return (s.thresholdRDP(alpha) + alpha/2*math.Pow(s.reach()/s.Query, 2) + math.Log1p(float64(s.Trials))/(alpha-1)) * up
}

// thresholdRDP is the price of moving the threshold by Δ.
func (s Search) thresholdRDP(alpha float64) float64 { return alpha / 2 / s.Threshold / s.Threshold }

func (s Search) recursionRDP(alpha float64) float64 {
	v := newTail(alpha, s.reach()/s.Query).logV(s.Trials)
	return (s.thresholdRDP(alpha) + v/(alpha-1)) * up
}
