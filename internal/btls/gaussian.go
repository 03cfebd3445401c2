package btls

import (
	"fmt"
	"math"
)

// maxOrder is the highest Rényi order taken.
const maxOrder = 1 << 20

// GaussianRDP bounds the Rényi divergence of order alpha in (1, 2²⁰], in both
// directions, of the search with Gaussian noise under add-remove: the least of
// three bounds, rounded up.
func (s Search) GaussianRDP(alpha float64) (float64, error) {
	if !(alpha > 1 && alpha <= maxOrder) {
		return 0, fmt.Errorf("order %v: Rényi orders lie above 1 and up to %v", alpha, maxOrder)
	}
	mu, err := s.Mu()
	if err != nil {
		return 0, err
	}
	rdp := alpha / 2 * mu * mu * up
	for _, r := range []float64{s.recursionRDP(alpha), s.unionRDP(alpha)} {
		if r < rdp { // no NaN
			rdp = r
		}
	}
	return rdp, nil
}

// unionRDP is never below recursionRDP, and stands in for it where rounding
// leaves that without a certificate.
func (s Search) unionRDP(alpha float64) float64 {
	return (s.thresholdRDP(alpha) + alpha/2*math.Pow(s.reach()/s.Query, 2) + math.Log1p(float64(s.Trials))/(alpha-1)) * up
}

// thresholdRDP is the price of moving the threshold by Δ.
func (s Search) thresholdRDP(alpha float64) float64 { return alpha / 2 / s.Threshold / s.Threshold }

func (s Search) recursionRDP(alpha float64) float64 {
	v := newTail(alpha, s.reach()/s.Query).logV(s.Trials)
	return (s.thresholdRDP(alpha) + v/(alpha-1)) * up
}
