package accountant

import (
	"math"
	"testing"
)

// The Rényi divergence of a bounded range is that of the worst interval, which is searched for here,
// and never above αε²/8.
func TestBoundedRangeRDP(t *testing.T) {
	for _, epsilon := range []float64{1e-4, 0.1, 0.4, 1.3} {
		for _, order := range []float64{1.1, 2, 7.5, 64, 512} {
			most := 0.0
			at := func(x float64) float64 {
				p := -math.Expm1(x-epsilon) * math.Exp(epsilon) / math.Expm1(epsilon)
				// E[e^{λ·loss}] − 1, without cancellation.
				l := order - 1
				return math.Log1p(p*math.Expm1(l*x)+(1-p)*math.Expm1(l*(x-epsilon))) / l
			}
			where, width := epsilon/2, epsilon
			for range 8 {
				middle := where
				for i := range 41 {
					x := min(max(middle+width*(float64(i)/40-0.5), 0), epsilon)
					if v := at(x); v > most {
						most, where = v, x
					}
				}
				width /= 10
			}
			got := rdpRanged(epsilon, order)
			if got < most*(1-1e-12) || got > most*(1+1e-6) || got > order*epsilon*epsilon/8 {
				t.Errorf("ε %v, order %v: %v, the worst interval has %v", epsilon, order, got, most)
			}
		}
	}
}

// Of a zCDP account ρ is ε²/8 a release, and four times that under replace-one; two events on one
// batch are two releases.
func TestBoundedRangeIsZCDP(t *testing.T) {
	const epsilon = 0.3
	for relation, factor := range map[Neighbouring]float64{AddRemove: 1, ReplaceOne: 4} {
		r := BoundedRange{epsilon}
		for _, events := range [][]Event{{{Mechanisms: []Mechanism{r}, Count: 6}}, {{Mechanisms: []Mechanism{r, r}, Count: 3}}} {
			rho, err := zcdp(events, relation.distance())
			if want := factor * 6 * epsilon * epsilon / 8; err != nil || math.Abs(rho-want) > 1e-12 {
				t.Errorf("%s: ρ = %v (%v), want %v", relation, rho, err, want)
			}
		}
	}
}

// One release under replace-one is one of twice the range, and no accountant promises less than pld's lower end.
func TestBoundedRangeAccounts(t *testing.T) {
	event := []Event{{Mechanisms: []Mechanism{BoundedRange{0.2}}, Count: 9}}
	twice := []Event{{Mechanisms: []Mechanism{BoundedRange{0.4}}, Count: 9}}
	one, err := Account(event, Options{Accountant: PLD, Neighbouring: ReplaceOne, Delta: 1e-6})
	must(t, err)
	for _, name := range []string{PLD, RDP, ZCDP} {
		r, err := Account(twice, Options{Accountant: name, Neighbouring: AddRemove, Delta: 1e-6})
		if err != nil || r.Epsilon < one.Interval.Lower || name == PLD && math.Abs(r.Epsilon-one.Epsilon) > 1e-9 {
			t.Errorf("%s: ε %v (%v), under replace-one %v", name, r.Epsilon, err, one)
		}
	}
	for _, name := range []string{GDP, PRV} {
		if _, err := Account(event, Options{Accountant: name, Neighbouring: AddRemove, Delta: 1e-6}); err == nil {
			t.Errorf("%s has a price", name)
		}
	}
}
