package convex

import "fmt"

// Passes is stochastic gradient descent from zero, without noise: some passes over one permutation
// of the public places, the next Batch of them in every step (Wu et al. 2017, algorithms 1 and 2).
// A place without a record has a gradient of zero, and records beyond the places count for nothing.
type Passes struct {
	Passes, Batch int
	// Rate is that of every step; 0: min(1/(β + L2), 1/(L2·t)) in step t, from 1 on, where β is the
	// smoothness of a record's loss.
	Rate, L2 float64
	Average  bool // of the iterates, which count as Weight says, in the place of the last one
	Radius   float64
	Records  int // public number of places
}

// Steps is their number, over all passes.
func (p Passes) Steps() int { return p.Passes * p.PerPass() }

// PerPass is how many steps a pass has. Its last batch may be smaller; sums are divided by Batch all the same.
func (p Passes) PerPass() int { return (p.Records + p.Batch - 1) / p.Batch }

// RateAt is the rate of a step, counted from 1.
func (p Passes) RateAt(smoothness float64, step int) float64 {
	if p.Rate > 0 {
		return p.Rate
	}
	return min(1/(smoothness+p.L2), 1/(p.L2*float64(step)))
}

// Weight is that of the iterate behind a step in the average: equal weights where the rate is
// constant, in proportion to the step where it falls. They add up to 1.
func (p Passes) Weight(step int) float64 {
	n := float64(p.Steps())
	if p.Rate > 0 {
		return 1 / n
	}
	return 2 * float64(step) / (n * (n + 1))
}

// Solve takes the places in the order of the table.
func (p Passes) Solve(t *Table, tilt []float64, stopped func() error) ([]float64, error) {
	if len(t.Order) != p.Records || tilt != nil {
		return nil, fmt.Errorf("%d places were shuffled for %d, or a loss was tilted: passes take each place once", len(t.Order), p.Records)
	}
	w, g := make([]float64, t.Params()), make([]float64, t.Params())
	z, delta := make([]float64, t.Outputs), make([]float64, t.Outputs)
	average := make([]float64, len(w))
	smooth, step := t.Smoothness(t.Norm), 0
	for range p.Passes {
		for rest := t.Order; len(rest) > 0; {
			if err := stopped(); err != nil {
				return nil, err
			}
			n := min(p.Batch, len(rest))
			clear(g)
			for _, place := range rest[:n] {
				if t.counts(int(place)) {
					t.addGradient(g, w, z, delta, int(place))
				}
			}
			rest = rest[n:]
			step++
			eta := p.RateAt(smooth, step)
			move(w, g, 1-eta*p.L2, eta/float64(p.Batch), p.Radius)
			if weight := p.Weight(step); p.Average {
				for i, v := range w {
					average[i] += weight * v
				}
			}
		}
	}
	if p.Average {
		return average, nil
	}
	return w, nil
}

// Drift is Descent's. An average is no farther off than any iterate, but for its own roundings.
func (p Passes) Drift(m *Model, norm float64) float64 {
	a := arithmetic{Model: m, norm: norm, l2: p.L2, radius: p.Radius, terms: p.Batch}
	smooth := m.Smoothness(norm)
	last, most, reach := a.drift(p.Steps(), func(step int) float64 { return p.RateAt(smooth, step) })
	if p.Average {
		return most + reach*float64(p.Steps()+8)*0x1p-53
	}
	return last
}
