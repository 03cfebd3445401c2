package accountant

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant/internal/pld"
)

// pldMethod composes privacy loss distributions; package pld says how, and why
// both ends of its intervals hold.
var pldMethod = method{
	name:   PLD,
	slack:  1e-6,
	pairs:  true,
	risk:   pldRisk,
	groups: []Neighbouring{AddRemove, ReplaceOne},
	solve: func(events []Event, o Options) (Result, error) {
		steps, err := lossSteps(events, o.records())
		if err != nil {
			return Result{}, err
		}
		i, err := o.ends(steps, o.Neighbouring == ReplaceOne)
		if i, err = cut(i, err, events, o); err != nil {
			return Result{}, err
		}
		r := o.result(i.Upper)
		r.Interval = (*Interval)(&i)
		return r, nil
	},
}

// ends are those of what is solved for.
func (o Options) ends(steps []pld.Step, replaceOne bool) (pld.Interval, error) {
	if o.Epsilon != nil {
		return pld.Delta(steps, replaceOne, *o.Epsilon)
	}
	return pld.Epsilon(steps, replaceOne, o.Delta)
}

// cut lowers the upper end of a wide interval to Rényi's bound, which holds as
// well. Only extreme schedules have such intervals: millions of steps at tiny
// rates, losses of very different size on one batch.
func cut(i pld.Interval, err error, events []Event, o Options) (pld.Interval, error) {
	switch {
	case errors.Is(err, pld.ErrFine): // no grid: a δ of 1, an infinite ε
		i = pld.Interval{Upper: math.Inf(1)}
	case err != nil:
		return i, err
	case !math.IsInf(i.Upper, 1) && i.Upper-i.Lower <= promised*i.Upper:
		return i, nil
	}
	r, failed := rdpMethod.solve(events, o)
	if failed != nil {
		return i, err
	}
	renyi := r.Epsilon
	if o.Epsilon != nil {
		renyi = r.Delta
	}
	i.Upper = math.Max(math.Min(i.Upper, renyi), i.Lower)
	return i, nil
}

// promised is the relative width that intervals have but in extreme cases.
const promised = 1e-3

// lossSteps are the pairs that dominate a list of events, for so many records at once.
func lossSteps(events []Event, records int) ([]pld.Step, error) {
	steps := make([]pld.Step, len(events))
	for i, e := range events {
		bounds, err := e.bounds(1)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		steps[i] = pld.Step{Rate: e.rate(), Count: e.Count, Subsets: e.Sampling == FixedSize}
		for _, b := range bounds {
			steps[i].Pairs = append(steps[i].Pairs, b.dominating().Of(records))
		}
	}
	return steps, nil
}
