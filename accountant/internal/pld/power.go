package pld

import (
	"fmt"
	"math"
)

// Power says how well a test can tell neighbors apart by what the steps release. For each
// false-positive rate α it gives the ends between which the largest true-positive rate lies,
// and for the advantage those of the largest difference of the two rates at any α, the total
// variation. Both directions of add-remove are asked, and the larger ends taken.
//
// With H(γ) the hockey-stick curve of a dominating pair, γ = e^ε of any sign of ε, the
// true-positive rate at α is the minimum of H(γ)+γα over γ ≥ 0, and the advantage is H(1):
// 1 less the trade-off function of Dong, Roth and Su 2022 (section 2, proposition 6), as a
// measure of attacks by Kulynych et al. 2024. A curve that is too high at every γ, as the
// upper end is, gives rates that are too high, and every γ gives a bound.
func Power(steps []Step, replaceOne bool, rates []float64) (advantage Interval, power []Interval, err error) {
	for _, a := range rates {
		if !(a > 0 && a < 1) {
			return Interval{}, nil, fmt.Errorf("pld: a false-positive rate is %v; it must be above 0 and below 1", a)
		}
	}
	c, err := prepare(steps, replaceOne)
	if err != nil {
		return Interval{}, nil, err
	}
	power = make([]Interval, len(rates))
	if len(c.kinds) == 0 {
		for i, a := range rates {
			power[i].include(widen(gaussianPower(c.mu, a)))
		}
		advantage.include(widen(math.Erf(c.mu / 2 / math.Sqrt2)))
		return advantage, power, nil
	}
	g, near := c.nearGaussian(minDelta)
	if near {
		g, _ = c.nearGaussian(cutShare * g.delta(0).Upper)
		if form := g.delta(0); form.narrow() {
			for i, a := range rates {
				power[i].include(g.power(a))
			}
			return form, power, nil
		}
	}
	if advantage, err = c.gridPower(rates, power); !near {
		return advantage, power, err
	}
	if err != nil { // the grid says nothing
		advantage = Interval{0, 1}
		for i := range power {
			power[i] = Interval{0, 1}
		}
	}
	for i, a := range rates {
		power[i], _ = power[i].or(g.power(a), nil)
	}
	advantage, _ = advantage.or(g.delta(0), nil)
	return advantage, power, nil
}

// gridPower is that of the curves on a grid.
func (c *composition) gridPower(rates []float64, power []Interval) (advantage Interval, err error) {
	if err := c.refine(c.powerDesign()); err != nil {
		return Interval{}, err
	}
	if c.transform.log2 < maxLog2-1 { // the rates ask for more than one ε
		c.setSpacing(c.spacing / 2)
		if err := c.discretise(); err != nil {
			return Interval{}, err
		}
	}
	for i, a := range rates {
		power[i] = Interval{a, a} // what coins give
	}
	for d := range c.directions() {
		up, down, err := c.compose(d, 0)
		if err != nil {
			return Interval{}, err
		}
		advantage.include(Interval{down.delta(0, -1), up.delta(0, 1)})
		for i, a := range rates {
			power[i].include(Interval{down.powerBelow(a), up.powerAbove(a)})
		}
	}
	return advantage, nil
}

// include makes i that of the larger of two numbers, of which neither is above 1.
func (i *Interval) include(other Interval) {
	i.Upper = min(1, max(i.Upper, other.Upper))
	i.Lower = min(max(i.Lower, other.Lower), i.Upper)
}

// powerDesign is the δ that the spacing is chosen for: one whose ε lies between 0 and the
// losses that decide at false-positive rates of a few in a thousand.
func (c *composition) powerDesign() float64 {
	return min(0.01, c.deltaAt(0)/4)
}

// powerAbove is the least of H(γ)+γα that the curve's upper end gives at its losses.
func (c *curve) powerAbove(alpha float64) float64 {
	best := 1.0
	for s := newScan(c); s.i > c.low; {
		s.step(1)
		// The curve is asked a slack below the loss that it answers for.
		gamma := math.Exp(c.loss(s.i) + c.slack)
		if p := (s.upper(1) + gamma*alpha) * (1 + 8*ulp); p < best {
			best = p
		}
	}
	return best
}

// powerBelow is a bound from below on H(γ)+γα at every γ. H is at least 0 and 1−γ, and between
// two losses of the curve at least a function linear in γ. No curve bounds nothing.
func (c *curve) powerBelow(alpha float64) float64 {
	if c == nil {
		return 0
	}
	s := newScan(c)
	gamma := func(i int) float64 { return math.Exp(c.loss(i) - c.slack) }
	least := gamma(s.i-1) * alpha // above the window
	for s.i > c.low {
		s.step(-1)
		high, low := gamma(s.i), gamma(s.i-1)
		line := min(s.lower(1)+high*alpha, s.lower(s.decay)+low*alpha)
		if least = min(least, max(line, low*alpha, 1-high*(1-alpha))); math.IsNaN(least) {
			return 0
		}
	}
	below := max(s.lower(s.decay), 1-gamma(c.low-1)*(1-alpha))
	return max(0, min(least, below)*(1-8*ulp))
}
