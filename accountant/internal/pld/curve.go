package pld

import "math"

// A scan walks down from the top of a curve's window, keeping the sums that δ
// needs: at loss L of the index reached, total is Σ_{j≥i} m_j and near is
// Σ_{j≥i} m_j·e^{L−L_j}, so that δ(ε) = total − e^{ε−L}·near for ε between the
// losses of i−1 and i. All terms are positive.
type scan struct {
	c           *curve
	i           int // the index reached, not yet below the window
	total, near float64
	sums        float64 // bounds the relative error of the sums
	decay       float64
}

// newScan starts above the window.
func newScan(c *curve) *scan {
	return &scan{c: c, i: c.low + len(c.mass), sums: 4 * ulp * float64(len(c.mass)+16), decay: math.Exp(-c.spacing)}
}

// step takes in the next mass; side is 1 where it is rounded up, −1 down.
func (s *scan) step(side float64) {
	s.i--
	m := max(0, s.c.mass[s.i-s.c.low]+side*s.c.each) * s.c.scale(s.i)
	s.total += m
	s.near = s.near*s.decay + m
}

// upper bounds δ at ε from above, with ε between the losses of i−1 and i,
// x = e^{ε−L_i}.
func (s *scan) upper(x float64) float64 {
	top := s.c.low + len(s.c.mass)
	above := s.c.outer * s.c.scale(top) // as if all of it had an infinite loss
	d := s.total*(1+s.sums) - x*s.near*(1-s.sums)
	return s.c.inf + math.Exp(s.c.rel)*(above+max(0, d))
}

// lower bounds it from below. What wraps round from outside the window, at
// most 2·outer, is taken off where it would weigh most: at i−1.
func (s *scan) lower(x float64) float64 {
	d := s.total*(1-s.sums) - x*s.near*(1+s.sums)
	return math.Exp(-s.c.rel)*d - 2*s.c.outer*s.c.scale(s.i-1)*math.Exp(s.c.rel)
}

// delta is the curve's bound at ε; side is 1 for the upper end.
func (c *curve) delta(epsilon, side float64) float64 {
	if c == nil {
		return 0
	}
	epsilon -= side * c.slack
	s := newScan(c)
	for s.i > c.low && c.loss(s.i-1) > epsilon {
		s.step(side)
	}
	if s.i == c.low && c.loss(c.low-1) > epsilon {
		// ε is below the window, where δ is at least what it is at its end.
		if side > 0 {
			return 1
		}
		epsilon = c.loss(c.low - 1)
	}
	x := math.Exp(epsilon - c.loss(s.i))
	if side > 0 {
		if d := s.upper(min(1, x)); d <= 1 {
			return d
		}
		return 1 // also where the untilted masses overflow
	}
	if d := s.lower(min(1, x)); d > 0 && !math.IsInf(s.total, 1) {
		return min(1, d)
	}
	return 0
}

// epsilon is the curve's bound on the least ε ≥ 0 whose δ is at most delta. It is
// never below the window's end. No curve is a lower end of 0. Where untilted
// masses overflow, the upper end is the last loss that is certain, which may be
// infinite, and the lower end 0.
func (c *curve) epsilon(delta, side float64) float64 {
	if c == nil {
		return 0
	}
	s := newScan(c)
	if side > 0 && !(s.upper(1) <= delta) {
		return math.Inf(1) // not even above the window
	}
	for s.i > c.low && c.loss(s.i-1)+math.Abs(c.slack) > -c.spacing {
		s.step(side)
		var over bool
		if side > 0 {
			over = !(s.upper(s.decay) <= delta)
		} else {
			over = s.lower(s.decay) >= delta && !math.IsInf(s.total, 1)
		}
		if !over {
			continue
		}
		// total − x·near meets delta at an x between decay and 1.
		var x float64
		if side > 0 {
			above := c.outer * c.scale(c.low+len(c.mass))
			rest := (delta-c.inf)*math.Exp(-c.rel) - above
			x = (s.total*(1+s.sums) - rest) / (s.near * (1 - s.sums))
		} else {
			rest := (delta + 2*c.outer*c.scale(s.i-1)*math.Exp(c.rel)) * math.Exp(c.rel)
			x = (s.total*(1-s.sums) - rest) / (s.near * (1 + s.sums))
		}
		if x = min(1, max(s.decay, x)); math.IsNaN(x) {
			if side < 0 {
				return 0
			}
			x = 1
		}
		return max(0, c.loss(s.i)+math.Log(x)+side*c.slack)
	}
	if side > 0 {
		return max(0, c.loss(s.i-1)+c.slack)
	}
	return 0
}
