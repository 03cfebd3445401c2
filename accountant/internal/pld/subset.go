package pld

import (
	"math"
	"slices"
)

// A subset is a pair of a batch of fixed size under replace-one. The pair of a Poisson batch of
// the same rate, at replace-one's distance, has the largest curve at ε ≥ 0, and its mirror image
// at ε ≤ 0 (Balle, Barthe and Gaboardi 2018, theorem 2; docs/proofs/fixed-size.md). The larger
// one of both curves has the losses above 0 of the first, their mirror images, and the rest at 0.
type subset struct{ of amplified }

// An amplified law is that of a batch, of which upward gives the losses above 0 on a grid that
// holds 0, and below them the mass that is left for the loss 0.
type amplified interface {
	law
	upward(p plan, g grid) (upper, lower cells)
	// most is the largest loss, where it is an atom; else 0.
	most() float64
}

func (l subset) key() string     { return "subset " + l.of.key() }
func (l subset) symmetric() bool { return true }
func (l subset) slack() float64  { return 2 * l.of.slack() } // also for losses that count as 0

// span is half of the distance of both ends: 0 and they must be on one grid.
func (l subset) span() float64 { return l.of.most() }

func (l subset) cut(p plan, _ int) (upper, lower cells, g grid) {
	g = grid{spacing: p.spacing}
	upper, lower = l.of.upward(p, g)
	return upper.unfold(g), lower.unfold(g), g
}

// unfold adds the mirror image of cells above 0, and makes a cell of what is below them.
func (c cells) unfold(g grid) cells {
	m, _ := c.mirror(g)
	return cells{slices.Concat(m.list, []cell{{0, 1, c.below}}, c.list), swap(c.above), c.above}
}

func (l subset) sketch(tails float64) []part {
	var down, up []part
	rest := 1.0
	for _, x := range l.of.sketch(tails) {
		if x.p > x.q {
			up, down = append(up, x), append(down, swap(x))
			rest -= x.p + x.q
		}
	}
	slices.Reverse(down)
	return slices.Concat(down, []part{{p: max(rest, 0), q: max(rest, 0)}}, up)
}

func (l gaussian) most() float64 { return 0 }

func (l batch) most() float64 {
	if !l.discrete() {
		return 0
	}
	return logMix(l.q, l.reach())
}

func (l batch) upward(p plan, g grid) (upper, lower cells) {
	high, low := l.base(p.spacing, p.tails, append(slices.Concat(p.tilts...), 0))
	return l.above(l.amplify(high, remove, true), g, 1), l.above(l.amplify(low, remove, false), g, -1)
}

// above are the cells of the parts whose loss is above 0. What they and their mirror images leave
// of a mass of 1 has the loss 0; round says which way it is rounded, 1 up.
func (l batch) above(parts []part, g grid, round float64) cells {
	parts = slices.DeleteFunc(parts, func(x part) bool { return math.Log(x.p/x.q) <= l.slack() })
	taken := 0.0
	for _, x := range parts {
		taken += x.p + x.q
	}
	rest := 1 - taken + round*ulp*float64(4*len(parts)+8)
	if round < 0 && rest < 0 {
		for i := range parts {
			parts[i].p, parts[i].q = parts[i].p/(1-rest), parts[i].q/(1-rest)
		}
	}
	c := l.cells(parts, g)
	c.below = part{p: max(rest, 0), q: max(rest, 0)}
	return c
}
