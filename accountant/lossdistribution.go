package accountant

import (
	"errors"
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
		if i, err = cut(i, err, math.Inf(1), func() (Result, error) { return rdpMethod.epsilon(events, n, delta) }, Result.epsilon); err != nil {
			return Result{}, err
		}
		return Result{Epsilon: i.Upper, Delta: delta, Interval: &Interval{i.Lower, i.Upper}}, nil
	},
	delta: func(events []Event, n Neighbouring, epsilon float64) (Result, error) {
		steps, err := lossSteps(PLD, events, n)
		if err != nil {
			return Result{}, err
		}
		i, err := pld.Delta(steps, n == ReplaceOne, epsilon)
		if i, err = cut(i, err, 1, func() (Result, error) { return rdpMethod.delta(events, n, epsilon) }, Result.delta); err != nil {
			return Result{}, err
		}
		return Result{Epsilon: epsilon, Delta: i.Upper, Interval: &Interval{i.Lower, i.Upper}}, nil
	},
}

func (r Result) epsilon() float64 { return r.Epsilon }
func (r Result) delta() float64   { return r.Delta }

// cut lowers the upper end of a wide interval to Rényi's bound, which holds as
// well; most is the end where a grid gives none at all. Only extreme schedules
// have such intervals: millions of steps at tiny rates, losses of very
// different size on one batch.
func cut(i pld.Interval, err error, most float64, renyi func() (Result, error), of func(Result) float64) (pld.Interval, error) {
	switch {
	case errors.Is(err, pld.ErrFine):
		i = pld.Interval{Upper: most}
	case err != nil:
		return i, err
	case !math.IsInf(i.Upper, 1) && i.Upper-i.Lower <= promised*i.Upper:
		return i, nil
	}
	r, failed := renyi()
	if failed != nil {
		return i, err
	}
	i.Upper = math.Max(math.Min(i.Upper, of(r)), i.Lower)
	return i, nil
}

// promised is the relative width that intervals have but in extreme cases.
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
