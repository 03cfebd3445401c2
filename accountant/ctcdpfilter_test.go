package accountant

import (
	"errors"
	"math"
	"testing"
)

// What the filter admits, all at once or one by one, is what the accountant of the same
// name prices within the budget, and one more step is not.
func TestCtCDPFilterAgreesWithTheAccountant(t *testing.T) {
	const epsilon, delta, q = 0.8, 1e-8, 0.01
	f, err := newCtCDPFilter(epsilon, delta, q)
	must(t, err)
	var events []Event
	for i := 0; ; i++ {
		e := SubsetBatch(q, 1, Gaussian{10 + float64(i%5)})
		if i%3 == 0 {
			e = SubsetBatch(q, 2, Gaussian{11}, Gaussian{40})
		}
		err := f.Ask(e)
		if err == nil {
			events = append(events, e)
			continue
		}
		if !errors.Is(err, ErrBudget) {
			t.Fatal(err)
		}
		over := account(t, CTCDP, ReplaceOne, delta, append(events[:len(events):len(events)], e)...).Epsilon
		if over <= epsilon {
			t.Errorf("refused at ε = %v", over)
		}
		break
	}
	within := account(t, CTCDP, ReplaceOne, delta, events...).Epsilon
	near(t, "ε so far", f.SoFar(), within, 1e-12)
	if len(events) < 20 || within > epsilon {
		t.Errorf("%d events were admitted, of ε %v", len(events), within)
	}

	again, err := newCtCDPFilter(epsilon, delta, q)
	must(t, err)
	if err := again.Restore(f.Spent()); err != nil || again.Left() != f.Left() {
		t.Errorf("restored, %v is left of %v: %v", again.Left(), f.Left(), err)
	}
	again.SpentBefore(0.5)
	if again.Left() != f.Left() {
		t.Error("what was spent before adds to what is known to be spent")
	}
	if err := again.Restore([]float64{math.NaN()}); err == nil {
		t.Error("a divergence that is no number was restored")
	}
}

// Each constraint of the amplification refuses on its own, and nothing is charged.
func TestCtCDPFilterConstraints(t *testing.T) {
	for name, x := range map[string]struct {
		epsilon, q float64
		e          Event
	}{
		"ρ above 0.1":          {5, 0.001, SubsetBatch(0.001, 1, Gaussian{3})},
		"q above 0.1":          {5, 0.2, SubsetBatch(0.2, 1, Gaussian{100})},
		"order beyond a":       {0.05, 0.01, SubsetBatch(0.01, 1, Gaussian{10})},
		"Poisson":              {5, 0.01, PoissonBatch(0.01, 1, Gaussian{20})},
		"another rate":         {5, 0.01, SubsetBatch(0.02, 1, Gaussian{20})},
		"other than Gaussians": {5, 0.01, SubsetBatch(0.01, 1, Laplace{20})},
	} {
		f, err := newCtCDPFilter(x.epsilon, 1e-8, x.q)
		must(t, err)
		if err := f.Ask(x.e); err == nil || f.Left() != 1 {
			t.Errorf("%s: %v, %v left", name, err, f.Left())
		}
	}
	for _, bad := range [][3]float64{{0, 1e-8, 0.01}, {1, 0, 0.01}, {1, 1e-8, 0}, {1, 1e-8, 2}} {
		if _, err := newCtCDPFilter(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("a filter of %v is made", bad)
		}
	}
}
