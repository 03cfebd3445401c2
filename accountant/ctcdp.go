package accountant

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/internal/papers"
)

// ctcdpMethod is the accounting of Hong et al. 2021: truncated concentrated
// privacy of fixed-size batches under replace-one, amplified within its
// constraints, which are checked of every batch.
var ctcdpMethod = method{
	name:        CTCDP,
	slack:       1e-12,
	epsilonOnly: true,
	solve: func(events []Event, o Options) (Result, error) {
		if o.Neighbouring != ReplaceOne {
			return Result{}, fmt.Errorf("accountant %s holds under %s only, not %s", CTCDP, ReplaceOne, o.Neighbouring)
		}
		var steps []papers.Steps
		for i, e := range events {
			s, err := ctcdp(e)
			if err == nil && e.Rate != events[0].Rate {
				err = fmt.Errorf("rate %v differs from the first event's %v: accountant %s amplifies one rate", e.Rate, events[0].Rate, CTCDP)
			}
			if err != nil {
				return Result{}, fmt.Errorf("event %d: %w", i+1, err)
			}
			steps = append(steps, s)
		}
		epsilon, err := papers.CtCDPEpsilon(steps, events[0].Rate, o.Delta)
		return o.result(epsilon), err
	},
}

// ctcdp is ρ of a batch, Δ²/(2σ²) over all that is asked of it, with Δ twice
// what one record's presence does.
func ctcdp(e Event) (papers.Steps, error) {
	if e.Sampling != FixedSize {
		return papers.Steps{}, errors.New("accountant ctcdp holds for fixed-size batches only: use pld or rdp")
	}
	bounds, err := e.bounds(ReplaceOne.distance())
	if err != nil {
		return papers.Steps{}, err
	}
	mu := joint(bounds)
	if mu == 0 {
		return papers.Steps{}, errors.New("accountant ctcdp bounds Gaussian releases only")
	}
	return papers.Steps{Rho: mu * mu / 2, Count: e.Count}, nil
}
