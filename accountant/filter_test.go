package accountant

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A filter at the order that suits a schedule admits nearly all of it, and what
// it admitted costs no more than its budget.
func TestFilterAdmitsItsBudget(t *testing.T) {
	step := PoissonBatch(0.01, 1, Gaussian{1})
	order, err := FilterOrder([]Event{PoissonBatch(0.01, 1000, Gaussian{1})}, AddRemove, 1e-5)
	must(t, err)
	budget := account(t, RDP, AddRemove, 1e-5, PoissonBatch(0.01, 1000, Gaussian{1})).Epsilon
	f, err := NewFilter(budget*(1+1e-9), 1e-5, AddRemove, order)
	must(t, err)
	admitted := 0
	for f.Ask(step) == nil {
		admitted++
	}
	if admitted != 1000 {
		t.Errorf("admitted %d steps of 1000", admitted)
	}
	if left := f.Left(); left < 0 || left > 1e-3 {
		t.Errorf("%v of the budget is left", left)
	}
}

// However releases are chosen, the sum of what was admitted converts to no more
// than the budget; a refusal charges nothing and a smaller release still fits.
func TestFilterNeverOverruns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epsilon := rapid.Float64Range(0.1, 8).Draw(t, "ε")
		delta := math.Pow(10, -rapid.Float64Range(3, 12).Draw(t, "digits"))
		order := rapid.Float64Range(1.5, 64).Draw(t, "order")
		n := rapid.SampledFrom([]Neighbouring{AddRemove, ReplaceOne}).Draw(t, "relation")
		f, err := NewFilter(epsilon, delta, n, order)
		if errors.Is(err, ErrBudget) {
			return
		}
		must(t, err)
		var admitted []Event
		for range 30 {
			e := PoissonBatch(rapid.Float64Range(1e-3, 1).Draw(t, "q"), rapid.IntRange(1, 50).Draw(t, "count"), Gaussian{rapid.Float64Range(0.3, 9).Draw(t, "σ")})
			before := f.Left()
			err := f.Ask(e)
			switch {
			case err == nil:
				admitted = append(admitted, e)
			case !errors.Is(err, ErrBudget):
				t.Fatal(err)
			case f.Left() != before:
				t.Fatalf("a refusal moved what is left from %v to %v", before, f.Left())
			}
		}
		if len(admitted) == 0 {
			return
		}
		c, err := NewCurve(admitted, n, []float64{order})
		must(t, err)
		if got := tight(c.RDP[0], order, delta); got > epsilon*(1+1e-12) {
			t.Fatalf("admitted releases cost ε %v at order %v, the budget is %v", got, order, epsilon)
		}
	})
}

func TestFilterRefuses(t *testing.T) {
	for _, test := range []struct {
		epsilon, delta float64
		n              Neighbouring
		order          float64
		want           string
	}{
		{0, 1e-5, AddRemove, 8, "epsilon 0"},
		{1, 0, AddRemove, 8, "delta 0"},
		{1, 1e-5, "", 8, "neighbouring"},
		{1, 1e-5, AddRemove, 1, "order 1"},
		{0.1, 1e-5, AddRemove, 8, "leaves nothing to spend"},
	} {
		_, err := NewFilter(test.epsilon, test.delta, test.n, test.order)
		refused(t, err, test.want)
	}
	f, err := NewFilter(3, 1e-5, AddRemove, 8)
	must(t, err)
	if err := f.Ask(PoissonBatch(0.1, 1, Gaussian{0})); !errors.Is(err, ErrBudget) {
		t.Errorf("a release without noise: %v", err)
	}
	if f.Left() != 1 {
		t.Errorf("what was refused is charged: %v left", f.Left())
	}
	e := PoissonBatch(0.1, 1, Gaussian{1})
	e.Neighbouring = ReplaceOne
	refused(t, f.Ask(e), "replace-one", "add-remove")
}
