package accountant

import (
	"errors"
	"fmt"
	"math"
)

// zcdpMethod adds up zero-concentrated privacy (Bun and Steinke 2016): every
// Rényi divergence of order α is at most ρ·α. Sampling has no such bound.
var zcdpMethod = method{
	name:   ZCDP,
	slack:  1e-12,
	risk:   zcdpRisk,
	groups: []Neighbouring{AddRemove, ReplaceOne},
	solve: func(events []Event, o Options) (Result, error) {
		rho, err := zcdp(events, o.distance())
		if err != nil {
			return Result{}, err
		}
		if o.Epsilon != nil {
			return o.result(zcdpDelta(rho, *o.Epsilon)), nil
		}
		epsilon := bestOrder(func(order float64) float64 { return tight(rho*order, order, o.Delta) })
		return o.result(math.Max(epsilon, 0)), nil
	},
}

// zcdpDelta is δ at ε of ρ.
func zcdpDelta(rho, epsilon float64) float64 {
	return positiveDelta(bestOrder(func(order float64) float64 { return logDelta(rho*order, order, epsilon) }))
}

// zcdp is ρ of a list: μ²/2 of a Gaussian, ε²/2 of what is (ε, 0)-private
// (Bun and Steinke 2016, propositions 1.6 and 1.4), ε²/8 of what has range ε (Cesar and Rogers 2021).
func zcdp(events []Event, distance float64) (float64, error) {
	total := 0.0
	for i, e := range events {
		bounds, err := e.unsampled(distance)
		if err != nil {
			return 0, fmt.Errorf("event %d: accountant %s: %w", i+1, ZCDP, err)
		}
		for j, b := range bounds {
			x := math.Max(b.mu, b.pure)
			if b.ranged > 0 {
				x = b.ranged / 2
			}
			if x == 0 {
				return 0, fmt.Errorf("event %d: accountant %s has no bound for mechanism %s", i+1, ZCDP, e.Mechanisms[j].Name())
			}
			total += float64(e.Count) * x * x / 2
		}
	}
	return total, nil
}

// unsampled are the bounds of an event on all records.
func (e Event) unsampled(distance float64) ([]bound, error) {
	if e.rate() < 1 {
		return nil, errors.New("has no bound for sampled batches: use pld or rdp")
	}
	return e.bounds(distance)
}

// bestOrder minimises over Rényi orders a bound that falls and then rises; any
// order gives a valid one.
func bestOrder(f func(order float64) float64) float64 {
	// Golden section in ln(α−1).
	const ratio = 0.6180339887498949
	at := func(x float64) float64 { return f(1 + math.Exp(x)) }
	low, high := -30.0, 30.0
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	fa, fb := at(a), at(b)
	for high-low > 1e-9 {
		if fa <= fb {
			high, b, fb = b, a, fa
			a = high - ratio*(high-low)
			fa = at(a)
		} else {
			low, a, fa = a, b, fb
			b = low + ratio*(high-low)
			fb = at(b)
		}
	}
	return math.Min(fa, fb)
}
