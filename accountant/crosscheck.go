package accountant

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant/internal/prv"
)

// prvMethod composes privacy random variables (Gopi, Lee and Wutschitz 2021),
// in code of its own, so that it can be held against pld.
var prvMethod = method{
	name:  PRV,
	slack: 5e-5,
	why:   "prv is a cross-check: its allowance for rounding errors is measured, not proved",
	solve: func(events []Event, o Options) (Result, error) {
		steps, err := prvSteps(events)
		if err != nil {
			return Result{}, err
		}
		var ends prv.Result
		if o.Epsilon != nil {
			ends, err = prv.Delta(steps, o.Neighbouring == ReplaceOne, *o.Epsilon)
		} else {
			ends, err = prv.Epsilon(steps, o.Neighbouring == ReplaceOne, o.Delta)
		}
		r := o.result(ends.Upper)
		r.Interval, r.Estimate = &Interval{ends.Lower, ends.Upper}, &ends.Estimate
		return r, err
	},
}

func prvSteps(events []Event) ([]prv.Step, error) {
	var steps []prv.Step
	for i, e := range events {
		if e.Sampling == FixedSize && e.rate() < 1 {
			return nil, fmt.Errorf("event %d: accountant %s has no bound for fixed-size sampling: use pld or rdp under replace-one, or Poisson sampling", i+1, PRV)
		}
		bounds, err := e.bounds(1)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		s := prv.Step{Noise: prv.GaussianNoise, Size: joint(bounds), Rate: e.rate(), Count: e.Count}
		if s.Size == 0 {
			if len(bounds) > 1 {
				return nil, fmt.Errorf("event %d: accountant %s composes only Gaussian releases on one batch: use pld", i+1, PRV)
			}
			if s.Noise, s.Size = prv.LaplaceNoise, bounds[0].laplace; s.Size == 0 {
				return nil, fmt.Errorf("event %d: accountant %s has no bound for mechanism %s: use pld", i+1, PRV, e.Mechanisms[0].Name())
			}
		}
		if math.IsInf(s.Size, 1) {
			return nil, fmt.Errorf("event %d: mechanism %s has no noise", i+1, e.Mechanisms[0].Name())
		}
		steps = append(steps, s)
	}
	return steps, nil
}
