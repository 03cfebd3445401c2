package accountant

import (
	"errors"
	"math"
	"testing"
)

// What a paper filter has admitted costs what the paper's arithmetic says of the
// schedule, Gaussian and Laplace.
func TestPaperFilterIsThePapersArithmetic(t *testing.T) {
	laplace := NoisyBTLS{Noise: BTLSLaplace, ThresholdScale: 20, QueryScale: 40, MaxTrials: 10, Queries: SharedBaseline}
	for _, search := range []NoisyBTLS{paperSearch(0.05), laplace} {
		l := LineSearch{SamplingRate: 0.01, Steps: 200, Gradient: Gaussian{1.2}, Search: search}
		want, err := l.PaperEpsilon(1e-6)
		must(t, err)
		f, err := newPaperFilter(want.Epsilon*(1+1e-9), 1e-6)
		must(t, err)
		admitted := 0
		for {
			if f.Ask(PoissonBatch(0.01, 1, l.Gradient)) != nil || f.Ask(PoissonBatch(0.01, 1, search)) != nil {
				break
			}
			admitted++
		}
		if admitted != l.Steps {
			t.Errorf("%s: admitted %d of %d steps", search.Name(), admitted, l.Steps)
		}
		near(t, search.Name(), f.SoFar(), want.Epsilon, 1e-6)
		if left := f.Left(); left < 0 || left > 1e-6 {
			t.Errorf("%s: %v of the budget is left", search.Name(), left)
		}
	}
}

// Without sampling nothing is amplified.
func TestPaperFilterOnTheFullBatch(t *testing.T) {
	f, err := newPaperFilter(3, 1e-5)
	must(t, err)
	must(t, f.Ask(PoissonBatch(1, 7, Gaussian{10})))
	want := math.Inf(1)
	for a := 2.0; a < 129; a++ {
		want = math.Min(want, 7*a/200+math.Log(1e5)/(a-1))
	}
	near(t, "ε", f.SoFar(), want, 1e-12)
}

func TestPaperFilterRefuses(t *testing.T) {
	if _, err := newPaperFilter(0.01, 1e-5); !errors.Is(err, ErrBudget) {
		t.Errorf("an ε below every order's ln(1/δ)/(α−1): %v", err)
	}
	_, err := newPaperFilter(0, 1e-5)
	refused(t, err, "epsilon 0")
	_, err = newPaperFilter(1, 1)
	refused(t, err, "delta 1")
	f, err := newPaperFilter(1, 1e-5)
	must(t, err)
	refused(t, f.Ask(PoissonBatch(0.1, 1, Laplace{5})), "pure releases only")
	refused(t, f.Ask(PoissonBatch(2, 1, Gaussian{5})), "2")
	must(t, f.Ask(PoissonBatch(0.1, 1, Gaussian{3})))
	left := f.Left()
	if err := f.Ask(PoissonBatch(0.1, 1, Gaussian{0.01})); !errors.Is(err, ErrBudget) {
		t.Errorf("a release beyond the budget: %v", err)
	}
	if f.Left() != left {
		t.Error("a refusal is charged")
	}
	if err := f.Ask(PoissonBatch(0.1, 1, Gaussian{30})); err != nil || !(f.Left() < left) {
		t.Errorf("a smaller release: %v, %v left of %v", err, f.Left(), left)
	}
}

