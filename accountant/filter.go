package accountant

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/papers"
)

// A Filter admits releases that are chosen by looking at earlier ones, as long
// as all together stay within a budget fixed in advance. It adds up Rényi
// divergences at one order, which must not depend on anything released: the sum
// of what was asked, conditioned on what was seen, bounds the divergence of the
// whole at that order (Feldman and Zrnic 2021, theorem 4.3; Lécuyer 2021,
// theorem 1). What a filtered run guarantees is (Epsilon, Delta), whatever was spent.
type Filter struct {
	epsilon, delta, order float64
	neighbouring          Neighbouring
	meter                 // of Rényi divergences at the order
}

// NewFilter sets the budget (ε, δ) under a relation, and the order above 1 at
// which it is spent. FilterOrder suggests one.
func NewFilter(epsilon, delta float64, n Neighbouring, order float64) (*Filter, error) {
	if err := cmp.Or(checkTarget(epsilon), checkDelta(delta), n.validate(), checkOrder(order)); err != nil {
		return nil, err
	}
	f := &Filter{epsilon: epsilon, delta: delta, order: order, neighbouring: n}
	// tight, solved for the divergence and rounded down.
	f.budget = epsilon - math.Log1p(-1/order) + math.Log(delta*order)/(order-1)
	if f.budget -= 1e-12 * math.Abs(epsilon-f.budget); f.budget <= 0 {
		return nil, papers.Refuse("epsilon %v at delta %v leaves nothing to spend at order %v: raise epsilon or the order", epsilon, delta, order)
	}
	return f, nil
}

// Ask charges an event, all its repetitions, if the budget allows it. After an
// error that is ErrBudget a smaller event may be asked for.
func (f *Filter) Ask(e Event) error {
	c, err := NewCurve([]Event{e}, f.neighbouring, []float64{f.order})
	if err != nil {
		return err
	}
	total := math.Nextafter(f.spent+c.RDP[0], math.Inf(1))
	if !(total <= f.budget) {
		return papers.Refuse("a release would bring the Rényi divergence of order %v to %.6g, of %.6g that epsilon %v at delta %v allows", f.order, total, f.budget, f.epsilon, f.delta)
	}
	f.spent = total
	return nil
}

// Converted is an upper end of the ε at δ of a Rényi divergence of an order, as a Filter converts it (Balle et al. 2020,
// theorem 21). Divergences that are chosen as releases go need an order and a δ that do not.
func Converted(divergence, order, delta float64) float64 {
	e := tight(divergence, order, delta)
	terms := divergence + math.Abs(math.Log1p(-1/order)) + math.Abs(math.Log(delta*order)/(order-1))
	return math.Max(e+1e-12*terms, 0)
}

// GaussianOrder is the order at which an (ε, δ) pays for most Gaussian releases of all records, whose divergence grows in
// proportion to the order. Without other knowledge of what is to come, it suits a Filter.
func GaussianOrder(epsilon, delta float64) (best float64) {
	most := math.Inf(-1)
	for _, a := range defaultOrders() {
		if paid := (epsilon - tight(0, a, delta)) / a; paid > most {
			best, most = a, paid
		}
	}
	return best
}

// restore raises what is charged at every order to what was spent.
func restore(charged, spent []float64) error {
	if len(spent) != len(charged) {
		return fmt.Errorf("%d divergences were spent, this budget has %d", len(spent), len(charged))
	}
	for _, s := range spent {
		if !(s >= 0) || math.IsInf(s, 0) {
			return fmt.Errorf("a divergence of %v was spent: must be a finite number, 0 or more", s)
		}
	}
	for i, s := range spent {
		charged[i] = math.Max(charged[i], s)
	}
	return nil
}

// SoFar is the ε of what was admitted so far, as Budget says.
func (f *Filter) SoFar() float64 { return math.Max(tight(f.spent, f.order, f.delta), 0) }

// Order is the filter's order.
func (f *Filter) Order() float64 { return f.order }

// meter is a budget of one number, and what of it was admitted so far. Its methods
// are those of a Budget.
type meter struct{ budget, spent float64 }

func (m *meter) Spent() []float64 { return []float64{m.spent} }

func (m *meter) Restore(spent []float64) error {
	charged := m.Spent()
	err := restore(charged, spent)
	m.spent = charged[0]
	return err
}

func (m *meter) SpentBefore(share float64) {
	m.spent = math.Max(m.spent, math.Nextafter(share*m.budget, math.Inf(1)))
}

func (m *meter) Left() float64 { return 1 - m.spent/m.budget }
