package pld

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A batch is several unsampled pairs asked of one Poisson batch of rate q<1:
// composed first, amplified once (Zhu, Dong and Wang 2022, theorem 11). Every
// pair is its own mirror image.
type batch struct {
	laws []law
	q    float64
}

// largestBase bounds the points of the composed pair before amplification.
const largestBase = 1 << 13

func (l batch) key() string {
	s := fmt.Sprint("batch ", l.q)
	for _, x := range l.laws {
		s += "," + x.key()
	}
	return s
}

func (l batch) symmetric() bool { return false }

func (l batch) slack() float64 {
	s := 64 * ulp * (1 + l.reach())
	for _, x := range l.laws {
		s += x.slack()
	}
	return s
}

// reach is roughly the largest loss of the composed pair.
func (l batch) reach() float64 {
	r := 0.0
	for _, x := range l.laws {
		if g, ok := x.(gaussian); ok {
			r += g.loss(g.mu + 12)
		} else {
			r += x.span() / 2
		}
	}
	return r
}

// discrete says that the extreme losses are atoms.
func (l batch) discrete() bool {
	return !slices.ContainsFunc(l.laws, func(x law) bool { return x.span() == 0 })
}

func (l batch) span() float64 {
	if !l.discrete() {
		return 0
	}
	return logMix(l.q, l.reach()) - logMix(l.q, -l.reach())
}

// base is the composed pair before amplification.
func (l batch) base(spacing, tails float64, tilts []float64) (upper, lower measure) {
	spacing = max(spacing, 2*l.reach()/largestBase)
	widest := 0.0
	for _, x := range l.laws {
		widest = max(widest, x.span())
	}
	if widest > spacing {
		spacing = widest / math.Ceil(widest/spacing)
	}
	for i, x := range l.laws {
		high, low, g := x.cut(plan{spacing, tails, [][]float64{tilts}}, remove)
		u, d := connect(high, g, x.slack()), fuse(low, g, x.slack(), slices.Max(tilts)/2)
		if i == 0 {
			upper, lower = u, d
			continue
		}
		upper, lower = convolve(upper, u, 1), convolve(lower, d, -1)
	}
	return upper, lower
}

// convolve composes two measures without a transform; round is the direction
// in which masses are rounded, 1 up.
func convolve(a, b measure, round float64) measure {
	m := measure{grid: grid{a.spacing, a.offset + b.offset}, slack: a.slack + b.slack}
	m.infinite = a.infinite + b.infinite // at least 1−(1−a)(1−b)
	if len(a.index) == 0 || len(b.index) == 0 {
		return m
	}
	first := a.index[0] + b.index[0]
	sums := make([]float64, a.index[len(a.index)-1]+b.index[len(b.index)-1]-first+1)
	for i, x := range a.index {
		for j, y := range b.index {
			sums[x+y-first] += a.mass[i] * b.mass[j]
		}
	}
	scale := 1 + round*ulp*float64(2*min(len(a.index), len(b.index))+8)
	for i, x := range sums {
		m.add(first+i, x*scale)
	}
	return m
}

// amplify is the pair after sampling, from the pair before it as atoms.
func (l batch) amplify(m measure, direction int, upper bool) []part {
	var parts []part
	without := 0.0
	for i, p := range m.mass {
		loss := m.loss(m.index[i])
		q := p * math.Exp(-loss)
		without += q
		if direction == remove {
			parts = append(parts, part{p: (1-l.q)*q + l.q*p, q: q})
		} else {
			parts = append(parts, part{p: p, q: (1-l.q)*p + l.q*q})
		}
	}
	switch {
	case !upper:
	case direction == remove:
		// P' needs all of Q: what no atom has, has ratio 0.
		rest := max(0, 1-without) + ulp*float64(4*len(m.mass)+8)
		parts = append(parts, part{p: (1 - l.q) * rest, q: rest})
		parts = append(parts, part{p: l.q * m.infinite})
	default:
		parts = append(parts, part{p: m.infinite, q: (1 - l.q) * m.infinite})
	}
	return parts
}

func (l batch) sketch(tails float64) []part {
	_, lower := l.base(2*l.reach()/nodes, tails, []float64{0})
	return l.amplify(lower, remove, false)
}

func (l batch) cut(p plan, direction int) (upper, lower cells, g grid) {
	g = grid{spacing: p.spacing}
	if l.discrete() {
		top := logMix(l.q, l.reach())
		if direction == add {
			top = -logMix(l.q, -l.reach())
		}
		g = aligned(p.spacing, top)
	}
	tilts := append(slices.Concat(p.tilts...), 0)
	high, low := l.base(p.spacing, p.tails, tilts)
	return l.cells(l.amplify(high, direction, true), g), l.cells(l.amplify(low, direction, false), g), g
}

// cells gives each part its cell, in ascending order.
func (l batch) cells(parts []part, g grid) (c cells) {
	slack := l.slack()
	for _, x := range parts {
		if x.p == 0 {
			continue
		}
		if x.q == 0 {
			c.above.p += x.p
			continue
		}
		x.err = slack / 4 * x.p
		i := int(math.Floor((math.Log(x.p/x.q) - g.offset + slack) / g.spacing))
		c.list = append(c.list, cell{i, i + 1, x})
	}
	slices.SortStableFunc(c.list, func(a, b cell) int { return cmp.Compare(a.low, b.low) })
	return c
}
