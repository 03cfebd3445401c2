package pld

import "math"

// A grid is the set of losses offset + i·spacing, i any integer.
type grid struct{ spacing, offset float64 }

func (g grid) loss(i int) float64 { return g.offset + float64(i)*g.spacing }

// A part is a piece of a pair of distributions: its mass under P, under Q,
// and a bound err on |error of p| and on x·|error of q| for the ratios x=P/Q
// that occur in it.
type part struct{ p, q, err float64 }

// A cell is a part whose losses lie in [loss(low), loss(high)].
type cell struct {
	low, high int
	part
}

// cells are a pair cut into pieces by its loss, in ascending order: nothing
// is left out.
type cells struct {
	list         []cell
	below, above part // the losses under and over all cells
}

// mirror is the pair (Q, P): losses change sign.
func (c cells) mirror(g grid) (cells, grid) {
	g.offset = -g.offset
	m := cells{make([]cell, len(c.list)), swap(c.above), swap(c.below)}
	for i, x := range c.list {
		scale := math.Exp(g.loss(-x.low)) // 1/ratio at its largest
		m.list[len(c.list)-1-i] = cell{-x.high, -x.low, part{x.q, x.p, x.err * scale}}
	}
	return m, g
}

// swap exchanges P and Q of a tail, whose ratio may be any.
func swap(x part) part { return part{x.q, x.p, max(x.err, 1e-12*x.q)} }

// A measure is a privacy loss distribution on a grid: the mass under P of
// each loss, and of the infinite loss. Its total may differ from 1.
type measure struct {
	grid
	index    []int // ascending
	mass     []float64
	infinite float64
	slack    float64 // how far a true loss may lie on the wrong side of its place
}

func (m *measure) add(i int, mass float64) {
	if !(mass > 0) {
		return
	}
	// Cells ascend and overlap in one grid point at most.
	for k := len(m.index) - 1; k >= 0 && m.index[k] >= i; k-- {
		if m.index[k] == i {
			m.mass[k] += mass
			return
		}
		if k == 0 || m.index[k-1] < i {
			m.index = append(m.index, 0)
			m.mass = append(m.mass, 0)
			copy(m.index[k+1:], m.index[k:])
			copy(m.mass[k+1:], m.mass[k:])
			m.index[k], m.mass[k] = i, mass
			return
		}
	}
	m.index = append(m.index, i)
	m.mass = append(m.mass, mass)
}

// connect is the pessimistic connect-the-dots estimate: each cell's mass goes
// to its two ends, with its P and Q kept. The hockey-stick curve becomes its
// interpolation between the grid points, linear in e^ε, which is above it
// (Doroshenko et al. 2022, section 3).
func connect(c cells, g grid, slack float64) measure {
	m := measure{grid: g, slack: slack}
	m.infinite = c.above.p + c.above.err
	if len(c.list) == 0 {
		m.add(0, c.below.p+c.below.err) // no loss is above 0
		return m
	}
	m.add(c.list[0].low, c.below.p+c.below.err)
	for _, x := range c.list {
		share := -math.Expm1(-float64(x.high-x.low) * g.spacing)
		err := 2 * (x.err + (slack+4*ulp)*x.p) / share
		up := (x.p - math.Exp(g.loss(x.low))*x.q) / share
		if !(up >= 0) {
			up = 0
		}
		up = min(up, x.p)
		m.add(x.low, min(x.p-up+err, x.p+x.err))
		m.add(x.high, min(up+err, x.p+x.err))
	}
	return m
}

// fuse is the optimistic estimate: cells are joined, and cut between two
// groups where need be, so that each group's ratio P/Q is that of a grid
// point, where all of it is put. Joining is post-processing. The hockey-stick
// curve becomes a polygon of supporting lines that meet at grid points, which
// is below it (Doroshenko et al. 2022, section 4, with cells for the points
// of the curve).
//
// Where only far and rare losses could balance a group, putting it down to
// the next grid point costs less of E[e^{tilt·loss}], and is as valid.
func fuse(c cells, g grid, slack, tilt float64) measure {
	m := measure{grid: g, slack: slack}
	var group part // what waits for losses above x to balance it
	var at int
	var x float64
	emit := func(q, err float64) {
		if mass := x*q*(1-4*ulp) - err; mass > 0 {
			m.add(at, mass)
		}
		group = part{}
	}
	// at x, err must hold too where x is above the part's own ratios.
	scaled := func(r part) float64 { return r.err * max(1, x*r.q/r.p) }
	down := func() {
		loss := math.Log((group.p-2*group.err)/group.q) - g.offset
		if !math.IsNaN(loss) && !math.IsInf(loss, 0) {
			at = int(math.Floor((loss + slack/2) / g.spacing))
			x = math.Exp(g.loss(at))
			emit(group.q*(1-slack), group.err)
		}
		group = part{}
	}
	tilt = max(tilt, 1)
	place := func(rest part) {
		if rest.p <= 0 || rest.q <= 0 {
			return
		}
		if group.q > 0 && rest.p > x*rest.q {
			if far := math.Log(rest.p/rest.q) - g.loss(at); far > 2*g.spacing {
				d := max(0, math.Log(x*group.q/group.p))
				below := math.Expm1(-tilt * d)
				join := below + math.Expm1(d)*math.Expm1(min(tilt*far, 600))/-math.Expm1(-far)
				if join > below-math.Expm1(-tilt*g.spacing) {
					down()
				}
			}
		}
		if d := rest.p - x*rest.q; group.q > 0 && d+slack*rest.p >= 2*rest.err && d <= 4*slack*rest.p {
			// On the group's grid point itself, of no use to balance it.
			m.add(at, x*rest.q*(1-slack-4*ulp)-rest.err)
			return
		}
		if group.q > 0 {
			err := scaled(rest)
			deficit := x*group.q - group.p + 2*group.err + 4*ulp*group.p
			gain := rest.p - x*rest.q - 2*err - 4*ulp*rest.p
			if gain <= deficit {
				group.p, group.q, group.err = group.p+rest.p, group.q+rest.q, group.err+err
				return
			}
			f := min(1, deficit/gain*(1+4*ulp))
			emit(group.q+f*rest.q, group.err+f*err)
			rest = part{(1 - f) * rest.p, (1 - f) * rest.q, (1 - f) * rest.err}
			if rest.p <= 0 || rest.q <= 0 {
				return
			}
		}
		loss := math.Log(rest.p/rest.q) - g.offset
		if math.IsInf(loss, 0) || math.IsNaN(loss) || math.Abs(loss) > 700 {
			return
		}
		at = int(math.Ceil((loss - slack/2) / g.spacing))
		x = math.Exp(g.loss(at))
		if x*rest.q <= rest.p*(1+slack)-2*rest.err { // on the grid already
			emit(rest.q*(1-slack), rest.err)
			return
		}
		group = rest
		group.err = scaled(rest)
	}
	place(c.below)
	for _, y := range c.list {
		place(y.part)
	}
	place(c.above)
	if group.q > 0 { // nothing is left above to balance it
		down()
	}
	return m
}
