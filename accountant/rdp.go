package accountant

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// DefaultOrders are the Rényi orders that an accountant minimises over:
// 1.1 to 10.9 by 0.1, 12 to 63, and 80, 128, 256, 512.
func DefaultOrders() []float64 {
	var o []float64
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

// NewCurve composes events under a relation; orders nil means DefaultOrders.
func NewCurve(events []Event, n Neighbouring, orders []float64) (Curve, error) {
	if err := n.validate(); err != nil {
		return Curve{}, err
	}
	if orders == nil {
		orders = DefaultOrders()
	}
	for _, a := range orders {
		if !(a > 1 && a <= maxOrder) {
			return Curve{}, fmt.Errorf("order %v: Rényi orders lie above 1 and up to %v", a, maxOrder)
		}
	}
	total := Curve{orders, make([]float64, len(orders))}
	for i, e := range events {
		c, err := eventCurve(e, n, orders)
		if err != nil {
			return Curve{}, fmt.Errorf("event %d: %w", i+1, err)
		}
		total = total.Plus(c, e.Count)
	}
	return total, nil
}

// eventCurve is the cost of one repetition of an event.
func eventCurve(e Event, n Neighbouring, orders []float64) (Curve, error) {
	if err := e.Validate(); err != nil {
		return Curve{}, err
	}
	if e.Neighbouring != "" && e.Neighbouring != n {
		return Curve{}, fmt.Errorf("is stated for %s, the account for %s: epsilons of different relations do not add", e.Neighbouring, n)
	}
	if e.Sampling == FixedSize {
		return Curve{}, errors.New("accountant rdp has no bound for fixed-size sampling: use Poisson sampling")
	}
	precision := 0.0 // of the one Gaussian that all together amount to
	for _, m := range e.Mechanisms {
		g, ok := m.(Gaussian)
		if !ok {
			return Curve{}, fmt.Errorf("accountant rdp has no bound for mechanism %s: it supports gaussian", m.Name())
		}
		precision += 1 / (g.NoiseMultiplier * g.NoiseMultiplier)
	}
	c := Curve{orders, make([]float64, len(orders))}
	for i, a := range orders {
		c.RDP[i] = rdpSampledGaussian(e.rate(), 1/math.Sqrt(precision), a, n)
	}
	return c, nil
}

// Plus adds times repetitions of d, which must have the same orders.
func (c Curve) Plus(d Curve, times int) Curve {
	sum := Curve{c.Orders, slices.Clone(c.RDP)}
	for i, r := range d.RDP {
		if times > 0 {
			sum.RDP[i] += float64(times) * r
		}
	}
	return sum
}

// Times is n repetitions of c.
func (c Curve) Times(n int) Curve {
	return Curve{c.Orders, make([]float64, len(c.RDP))}.Plus(c, n)
}

// Conversion turns the divergence of one order into ε at δ.
type Conversion func(rdp, order, delta float64) float64

// Tight is Canonne, Kamath and Steinke 2020, proposition 12.
func Tight(rdp, order, delta float64) float64 {
	return rdp + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
}

// Proposition1 is Mironov 2017, proposition 3, as the line-search paper uses
// it (Chen and Lee 2020, proposition 1): valid, and looser than Tight.
func Proposition1(rdp, order, delta float64) float64 {
	return rdp - math.Log(delta)/(order-1)
}

// Epsilon is the smallest ε over the orders at δ, and the index of the order
// that gives it. No bound is negative.
func (c Curve) Epsilon(delta float64, convert Conversion) (epsilon float64, order int) {
	epsilon = math.Inf(1)
	for i, a := range c.Orders {
		if e := math.Max(convert(c.RDP[i], a, delta), 0); e < epsilon {
			epsilon, order = e, i
		}
	}
	return epsilon, order
}

// Delta is the smallest δ over the orders at ε under the tight conversion. It
// is never 0, which would claim more than a Rényi bound gives.
func (c Curve) Delta(epsilon float64) (delta float64, order int) {
	delta = 1
	for i, a := range c.Orders {
		// Tight solved for δ.
		log := (a-1)*(c.RDP[i]-epsilon+math.Log1p(-1/a)) - math.Log(a)
		if d := math.Max(math.Exp(log), math.SmallestNonzeroFloat64); d < delta {
			delta, order = d, i
		}
	}
	return delta, order
}
