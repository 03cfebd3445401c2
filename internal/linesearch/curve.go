package linesearch

import (
	"fmt"
	"math"
)

// Curve chooses from noisy decreases of the loss at a ladder of candidates around the
// present step size: a Gaussian release of a vector, where Backtrack is told one index.
type Curve struct {
	Points int     // candidates, odd, so that one is the present step size
	Factor float64 // between neighbours, above 1
	Batch  float64 // qN of the batch that is searched on
	// Keep is the share of the largest decrease that a larger step must keep to
	// be preferred: the decrease of one step flatters small ones, which pay
	// later. 1 takes the largest decrease.
	Keep float64
}

// Validate checks the settings.
func (c Curve) Validate() error {
	switch {
	case c.Points < 3 || c.Points%2 == 0:
		return fmt.Errorf("%d points of the loss curve: must be odd, 3 or more", c.Points)
	case !(c.Factor > 1) || math.IsInf(c.Factor, 0):
		return fmt.Errorf("neighbours on the loss curve lie a factor %v apart: must be a finite number above 1", c.Factor)
	case !positive(c.Batch):
		return fmt.Errorf("expected batch %v of the line search: must be a finite number above 0", c.Batch)
	case !(c.Keep > 0 && c.Keep <= 1):
		return fmt.Errorf("a larger step must keep %v of the largest decrease: must be in (0, 1]", c.Keep)
	}
	return nil
}

// Candidates are the ladder around a step size, in rising order.
func (c Curve) Candidates(present float64) []float64 {
	etas := make([]float64, c.Points)
	for i := range etas {
		etas[i] = present * math.Pow(c.Factor, float64(i-c.Points/2))
	}
	return etas
}

// Choose takes the noisy sums of decreases at Candidates(present) and gives the
// next step size. The values are smoothed over neighbours by weights 1, 2, 1; an
// end stands in for its missing neighbour. Where no decrease is above zero, what
// can be said is that all are too large.
func (c Curve) Choose(present float64, decreases []float64, d Direction) float64 {
	etas := c.Candidates(present)
	objective := make([]float64, len(etas))
	for i, eta := range etas {
		objective[i] = decreases[i] + c.Batch*d.penalty(eta)
	}
	smooth := make([]float64, len(etas))
	best := 0
	for i := range objective {
		smooth[i] = (objective[max(i-1, 0)] + 2*objective[i] + objective[min(i+1, len(objective)-1)]) / 4
		if smooth[i] > smooth[best] {
			best = i
		}
	}
	if !(smooth[best] > 0) {
		return etas[0]
	}
	chosen := best
	for chosen+1 < len(smooth) && smooth[chosen+1] >= c.Keep*smooth[best] {
		chosen++
	}
	return etas[chosen]
}
