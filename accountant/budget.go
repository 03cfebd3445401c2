package accountant

import (
	"fmt"
	"slices"
)

// A Budget admits releases that were chosen by looking at earlier ones, as long
// as all together stay within an (ε, δ) fixed in advance. Ask before a release.
// It is for one goroutine.
type Budget interface {
	// Ask charges an event, all its repetitions, if the budget allows it. An
	// error that is ErrBudget says that it does not: nothing is charged.
	Ask(Event) error
	// Left is the share of the budget that is not spent, from 1 to 0.
	Left() float64
	// Spent is what was admitted so far, for Restore.
	Spent() []float64
	// Restore charges what an earlier process had admitted of the same budget.
	Restore(spent []float64) error
	// SpentBefore charges what an earlier process spent, as a share of the budget.
	SpentBefore(share float64)
	// SoFar is the ε of what was admitted so far: no guarantee where the moment
	// of looking depends on what was released.
	SoFar() float64
}

// BudgetTerms are what decides how a run's budget is spent.
type BudgetTerms struct {
	Epsilon, Delta float64
	Neighbouring   Neighbouring
	Accountant     string  // RDP, CTCDP or Paper
	Order          float64 // RDP: at which it is spent; see FilterOrder and RepeatedOrder
	SamplingRate   float64 // CTCDP: of every batch
}

// NewBudget is the filter that goes with the terms.
func NewBudget(t BudgetTerms) (Budget, error) {
	switch t.Accountant {
	case RDP:
		return NewFilter(t.Epsilon, t.Delta, t.Neighbouring, t.Order)
	case CTCDP:
		if t.Neighbouring != ReplaceOne {
			return nil, fmt.Errorf("accountant %s holds under %s only, not %s", CTCDP, ReplaceOne, t.Neighbouring)
		}
		return newCtCDPFilter(t.Epsilon, t.Delta, t.SamplingRate)
	case Paper:
		return newPaperFilter(t.Epsilon, t.Delta)
	}
	return nil, fmt.Errorf("accountant %s has no filter: choose one of %s, %s, %s", t.Accountant, RDP, CTCDP, Paper)
}

// FilterOrder is the order at which releases that are expected, but may come
// otherwise, cost least: it takes a list from the configuration, never from the data.
func FilterOrder(expected []Event, n Neighbouring, delta float64) (float64, error) {
	r, err := Account(expected, Options{Accountant: RDP, Neighbouring: n, Delta: delta})
	return r.Order, err
}

// RepeatedOrder is the order that suits as many repetitions of the expected
// events as the budget pays for, up to a factor of 2.
func RepeatedOrder(expected []Event, n Neighbouring, epsilon, delta float64) (float64, error) {
	repeated := slices.Clone(expected)
	order := 0.0
	for count := 1; count < 1<<30; count *= 2 {
		for i := range repeated {
			repeated[i].Count = count
		}
		r, err := Account(repeated, Options{Accountant: RDP, Neighbouring: n, Delta: delta})
		if err != nil {
			return 0, err
		}
		if r.Epsilon <= epsilon || order == 0 {
			order = r.Order
		}
		if r.Epsilon > epsilon {
			break
		}
	}
	return order, nil
}
