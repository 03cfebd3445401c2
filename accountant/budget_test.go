package accountant

import (
	"errors"
	"testing"
)

// The least noise that a budget admits is admitted, and a little less is not.
func TestLeastAdmitted(t *testing.T) {
	event := func(sigma float64) Event { return PoissonBatch(0.01, 200, Gaussian{sigma}) }
	subset := func(sigma float64) Event { return SubsetBatch(0.01, 200, Gaussian{sigma}) }
	terms := BudgetTerms{Epsilon: 2, Delta: 1e-6, Order: 8, SamplingRate: 0.01}
	for name, event := range map[string]func(float64) Event{RDP: event, Paper: event, CTCDP: subset} {
		terms.Accountant, terms.Neighbouring = name, AddRemove
		if name == CTCDP {
			terms.Neighbouring = ReplaceOne
		}
		open := func() (Budget, error) { return NewBudget(terms) }
		sigma, err := LeastAdmitted(event, open, 0.1, 1e6)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, x := range []struct {
			sigma    float64
			admitted bool
		}{{sigma, true}, {sigma * (1 - 2e-9), false}} {
			b, err := open()
			must(t, err)
			if err := b.Ask(event(x.sigma)); (err == nil) != x.admitted || err != nil && !errors.Is(err, ErrBudget) {
				t.Errorf("%s: σ %v of at least %v: %v", name, x.sigma, sigma, err)
			}
		}
		if _, err := LeastAdmitted(event, open, 1e-3, 1e-2); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: nothing is admitted: %v", name, err)
		}
	}
	terms.Accountant, terms.Neighbouring = PLD, AddRemove
	_, err := NewBudget(terms)
	refused(t, err, "accountant pld has no filter")
	terms.Accountant = CTCDP
	_, err = NewBudget(terms)
	refused(t, err, "ctcdp holds under replace-one only")
}

// The order for a budget's repetitions is the one for as many as it pays for.
func TestRepeatedOrder(t *testing.T) {
	e := PoissonBatch(0.01, 1, Gaussian{1})
	for _, epsilon := range []float64{0.01, 0.5, 3} {
		got, err := RepeatedOrder([]Event{e}, AddRemove, epsilon, 1e-5)
		must(t, err)
		count := 1
		for account(t, RDP, AddRemove, 1e-5, PoissonBatch(0.01, 2*count, Gaussian{1})).Epsilon <= epsilon {
			count *= 2
		}
		want, err := FilterOrder([]Event{PoissonBatch(0.01, count, Gaussian{1})}, AddRemove, 1e-5)
		if err != nil || got != want {
			t.Errorf("ε %v: order %v, for %d repetitions %v (%v)", epsilon, got, count, want, err)
		}
	}
	if e.Count != 1 {
		t.Error("what was expected was changed")
	}
}

// The filter of fixed-size batches holds under replace-one only.
func TestBudgetOfSubsetsNeedsReplaceOne(t *testing.T) {
	for n, admits := range map[Neighbouring]bool{AddRemove: false, ReplaceOne: true} {
		_, err := NewBudget(BudgetTerms{Epsilon: 2, Delta: 1e-6, Neighbouring: n, Accountant: CTCDP, SamplingRate: 0.01})
		if (err == nil) != admits {
			t.Errorf("%s: %v", n, err)
		}
	}
}
