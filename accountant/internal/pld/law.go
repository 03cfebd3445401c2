package pld

import (
	"fmt"
	"math"
)

// The two directions of add-remove: what is gained by seeing the record's
// data, and by not seeing them.
const (
	remove = iota
	add
	directions
)

// A law is a dominating pair (P, Q) of one step, P with the record and Q
// without, or the other way round where the two are mirror images.
type law interface {
	// cut cuts the pair at the grid points of a spacing, for the upper and
	// for the lower end; in the other direction, the pair (Q, P).
	cut(p plan, direction int) (upper, lower cells, g grid)
	// sketch is a rough picture of the pair: small parts in ascending order
	// of loss, good enough to choose spacings, windows and tilts by.
	sketch(tails float64) []part
	// symmetric says that (Q, P) has the same losses as (P, Q).
	symmetric() bool
	// slack bounds the rounding of a computed loss.
	slack() float64
	// span is the distance of the lowest and the highest loss, where the
	// pair has atoms at both; 0 otherwise.
	span() float64
	key() string
}

// A plan is what a pair is cut for.
type plan struct {
	spacing float64
	tails   float64     // mass that may be cut off from a tail
	tilts   [][]float64 // by direction: tilts under which the losses should be exact
}

const (
	nodes    = 256
	maxMu    = 25 // beyond it the ratios of a pair leave the range of float64
	maxCells = 1 << 18
)

// A gaussian is the Gaussian of distance μ in standard deviations on a Poisson
// batch of rate q: (1−q)N(0,1)+qN(μ,1) against N(0,1) or, two-sided, against
// (1−q)N(0,1)+qN(−μ,1). With q = 1 it is one-sided.
type gaussian struct {
	mu, q    float64
	twoSided bool
}

func (l gaussian) key() string     { return fmt.Sprint("gaussian ", l.mu, l.q, l.twoSided) }
func (l gaussian) symmetric() bool { return l.twoSided || l.q == 1 }
func (l gaussian) span() float64   { return 0 }

// The loss at z is computed with a few roundings of numbers up to |loss|+μ²+1.
func (l gaussian) slack() float64 { return 16 * ulp * (16 + 16*l.mu + 3*l.mu*l.mu) }

// logMix is ln(1−q+q·eᵗ).
func logMix(q, t float64) float64 {
	switch {
	case q == 1:
		return t
	case t > 30:
		return t + math.Log(q) + math.Log1p((1-q)/q*math.Exp(-t))
	case q > 0.5 && t < 0:
		return math.Log((1 - q) + q*math.Exp(t))
	default:
		return math.Log1p(q * math.Expm1(t))
	}
}

func (l gaussian) loss(z float64) float64 {
	h := l.mu * l.mu / 2
	if l.twoSided {
		return logMix(l.q, l.mu*z-h) - logMix(l.q, -l.mu*z-h)
	}
	return logMix(l.q, l.mu*z-h)
}

// position is where the loss is x; −∞ where every loss is above.
func (l gaussian) position(x float64) float64 {
	h := l.mu * l.mu / 2
	switch {
	case l.q == 1:
		return (x + h) / l.mu
	case l.twoSided:
		// c·u² + (1−q)(1−eˣ)u − c·eˣ = 0 for u = e^{μz}, c = q·e^{−μ²/2}; for
		// x > 0, and odd in x.
		a := math.Abs(x)
		e := math.Exp(-a) // both sides divided by eᵃ
		b := (1 - l.q) * -math.Expm1(-a)
		logC := math.Log(l.q) - h
		c := math.Exp(logC)
		return math.Copysign((math.Log(b+math.Sqrt(b*b+4*c*c*e))-math.Log(2)-logC+a)/l.mu, x)
	case math.Expm1(x) <= -l.q:
		return math.Inf(-1)
	case x > 600:
		return (x - math.Log(l.q) + h) / l.mu
	default:
		return (math.Log1p(math.Expm1(x)/l.q) + h) / l.mu
	}
}

// A point is a place on the line with the normal tails the densities need.
type point struct{ zero, up, down normalTail }

func (l gaussian) point(z float64) point {
	p := point{zero: normalTailAt(z), up: normalTailAt(z - l.mu)}
	if l.twoSided {
		p.down = normalTailAt(z + l.mu)
	}
	return p
}