// What earlier processes spent counts, is never less after it was told, and the
// filter then admits no more than one that had asked itself.
func TestSpentBefore(t *testing.T) {
	type filter interface {
		Ask(Event) error
		Left() float64
		SpentBefore(float64)
		SoFar() float64
	}
	e := PoissonBatch(0.02, 1, Gaussian{1.5})
	for name, open := range map[string]func() (filter, error){
		"filter": func() (filter, error) { return NewFilter(1, 1e-5, AddRemove, 20) },
		"paper":  func() (filter, error) { return newPaperFilter(1, 1e-5) },
	} {
		fresh := func() filter {
			f, err := open()
			must(t, err)
			return f
		}
		whole := fresh()
		all, before := 0, math.Inf(-1)
		for whole.Ask(e) == nil {
			all++
			if s := whole.SoFar(); !(s > before) || s > 1 {
				t.Fatalf("%s: ε so far is %v after %v", name, s, before)
			} else {
				before = s
			}
		}
		first := fresh()
		for range all / 3 {
			must(t, first.Ask(e))
		}
		second := fresh()
		second.SpentBefore(1 - first.Left())
		if second.Left() > first.Left() || second.Left() < first.Left()-1e-12 {
			t.Errorf("%s: %v is left of %v", name, second.Left(), first.Left())
		}
		if math.Abs(second.SoFar()-first.SoFar()) > 1e-9 && name == "filter" || second.SoFar() < first.SoFar()-1e-9 {
			t.Errorf("%s: ε so far %v, before %v", name, second.SoFar(), first.SoFar())
		}
		second.SpentBefore(0)
		if second.Left() > first.Left() {
			t.Errorf("%s: what was spent is forgotten", name)
		}
		rest := 0
		for second.Ask(e) == nil {
			rest++
		}
		if n := all/3 + rest; name == "filter" && (n > all || n < all-1) {
			t.Errorf("%s: %d releases by two processes, %d by one", name, n, all)
		}
		third := fresh()
		third.SpentBefore(1)
		if err := third.Ask(e); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: after all was spent: %v", name, err)
		}
	}
}

