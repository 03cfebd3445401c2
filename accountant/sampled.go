package accountant

import (
	"fmt"
	"math"
)

// mostGeneral is the highest order that sums over all orders below it go to.
const mostGeneral = 4096

// A batch is one event, for bounds that need only Rényi bounds of what is asked of
// it. Their common terms are computed once.
type batch struct {
	q       float64
	bounds  []bound
	costs   []float64 // (l−1)·ε(l) of what is asked, at index l from 2 on
	central []float64 // ln E_Q[(P/Q−1)^{2k}] where all is Gaussian, at index k
	moments []float64 // of the sampled batch, as far as known; NaN: not yet
}

// cost is (l−1)·ε(l) of what is asked of the batch.
func (b *batch) cost(l int) (float64, error) {
	for len(b.costs) <= l {
		order := float64(len(b.costs))
		if order < 2 {
			b.costs = append(b.costs, 0)
			continue
		}
		r, err := composed(b.bounds, order)
		if err != nil {
			return 0, err
		}
		b.costs = append(b.costs, (order-1)*r)
	}
	return b.costs[l], nil
}

// rdp extends a bound on the moment function (α−1)·ε(α), known at integers, to
// all orders above 1: the function is convex, and 0 at 1.
func (b *batch) rdp(order float64, moment func(*batch, int) float64) (float64, error) {
	if order > mostGeneral {
		return 0, fmt.Errorf("order %v: bounds on sampled mechanisms other than the Gaussian go up to order %d", order, mostGeneral)
	}
	low := int(order)
	if _, err := b.cost(low + 1); err != nil {
		return 0, err
	}
	at := func(a int) float64 {
		for len(b.moments) <= a {
			b.moments = append(b.moments, math.NaN())
		}
		if a == 1 {
			return 0
		}
		if math.IsNaN(b.moments[a]) {
			b.moments[a] = moment(b, a)
		}
		return b.moments[a]
	}
	m := at(low)
	if x := order - float64(low); x > 0 {
		m = (1-x)*m + x*at(low+1)
	}
	return m / (order - 1), nil
}

// poisson bounds the moment of a Poisson batch under add-remove (Zhu and Wang
// 2019, theorem 5; Chen and Lee 2020, lemma 4). Less the binomial weights,
// which sum to 1, all of its terms are positive.
func (b *batch) poisson(order int) float64 {
	var s logSum
	binomial(math.Log(b.q), math.Log1p(-b.q), order, func(l int, weight float64) {
		if l == 2 {
			s.add(weight + logExpm1(b.costs[l]))
		} else {
			s.add(weight + logExpm1(b.costs[l]+math.Log(3)))
		}
	})
	return log1pExp(s.log())
}

// fixedSize bounds the moment of a batch that is a uniform subset of fixed
// size, q its share of all records, under replace-one (Wang, Balle and
// Kasiviswanathan 2019, theorem 9; for Gaussians also by even central moments,
// as in section 3.3 there). The batch's bounds are those at replace-one's distance.
func (b *batch) fixedSize(order int) float64 {
	pure := together(b.bounds)
	b.growCentral(order/2 + 1)
	var s logSum
	binomial(math.Log(b.q), 0, order, func(l int, weight float64) {
		factor := math.Log(2)
		if pure > 0 {
			factor = min(factor, float64(l)*logExpm1(pure))
		}
		x := b.costs[l] + factor
		if l == 2 {
			x = min(x, math.Log(4)+logExpm1(b.costs[2]))
		}
		if len(b.central) > 0 {
			x = min(x, math.Log(4)+(b.central[l/2]+b.central[(l+1)/2])/2)
		}
		s.add(weight + x)
	})
	return log1pExp(s.log())
}

// growCentral makes the central moments of N(μ, 1) against N(0, 1) known up to
// the order 2·most, if all that is asked amounts to that.
func (b *batch) growCentral(most int) {
	mu := joint(b.bounds)
	if mu == 0 || math.IsInf(mu, 1) {
		return
	}
	p := addPair{1, mu}
	for k := len(b.central); k <= most; k++ {
		order := float64(2 * k)
		b.central = append(b.central, trapezoid(p, order, p.step(order), reach, func(u, d float64) float64 {
			if u > 1 {
				return order * logExpm1(u) // d may have overflowed
			}
			return order * math.Log(math.Abs(d))
		}))
	}
}