// interval is the part of the pair between two points, the ratio being at
// most eˣ there.
func (l gaussian) interval(a, b point, x float64) part {
	zero, zeroErr := between(a.zero, b.zero)
	up, upErr := between(a.up, b.up)
	r := part{p: l.q * up, q: zero, err: l.q * upErr}
	if l.q < 1 {
		r.p += (1 - l.q) * zero
		r.err += (1 - l.q) * zeroErr
	}
	qErr := zeroErr
	if l.twoSided {
		down, downErr := between(a.down, b.down)
		r.q = (1-l.q)*zero + l.q*down
		qErr = (1-l.q)*zeroErr + l.q*downErr
	}
	r.err = max(r.err, math.Exp(x)*qErr) + 4*ulp*r.p
	return r
}

// reach is the range of z outside of which both distributions have less than
// the mass that may be cut off.
func (l gaussian) reach(tails float64) (low, high float64) {
	end := func(above func(z float64) float64) float64 {
		low, high := 0.0, 37+l.mu // where float64 ends
		for range 50 {
			if z := (low + high) / 2; above(z) > tails {
				low = z
			} else {
				high = z
			}
		}
		return high
	}
	high = end(func(z float64) float64 { return (1-l.q)*upper(z) + l.q*upper(z-l.mu) })
	if l.twoSided {
		return -high, high
	}
	return -end(upper), high
}

func (l gaussian) sketch(tails float64) []part { return sketch(l, tails) }

func (l gaussian) cut(p plan, direction int) (upper, lower cells, g grid) {
	h := p.spacing
	g = grid{spacing: h}
	// A grid point at the median keeps both ends close where nearly all
	// losses are much smaller than the spacing.
	middle := l.loss(0)
	g.offset = middle - h*math.Floor(middle/h)
	low, _ := l.reach(p.tails)
	least, end := l.loss(low), l.point(-100)
	bounded := !l.twoSided && l.q < 1
	if bounded {
		least = math.Log1p(-l.q)
	}
	first := int(math.Floor((least - g.offset) / h))
	from := end
	if !bounded {
		from = l.point(l.position(g.loss(first)))
	}
	c := cut(l, p, g, first, from)
	if !bounded {
		c.below = l.interval(end, from, g.loss(first))
	}
	if direction == add {
		c, g = c.mirror(g)
	}
	return c, c, g
}

// upward are the cells of losses above 0, and below them the mass at 0 of a subset.
func (l gaussian) upward(p plan, g grid) (upper, lower cells) {
	c := cut(l, p, g, 0, l.point(l.mu/2))
	same, err := between(normalTailAt(-l.mu/2), normalTailAt(l.mu/2))
	c.below = part{(1 - l.q) * same, (1 - l.q) * same, (1-l.q)*err + 4*ulp*same}
	return c, c
}

// A laplace is Laplace noise of scale 1/ε at distance 1.
type laplace float64

func (l laplace) key() string     { return fmt.Sprint("laplace ", float64(l)) }
func (l laplace) symmetric() bool { return true }
func (l laplace) slack() float64  { return 32 * ulp * (1 + float64(l)) }
func (l laplace) span() float64   { return 2 * float64(l) }

// interval is the part with losses in [a, b], within (−ε, ε).
func (l laplace) interval(a, b float64) part {
	e := float64(l)
	share := -math.Expm1(-(b-a)/2) / 2
	r := part{p: math.Exp(-(e-b)/2) * share, q: math.Exp(-(e+a)/2) * share}
	// b−a is a difference of rounded numbers.
	r.err = 16*ulp*(1+e)*r.p + ulp*(1+e)*math.Exp(-(e-b)/2)
	return r
}

