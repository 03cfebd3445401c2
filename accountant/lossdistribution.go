package accountant

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant/pld"
)

// pldMethod composes privacy loss distributions; package pld says how, and why
// both ends of its intervals hold.
var pldMethod = method{
	name:  PLD,
	slack: 1e-6,
	epsilon: func(events []Event, n Neighbouring, delta float64) (Result, error) {
		steps, err := lossSteps(PLD, events, n)
		if err != nil {
			return Result{}, err
		}
		i, err := pld.Epsilon(steps, n == ReplaceOne, delta)
		if err != nil {
			return Result{}, err
		}
		if i.Upper-i.Lower > math.Max(promised*i.Upper, 1e-4) {
			// Extreme schedules: both ends hold, and so does Rényi's bound.
			if r, err := rdpMethod.epsilon(events, n, delta); err == nil {
				i.Upper = math.Max(math.Min(i.Upper, r.Epsilon), i.Lower)
			}
		}
		return Result{Epsilon: i.Upper, Delta: delta, Interval: &Interval{i.Lower, i.Upper}}, nil
	},
	delta: func(events []Event, n Neighbouring, epsilon float64) (Result, error) {
		steps, err := lossSteps(PLD, events, n)
		if err != nil {
			return Result{}, err
		}
		i, err := pld.Delta(steps, n == ReplaceOne, epsilon)
		return Result{Epsilon: epsilon, Delta: i.Upper, Interval: &Interval{i.Lower, i.Upper}}, err
	},
}

// promised is the relative width of an interval, where ε is not below 0.1.
const promised = 1e-3

// lossSteps are the pairs that dominate a list of events.
func lossSteps(accountant string, events []Event, n Neighbouring) ([]pld.Step, error) {
	steps := make([]pld.Step, len(events))
	for i, e := range events {
		if e.Sampling == FixedSize && e.rate() < 1 {
			return nil, fmt.Errorf("event %d: accountant %s has no dominating pair for fixed-size sampling: use rdp under replace-one, or Poisson sampling", i+1, accountant)
		}
		bounds, err := e.bounds(1)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		steps[i] = pld.Step{Rate: e.rate(), Count: e.Count}
		for _, b := range bounds {
			steps[i].Pairs = append(steps[i].Pairs, b.dominating())
		}
	}
	return steps, nil
}