// A schedule with a price of its own is calibrated by it.
func TestSchedulePrice(t *testing.T) {
	const every = 3
	s := Schedule{SamplingRate: 0.01, Steps: 100, Neighbouring: AddRemove, Accountant: RDP, Delta: 1e-5}
	calls := 0
	s.Price = func(s Schedule, sigma float64) (float64, error) {
		calls++
		r, err := Account([]Event{
			PoissonBatch(s.SamplingRate, s.Steps, Gaussian{sigma}), PoissonBatch(s.SamplingRate, s.Steps/every, Gaussian{2 * sigma}),
		}, Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
		return r.Epsilon, err
	}
	sigma, reached, err := s.Calibrate(1.5)
	if err != nil || calls == 0 {
		t.Fatal(err, calls)
	}
	got := account(t, RDP, AddRemove, 1e-5, PoissonBatch(0.01, 100, Gaussian{sigma}), PoissonBatch(0.01, 33, Gaussian{2 * sigma})).Epsilon
	if reached != got || got > 1.5 || got < 1.5*(1-1e-4) {
		t.Errorf("σ %v is said to reach ε %v, and costs %v", sigma, reached, got)
	}
	broken := errors.New("broken")
	s.Price = func(Schedule, float64) (float64, error) { return 0, broken }
	if _, _, err := s.Calibrate(1.5); !errors.Is(err, broken) {
		t.Errorf("a price that fails: %v", err)
	}
}

// A jump is a release that tells a record with probability p, by a privacy loss of so much.
type jump struct{ p, loss float64 }

// stays is the privacy loss of the other outcome.
func (j jump) stays() float64 { return math.Log1p(-j.p) - math.Log1p(-j.p*math.Exp(-j.loss)) }

// divergence is of an order, in the worse direction.
func (j jump) divergence(order float64) float64 {
	of := func(p, loss, stays float64) float64 {
		return math.Log(p*math.Exp((order-1)*loss)+(1-p)*math.Exp((order-1)*stays)) / (order - 1)
	}
	return math.Max(of(j.p, j.loss, j.stays()), of(j.p*math.Exp(-j.loss), -j.loss, -j.stays()))
}

// Chen and Lee 2020, section 4.3, ends a run when the budgets of all orders are spent. The order with room then depends
// on the path. Here a first release decides which of two is spent: what either order allows, δ, happens on both
// paths, and is 2δ together. So it is by their proposition 1, which bounds the probability of a loss above ε, and
// with the tight conversion, which bounds δ itself. At one order no path but its own is admitted.
func TestAllOrdersSpendDeltaTwice(t *testing.T) {
	const epsilon, delta, low, high = 1.0, 1e-16, 45, 500
	f, err := newPaperFilter(epsilon, delta)
	must(t, err)
	paper, tighter := f.budget, make([]float64, paperOrders)
	for i := range tighter {
		order := float64(i + 2)
		tighter[i] = epsilon - math.Log1p(-1/order) + math.Log(delta*order)/(order-1)
	}
	for name, x := range map[string]struct {
		budget []float64
		above  func(order float64) float64 // by how much a loss is above ε in the end
		counts func(above float64) float64 // share of the probability of such a loss
	}{
		"proposition 1": {paper, func(float64) float64 { return 1e-9 }, func(float64) float64 { return 1 }},
		"tight":         {tighter, func(order float64) float64 { return -math.Log1p(-1 / order) }, func(above float64) float64 { return -math.Expm1(-above) }},
	} {
		first := jump{1e-12, epsilon / 2}
		spent := func(second jump) []float64 {
			all := make([]float64, paperOrders)
			for i := range all {
				all[i] = first.divergence(float64(i+2)) + second.divergence(float64(i+2))
			}
			return all
		}
		total := 0.0
		for _, path := range []struct{ order, probability, loss float64 }{{high, first.p, first.loss}, {low, 1 - first.p, first.stays()}} {
			above := x.above(path.order)
			second := jump{0, epsilon + above - path.loss}
			at := int(path.order) - 2
			for p := 0.5; p > 1e-24; p /= 2 { // as likely as the path's order allows
				more := jump{second.p + p, second.loss}
				if spent(more)[at] <= x.budget[at] {
					second = more
				}
			}
			if s := spent(second); share(s, x.budget) > 1 {
				t.Fatalf("%s: order %v does not admit its path", name, path.order)
			} else if other := low + high - int(path.order); s[other-2] <= x.budget[other-2] {
				t.Errorf("%s: order %v admits the path of order %v, too", name, other, path.order)
			}
			got := path.probability * second.p * x.counts(above)
			if got > delta*(1+1e-9) || got < 0.9*delta {
				t.Errorf("%s: the path of order %v has a share of %v of δ", name, path.order, got/delta)
			}
			total += got
		}
		if !(total > 1.8*delta) {
			t.Errorf("%s: both paths have a share of %v of δ", name, total/delta)
		}
	}
}

// Algorithm 2 of Chen and Lee 2020 releases its first gradient (line 6), subtracts what it cost (line 7), and asks
// whether anything is left at the end of the iteration (line 21). A budget below one gradient is overrun, by the
// exact ε of that gradient. Filters refuse it before it is drawn, and charge nothing.
func TestFirstGradientNeedsBudget(t *testing.T) {
	const epsilon, delta = 0.5, 1e-5
	gradient := PoissonBatch(1, 1, Gaussian{1})
	if exact := account(t, GDP, AddRemove, delta, gradient).Epsilon; !(exact > 4*epsilon) {
		t.Errorf("a gradient costs ε %v", exact)
	}
	paper, err := newPaperFilter(epsilon, delta)
	must(t, err)
	cost, err := paper.cost(paperRelease{1, Gaussian{1}})
	must(t, err)
	for i, c := range cost {
		if c <= paper.budget[i] {
			t.Fatalf("order %d has a budget of %v for a gradient that costs %v", i+2, paper.budget[i], c)
		}
	}
	own, err := NewFilter(epsilon, delta, AddRemove, 60)
	must(t, err)
	for name, f := range map[string]Budget{"own": own, "paper": paper} {
		if err := f.Ask(gradient); !errors.Is(err, ErrBudget) || f.Left() != 1 {
			t.Errorf("%s filter: %v, %v of the budget is left", name, err, f.Left())
		}
	}
}