func (l laplace) cut(p plan, _ int) (upper, lower cells, g grid) {
	e := float64(l)
	g = aligned(p.spacing, e)
	var c cells
	if e < p.spacing { // all of it about the grid point 0
		c.list = []cell{
			atom(-1, g, math.Exp(-e)/2, -e, l.slack()), {-1, 0, l.interval(-e, 0)},
			{0, 1, l.interval(0, e)}, atom(0, g, 0.5, e, l.slack()),
		}
		return c, c, g
	}
	low, top := int(math.Floor((-e-g.offset)/g.spacing)), int(math.Round((e-g.offset)/g.spacing))
	c.list = append(c.list, atom(low, g, math.Exp(-e)/2, -e, l.slack()))
	for i := low; i < top && len(c.list) <= maxCells; i++ {
		a, b := max(g.loss(i), -e), min(g.loss(i+1), e)
		if i == top-1 {
			b = e
		}
		if a < b {
			middle := (a + b) / 2
			c.list = append(c.list, cell{i, i + 1, l.interval(a, middle)}, cell{i, i + 1, l.interval(middle, b)})
		}
	}
	c.list = append(c.list, atom(top, g, 0.5, e, l.slack()))
	return c, c, g
}

func (l laplace) sketch(float64) []part {
	e := float64(l)
	s := []part{{p: math.Exp(-e) / 2, q: 0.5}}
	for i := range nodes {
		s = append(s, l.interval(-e+2*e*float64(i)/nodes, -e+2*e*float64(i+1)/nodes))
	}
	return append(s, part{p: 0.5, q: math.Exp(-e) / 2})
}

// A pure is randomised response, which dominates all that is (ε, 0)-DP.
type pure float64

func (l pure) key() string     { return fmt.Sprint("pure ", float64(l)) }
func (l pure) symmetric() bool { return true }
func (l pure) slack() float64  { return 32 * ulp * (1 + float64(l)) }
func (l pure) span() float64   { return 2 * float64(l) }

func (l pure) cut(p plan, _ int) (upper, lower cells, g grid) {
	e := float64(l)
	g = aligned(p.spacing, e)
	low, top := int(math.Floor((-e-g.offset)/g.spacing+1e-9)), int(math.Round((e-g.offset)/g.spacing))
	if e < p.spacing { // about the grid point 0
		low, top = -1, 0
	}
	c := cells{list: []cell{
		atom(low, g, 1/(1+math.Exp(e)), -e, l.slack()),
		atom(top, g, 1/(1+math.Exp(-e)), e, l.slack()),
	}}
	return c, c, g
}

func (l pure) sketch(float64) []part {
	e := float64(l)
	p := 1 / (1 + math.Exp(-e))
	return []part{{p: 1 - p, q: p}, {p: p, q: 1 - p}}
}

// aligned is the grid of a spacing that has a point at the loss top, or at 0
// where top is smaller than the spacing.
func aligned(spacing, top float64) grid {
	if top < spacing {
		return grid{spacing: spacing}
	}
	i := math.Floor(top / spacing)
	return grid{spacing, top - i*spacing}
}

// atom is mass at one loss, on loss(i) or above it and below loss(i+1).
func atom(i int, g grid, mass, loss, slack float64) cell {
	return cell{i, i + 1, part{p: mass, q: mass * math.Exp(-loss), err: slack / 4 * mass}}
}

// An atoms is a discrete privacy loss distribution in no particular order.
type atoms []struct{ mass, loss, log float64 } // log is the mass's

// newAtoms are the parts' means, or the mirror image of it.
func newAtoms(parts []part, mirror bool) atoms {
	a := make(atoms, len(parts))
	for i, x := range parts {
		if mirror {
			x = swap(parts[len(parts)-1-i])
		}
		if x.p > 0 && x.q > 0 {
			a[i].mass, a[i].loss, a[i].log = x.p, math.Log(x.p/x.q), math.Log(x.p)
		}
	}
	return a
}

// moments are the cumulant ln E[e^{t·loss}] and its first two derivatives.
func (a atoms) moments(t float64) (k, mean, variance float64) {
	top, at := math.Inf(-1), 0.0
	for _, x := range a {
		if x.mass > 0 && t*x.loss+x.log > top {
			top, at = t*x.loss+x.log, x.loss
		}
	}
	sum := 0.0
	for _, x := range a {
		if x.mass > 0 {
			w, d := x.mass*math.Exp(t*x.loss-top), x.loss-at
			sum += w
			mean += w * d
			variance += w * d * d
		}
	}
	mean /= sum
	return top + math.Log(sum), at + mean, max(0, variance/sum-mean*mean)
}
