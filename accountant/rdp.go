package accountant

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// renyiGroups are the relations under which Rényi bounds of several records are known.
var renyiGroups = []Neighbouring{AddRemove}

// rdpMethod minimises the converted curve over the default orders.
var rdpMethod = method{
	name:   RDP,
	slack:  1e-9,
	risk:   rdpRisk,
	groups: renyiGroups,
	solve:  func(events []Event, o Options) (Result, error) { return solveRenyi(events, o, tight) },
}

func solveRenyi(events []Event, o Options, convert conversion) (Result, error) {
	c, err := o.curve(events, nil)
	if err != nil {
		return Result{}, err
	}
	value, at := c.epsilon(o.Delta, convert)
	if o.Epsilon != nil {
		value, at = c.delta(*o.Epsilon)
	}
	r := o.result(value)
	r.Order = c.Orders[at]
	// An ε of 0 cannot be bettered.
	r.OrderAtEdge = value > 0 && (at == 0 || at == len(c.Orders)-1)
	return r, nil
}

// defaultOrders are the Rényi orders that an accountant minimises over:
// 1.1 to 10.9 by 0.1, 12 to 63, and 80, 128, 256, 512.
func defaultOrders() (o []float64) {
	for i := 11; i < 110; i++ {
		o = append(o, float64(i)/10)
	}
	for i := 12; i < 64; i++ {
		o = append(o, float64(i))
	}
	return append(o, 80, 128, 256, 512)
}

// Curve is the Rényi differential privacy of a composition: RDP[i] bounds the
// divergence of order Orders[i] between neighbouring data sets.
type Curve struct {
	Orders []float64
	RDP    []float64
}

// maxOrder keeps every divergence's cost within a second or so; a higher order
// could win only for an ε of the size of ln(1/δ)/maxOrder.
const maxOrder = 1 << 20

func checkOrder(a float64) error {
	if !(a > 1 && a <= maxOrder) {
		return fmt.Errorf("order %v: Rényi orders lie above 1 and up to %v", a, maxOrder)
	}
	return nil
}

// NewCurve composes events under a relation; orders nil means the default ones.
func NewCurve(events []Event, n Neighbouring, orders []float64) (Curve, error) {
	return Options{Neighbouring: n}.curve(events, orders)
}

// curve composes events for as many records at once as the options say.
func (o Options) curve(events []Event, orders []float64) (Curve, error) {
	if err := o.Neighbouring.validate(); err != nil {
		return Curve{}, err
	}
	if orders == nil {
		orders = defaultOrders()
	}
	for _, a := range orders {
		if err := checkOrder(a); err != nil {
			return Curve{}, err
		}
	}
	c := Curve{orders, make([]float64, len(orders))}
	for i, e := range events {
		if err := c.add(e, o); err != nil {
			return Curve{}, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return c, nil
}

// add composes with an event.
func (c Curve) add(e Event, o Options) error {
	if err := cmp.Or(e.Validate(), e.states(o.Neighbouring)); err != nil {
		return err
	}
	if groupMethod([]Event{e}, o, renyiGroups) == GroupConverted {
		return fmt.Errorf("no Rényi bound of this release is known for %d records at once under %s", o.Group, o.Neighbouring)
	}
	bounds, err := e.bounds(o.distance())
	if err != nil {
		return err
	}
	q := e.rate()
	b := &batch{q: q, bounds: bounds}
	for i, a := range c.Orders {
		var once float64
		switch {
		case q == 1:
			once, err = composed(bounds, a)
		case e.Sampling == FixedSize:
			once, err = b.rdp(a, (*batch).fixedSize)
		case o.records() > 1:
			once = rdpSampledGroup(q, joint(bounds)/o.distance(), float64(o.records()), a)
		default:
			once, err = b.rdpPoisson(a, o.Neighbouring)
		}
		if err != nil {
			return err
		}
		c.RDP[i] += float64(e.Count) * once
	}
	return nil
}

// composed is the divergence of all that is asked, without sampling.
func composed(bounds []bound, order float64) (float64, error) {
	total := 0.0
	for _, b := range bounds {
		r, err := b.renyi(order)
		if err != nil {
			return 0, err
		}
		total += r
	}
	return total, nil
}

// rdpPoisson is the smallest bound known on what a Poisson batch costs.
func (b *batch) rdpPoisson(order float64, n Neighbouring) (float64, error) {
	best, exact := math.Inf(1), false
	if mu := joint(b.bounds); mu > 0 {
		best = rdpSampledGaussian(b.q, n.distance()/mu, order, n)
		exact = !slices.ContainsFunc(b.bounds, func(b bound) bool { return b.rdp != nil })
	}
	switch {
	case exact:
		return best, nil
	case n == ReplaceOne && math.IsInf(best, 1):
		return 0, fmt.Errorf("accountant rdp bounds a Poisson batch under %s for Gaussian releases only: use %s", n, AddRemove)
	case n == ReplaceOne:
		return best, nil
	}
	if epsilon := together(b.bounds); epsilon > 0 {
		amplified, _ := mix(b.q, epsilon) // ln(1+q(e^ε−1)): Balle, Barthe and Gaboardi 2018, theorem 8
		best = min(best, rdpPure(amplified, order))
	}
	general, err := b.rdp(order, (*batch).poisson)
	return min(best, general), err
}

// A conversion turns the divergence of one order into ε at δ.
type conversion func(rdp, order, delta float64) float64

// tight is Canonne, Kamath and Steinke 2020, proposition 12.
func tight(rdp, order, delta float64) float64 {
	return rdp + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
}

// epsilon is the smallest ε over the orders at δ, and the index of the order
// that gives it. No bound is negative.
func (c Curve) epsilon(delta float64, convert conversion) (epsilon float64, order int) {
	epsilon = math.Inf(1)
	for i, a := range c.Orders {
		if e := math.Max(convert(c.RDP[i], a, delta), 0); e < epsilon {
			epsilon, order = e, i
		}
	}
	return epsilon, order
}

// delta is the smallest δ over the orders at ε under the tight conversion. It
// is never 0, which would claim more than a Rényi bound gives.
func (c Curve) delta(epsilon float64) (delta float64, order int) {
	delta = 1
	for i, a := range c.Orders {
		if d := positiveDelta(logDelta(c.RDP[i], a, epsilon)); d < delta {
			delta, order = d, i
		}
	}
	return delta, order
}

// logDelta is tight solved for ln δ.
func logDelta(rdp, order, epsilon float64) float64 {
	return (order-1)*(rdp-epsilon+math.Log1p(-1/order)) - math.Log(order)
}

// positiveDelta keeps a bound above 0 and at most 1.
func positiveDelta(log float64) float64 {
	return min(math.Max(math.Exp(log), math.SmallestNonzeroFloat64), 1)
}
