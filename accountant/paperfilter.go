package accountant

import (
	"cmp"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/papers"
)

// A paperFilter admits releases by the arithmetic of Chen and Lee 2020: every
// release amplified by itself by lemma 4 even where it shares its batch, a line
// search priced by theorem 2 or 3, a budget at every integer order by
// proposition 1, and a release admitted where any order still has room (section
// 4.3). It gives NO GUARANTEE and serves to reproduce the paper's figures.
type paperFilter struct {
	epsilon, delta float64
	budget, spent  []float64 // at order i+2
	before         bool      // some of it by an earlier process
	costs          map[paperRelease][]float64
}

type paperRelease struct {
	q float64
	m Mechanism
}

// paperOrders are the integers from 2 to 500 (section 4.3).
const paperOrders = 499

// newPaperFilter sets the budget (ε, δ) under add-remove.
func newPaperFilter(epsilon, delta float64) (*paperFilter, error) {
	if err := cmp.Or(checkTarget(epsilon), checkDelta(delta)); err != nil {
		return nil, err
	}
	f := &paperFilter{epsilon: epsilon, delta: delta, spent: make([]float64, paperOrders), costs: map[paperRelease][]float64{}}
	for i := range paperOrders {
		f.budget = append(f.budget, epsilon-math.Log(1/delta)/float64(i+1))
	}
	if !(slices.Max(f.budget) > 0) {
		return nil, papers.Refuse("epsilon %v at delta %v leaves nothing to spend by proposition 1: raise epsilon", epsilon, delta)
	}
	return f, nil
}

// cost is the divergence of one release of a mechanism at every order.
func (f *paperFilter) cost(r paperRelease) ([]float64, error) {
	if c, ok := f.costs[r]; ok {
		return c, nil
	}
	claimed, err := paperClaim(r.m)
	if err != nil {
		return nil, err
	}
	var c []float64
	if r.q == 1 {
		for i := range paperOrders {
			c = append(c, claimed(float64(i+2)))
		}
	} else if c, err = lemma4(r.q, claimed, paperOrders); err != nil {
		return nil, err
	}
	f.costs[r] = c
	return c, nil
}

func (f *paperFilter) Ask(e Event) error {
	if err := e.Validate(); err != nil {
		return err
	}
	next := f.Spent()
	for _, m := range e.Mechanisms {
		c, err := f.cost(paperRelease{e.rate(), m})
		if err != nil {
			return err
		}
		for i := range next {
			next[i] += float64(e.Count) * c[i]
		}
	}
	if share(next, f.budget) > 1 {
		return papers.Refuse("a release would leave no order with budget for epsilon %v at delta %v", f.epsilon, f.delta)
	}
	f.spent = next
	return nil
}

// share is the least share of its budget that any order has spent.
func share(spent, budget []float64) float64 {
	least := math.Inf(1)
	for i, b := range budget {
		if b > 0 {
			least = math.Min(least, spent[i]/b)
		}
	}
	return least
}

// Spent is by order.
func (f *paperFilter) Spent() []float64 { return slices.Clone(f.spent) }

func (f *paperFilter) Restore(spent []float64) error { return restore(f.spent, spent) }

// SpentBefore charges the share at every order. It is that of the order with most
// room: the others had spent more, and which it was is not known any more.
func (f *paperFilter) SpentBefore(share float64) {
	f.before = f.before || share > 0
	for i, b := range f.budget {
		f.spent[i] = math.Max(f.spent[i], share*math.Max(b, 0))
	}
}

// SoFar is the ε of what was admitted, by proposition 1; after an earlier process
// what it is at most, whichever order had most room.
func (f *paperFilter) SoFar() float64 {
	if f.before {
		most, left := 0.0, f.Left()
		for i, b := range f.budget {
			if b > 0 {
				most = math.Max(most, proposition1((1-left)*b, float64(i+2), f.delta))
			}
		}
		return most
	}
	epsilon, _ := paperEpsilon(f.spent, f.delta)
	return epsilon
}

// Left is the share of the budget that the order with most room has not spent.
func (f *paperFilter) Left() float64 { return 1 - share(f.spent, f.budget) }
