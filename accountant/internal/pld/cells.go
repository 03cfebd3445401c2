package pld

import (
	"math"
	"slices"
)

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

// moment is ln Σ mass·e^{t·loss}.
func (m *measure) moment(t float64) float64 {
	k, _ := m.cumulant(t * m.spacing)
	return k + t*m.offset
}

func (m *measure) add(i int, mass float64) {
	if !(mass > 0) {
		return
	}
	// Cells ascend and overlap in one grid point at most.
	k := len(m.index)
	for k > 0 && m.index[k-1] > i {
		k--
	}
	if k > 0 && m.index[k-1] == i {
		m.mass[k-1] += mass
		return
	}
	m.index, m.mass = slices.Insert(m.index, k, i), slices.Insert(m.mass, k, mass)
}

// connect makes the upper end. The hockey-stick curve becomes its interpolation
// between the grid points, linear in e^ε, which is above it (Doroshenko et al.
// 2022, section 3).
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
		all := x.p + x.err
		up = min(up+err, all)
		m.add(x.low, all-up)
		m.add(x.high, up)
	}
	return m
}

// fuse makes the lower end. Cells are joined, which is post-processing, and cut
// between two groups where need be. The hockey-stick curve becomes a polygon of
// supporting lines that meet at grid points, which is below it (section 4 there,
// with cells for the points of the curve).
//
// Where only far and rare losses could balance a group, putting it down to
// the next grid point costs less of E[e^{tilt·loss}], and is as valid.
func fuse(c cells, g grid, slack, tilt float64) measure {
	f := fuser{measure: measure{grid: g, slack: slack}, tilt: max(tilt, 1)}
	f.place(c.below)
	for _, y := range c.list {
		f.place(y.part)
	}
	if f.group.q > 0 && c.above.p > 0 && c.above.q > 0 {
		f.balance(c.above) // what is left of it is left out
	}
	if f.group.q > 0 { // nothing is left above to balance it
		f.down()
	}
	return f.measure
}

// fuseBest is the better one under the tilt of the lower ends on g and on the balancing grid.
func fuseBest(c cells, g grid, slack, tilt float64) measure {
	m := fuse(c, g, slack, tilt)
	if b := g.balancing(c); b != g {
		if other := fuse(c, b, slack, tilt); other.moment(tilt) > m.moment(tilt) {
			return other
		}
	}
	return m
}

// balancing is the grid for a lower end whose spacing is more than all losses below 0: one of its
// points is the mean loss of all that lies below the next point. On another grid it may take
// all losses above, however far, to bring a mean up to a point. It is g for any other spacing.
func (g grid) balancing(c cells) grid {
	if len(c.list) == 0 || c.below.p > 0 || g.loss(c.list[0].high) < -g.spacing {
		return g
	}
	var p, q float64
	for _, x := range c.list {
		if mean := math.Log(p / q); math.Log(x.p/x.q) >= mean+g.spacing {
			g.offset = mean
			break
		}
		p, q = p+x.p, q+x.q
	}
	return g
}

// A fuser makes a measure of parts that come in ascending order.
type fuser struct {
	measure
	tilt  float64
	group part // what waits for losses above x to balance it
	at    int  // the grid point that the group goes to
	x     float64
}

// to moves to a grid point.
func (f *fuser) to(at int) {
	f.at = at
	f.x = math.Exp(f.loss(at))
}

func (f *fuser) emit(q, err float64) {
	if mass := f.x*q*(1-4*ulp) - err; mass > 0 {
		f.add(f.at, mass)
	}
	f.group = part{}
}

// scaled is r's err, which at x must hold too where x is above r's own ratios.
func (f *fuser) scaled(r part) float64 { return r.err * max(1, f.x*r.q/r.p) }

// down puts the group on the next grid point below it.
func (f *fuser) down() {
	loss := math.Log((f.group.p-2*f.group.err)/f.group.q) - f.offset
	if !math.IsNaN(loss) && !math.IsInf(loss, 0) {
		f.to(int(math.Floor((loss + f.slack/2) / f.spacing)))
		f.emit(f.group.q*(1-f.slack), f.group.err)
	}
	f.group = part{}
}

// dear says that balancing the group by so far a part costs more than to put
// it down.
func (f *fuser) dear(rest part) bool {
	far := math.Log(rest.p/rest.q) - f.loss(f.at)
	if !(far > 2*f.spacing) {
		return false
	}
	d := max(0, math.Log(f.x*f.group.q/f.group.p))
	below := math.Expm1(-f.tilt * d)
	join := below + math.Expm1(d)*math.Expm1(min(f.tilt*far, 600))/-math.Expm1(-far)
	return join > below-math.Expm1(-f.tilt*f.spacing)
}

func (f *fuser) place(rest part) {
	if rest.p <= 0 || rest.q <= 0 {
		return
	}
	if f.group.q > 0 && rest.p > f.x*rest.q && f.dear(rest) {
		f.down()
	}
	if d := rest.p - f.x*rest.q; f.group.q > 0 && d+f.slack*rest.p >= 2*rest.err && d <= 4*f.slack*rest.p {
		// On the group's grid point itself, of no use to balance it.
		f.add(f.at, f.x*rest.q*(1-f.slack-4*ulp)-rest.err)
		return
	}
	if f.group.q > 0 {
		if rest = f.balance(rest); rest.p <= 0 || rest.q <= 0 {
			return
		}
	}
	f.begin(rest)
}

// balance adds to the group as much of a part as balances it, and returns what
// is left.
func (f *fuser) balance(rest part) part {
	err := f.scaled(rest)
	deficit := f.x*f.group.q - f.group.p + 2*f.group.err + 4*ulp*f.group.p
	gain := rest.p - f.x*rest.q - 2*err - 4*ulp*rest.p
	if gain <= deficit {
		f.group.p, f.group.q, f.group.err = f.group.p+rest.p, f.group.q+rest.q, f.group.err+err
		return part{}
	}
	share := min(1, deficit/gain*(1+4*ulp))
	f.emit(f.group.q+share*rest.q, f.group.err+share*err)
	return part{(1 - share) * rest.p, (1 - share) * rest.q, (1 - share) * rest.err}
}

// begin makes a group of a part, at the next grid point above it.
func (f *fuser) begin(rest part) {
	loss := math.Log(rest.p/rest.q) - f.offset
	if math.IsInf(loss, 0) || math.IsNaN(loss) || math.Abs(loss) > 700 {
		return
	}
	f.to(int(math.Ceil((loss - f.slack/2) / f.spacing)))
	if f.x*rest.q <= rest.p*(1+f.slack)-2*rest.err { // on the grid already
		f.emit(rest.q*(1-f.slack), rest.err)
		return
	}
	f.group = rest
	f.group.err = f.scaled(rest)
}
