package pld

import (
	"math"
	"slices"
)

// A line is a pair of densities on the real line whose loss increases along it. P is a place
// with what the masses between two places need.
type line[P any] interface {
	loss(z float64) float64
	// position is where the loss is x; −∞ where every loss is above.
	position(x float64) float64
	point(z float64) P
	// interval is the part of the pair between two points, the ratio being at most eˣ there.
	interval(a, b P, x float64) part
	// reach is the range outside of which both distributions have less than the mass that may be cut off.
	reach(tails float64) (low, high float64)
}

// end is as good as infinite for what is centered at 0.
const end = 100

// sketch is a rough picture of a line.
func sketch[P any](l line[P], tails float64) []part {
	low, high := l.reach(tails)
	s := make([]part, nodes)
	last := l.point(low)
	for i := range s {
		z := low + (high-low)*float64(i+1)/nodes
		next := l.point(z)
		s[i] = l.interval(last, next, l.loss(z))
		last = next
	}
	return s
}

// cut makes the cells from a grid point on, which is at a place on the line, and what is above them.
func cut[P any](l line[P], p plan, g grid, first int, at P) (c cells) {
	h := p.spacing
	low, high := l.reach(p.tails)
	last := int(math.Ceil((l.loss(high) - g.offset) / h))
	edges := widths(l, p, low, high)
	for i, j := first, 0; i < last && len(c.list) <= maxCells; {
		for j < len(edges)-1 && edges[j].to <= g.loss(i)+h/2 {
			j++
		}
		m := edges[j].steps
		if fit := int((edges[j].to - g.loss(i)) / h); m > fit {
			m = max(1, fit)
		}
		next := i + m
		half := l.point(max(-end, l.position((g.loss(i)+g.loss(next))/2)))
		to := l.point(max(-end, l.position(g.loss(next))))
		c.list = append(c.list,
			cell{i, next, l.interval(at, half, g.loss(next))},
			cell{i, next, l.interval(half, to, g.loss(next))})
		at, i = to, next
	}
	c.above = l.interval(at, l.point(math.Inf(1)), min(g.loss(last), 690))
	return c
}

// An edge says how many grid steps a cell may be wide at losses up to to.
type edge struct {
	to    float64
	steps int
}

// coarse is the tolerated share of a cell that is wider than one step in the
// error of a discretisation.
const coarse = 1e-3

// widths widens cells where there is little mass: the error of connecting and
// fusing grows with the mass of a cell, under the tilt of interest, times the
// square of its width.
func widths[P any](l line[P], p plan, low, high float64) []edge {
	parts := sketch(l, p.tails)
	weight := make([]float64, len(parts))
	for d, tilts := range p.tilts {
		for _, t := range tilts {
			a := newAtoms(parts, d == add)
			k, _, _ := a.moments(t)
			for i := range parts {
				j := i
				if d == add {
					j = len(parts) - 1 - i
				}
				if a[j].mass > 0 {
					weight[i] = max(weight[i], math.Exp(math.Log(a[j].mass)+t*a[j].loss-k))
				}
			}
		}
	}
	// The square is the whole story only where tilt·width is small.
	widest := 1 / (max(1, slices.Max(slices.Concat(p.tilts...))) * p.spacing)
	edges := make([]edge, len(parts))
	from := l.loss(low)
	for i := range edges {
		to := l.loss(low + (high-low)*float64(i+1)/nodes)
		steps := widest
		if weight[i] > 0 {
			steps = math.Cbrt(coarse * (to - from) / (weight[i] * p.spacing))
		}
		edges[i] = edge{to, int(max(1, min(steps, widest)))}
		from = to
	}
	return edges
}
