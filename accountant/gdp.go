package accountant

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant/internal/pld"
)

// gdpMethod composes Gaussians on all records into one, whose trade-off is
// known exactly (Balle and Wang 2018, theorem 8). It does not offer the central
// limit approximation for sampled batches, which reports too little.
var gdpMethod = method{
	name:   GDP,
	slack:  1e-13,
	pairs:  true,
	risk:   gdpRisk,
	groups: []Neighbouring{AddRemove, ReplaceOne},
	solve: func(events []Event, o Options) (Result, error) {
		step, err := gdp(events, o.distance())
		if err != nil {
			return Result{}, err
		}
		i, err := o.ends(step, false)
		return o.result(i.Upper), err
	},
}

// gdp is the one Gaussian that a list amounts to.
func gdp(events []Event, distance float64) ([]pld.Step, error) {
	sum := 0.0
	for i, e := range events {
		bounds, err := e.unsampled(distance)
		if err != nil {
			return nil, fmt.Errorf("event %d: accountant %s: %w", i+1, GDP, err)
		}
		mu := joint(bounds)
		if mu == 0 {
			return nil, fmt.Errorf("event %d: accountant %s bounds Gaussian releases only: use pld or rdp", i+1, GDP)
		}
		sum += float64(e.Count) * mu * mu
	}
	return []pld.Step{{Pairs: []pld.Pair{pld.Gaussian(math.Sqrt(sum))}, Rate: 1, Count: 1}}, nil
}
