package pld

import (
	"fmt"
	"math"
	"sort"
)

// A group is the Gaussian of several records on a Poisson batch of rate q, one of which moves the sum by μ
// standard deviations. With w the weights of Binomial(records, q), it is Σ wⱼN(jμ,1) against N(0,1) or,
// two-sided, against Σ wⱼN(−jμ,1) (docs/proofs/groups.md).
type group struct {
	mu, q, records float64
	twoSided       bool
}

const (
	mostPresent = 4096 // records of a group in one batch that a pair can tell apart
	leastAbsent = 300  // e^{−300} is the least probability that no record of a group is in a batch
	mostLoss    = 600  // of a step of a group; beyond it losses count as infinite
)

func newGroup(mu, q, records float64, twoSided bool) (law, error) {
	l := group{mu, q, records, twoSided}
	if twoSided { // the distance that is stated is that of a replaced record
		l.mu /= 2
	}
	l.mu /= records
	absent := -records * math.Log1p(-q)
	switch {
	case absent > leastAbsent || math.Sqrt(records*q)*8+records*q > mostPresent:
		return nil, fmt.Errorf("accountant pld: %v records at rate %v, of which %.4g are in a batch on average: %w", records, q, records*q, ErrGroup)
	case l.mu > maxMu:
		return nil, tooFar(l.mu)
	}
	return l, nil
}

// ErrGroup says that a group of records is too large for a pair.
var ErrGroup = fmt.Errorf("too many for a certified interval: use accountant rdp, or a smaller group")

func (l group) key() string     { return fmt.Sprint("group ", l.mu, l.q, l.records, l.twoSided) }
func (l group) symmetric() bool { return l.twoSided }
func (l group) span() float64   { return 0 }

// The loss is the logarithm of a sum whose terms are computed as a Gaussian's, from weights that are off by
// at most weightErr and have logarithms of a few hundred. Two-sided, it is the difference of two such logarithms:
// what one is too large, the other may be too small.
func (l group) slack() float64 {
	m := l.mu * min(l.records, 60/l.mu) // losses of up to mostLoss come of nearer centres
	s := 16*ulp*(16+16*m+3*m*m) + ulp*4*(leastAbsent+700) + l.weightErr()
	if l.twoSided {
		s *= 2
	}
	return s
}

// weightErr bounds the relative error of a weight, of a product of so many roundings.
func (l group) weightErr() float64 {
	return ulp * (8*min(l.records, mostPresent) - 4*l.records*math.Log1p(-l.q) + 16)
}

// A mixture is a group with its weights up to some number of records, and the weight of more of them.
type mixture struct {
	mu       float64
	weights  []float64
	logs     []float64
	more     float64 // nowhere near: for the upper end an infinite loss
	err      float64 // relative, of a weight
	twoSided bool
	places   []float64 // ascending places on the line
	losses   []float64 // there
}

// mixtures are the pairs for the upper and the lower end, which differ in what becomes of a probability of at
// most tails that more records are in the batch than both have weights for. More records are easier to tell
// (docs/proofs/groups.md): for the upper end such numbers count as infinitely many, for the lower end as the largest that has a weight.
func (l group) mixtures(tails float64) (upper, lower *mixture) {
	weights := []float64{math.Exp(l.records * math.Log1p(-l.q))}
	ratio := l.q / (1 - l.q)
	next := func(j int, w float64) float64 { return w * (l.records - float64(j)) / float64(j+1) * ratio }
	rest := func() (sum float64) { // the weight of all larger numbers
		for j, w := len(weights)-1, weights[len(weights)-1]; float64(j) < l.records; j++ {
			w = next(j, w)
			if sum += w; float64(j) > l.records*l.q && w < 1e-20*sum {
				break
			}
		}
		return sum
	}
	mean := l.records * l.q
	more := rest()
	for ; float64(len(weights)) <= l.records && len(weights) < mostPresent; more = rest() {
		if j := float64(len(weights)); j > mean && more <= 1e-3*tails {
			break
		}
		weights = append(weights, next(len(weights)-1, weights[len(weights)-1]))
	}
	folded := append([]float64(nil), weights...)
	folded[len(folded)-1] += more
	return l.mixture(weights, more), l.mixture(folded, 0)
}

func (l group) mixture(weights []float64, more float64) *mixture {
	m := &mixture{mu: l.mu, weights: weights, more: more * (1 + l.weightErr()), err: l.weightErr(), twoSided: l.twoSided}
	for _, w := range weights {
		m.logs = append(m.logs, math.Log(w))
	}
	low, high := -40.0, 40+l.mu*float64(len(weights))
	if m.twoSided {
		low = 0
	}
	const places = 512
	for i := range places + 1 {
		z := low + (high-low)*float64(i)/places
		m.places = append(m.places, z)
		m.losses = append(m.losses, m.loss(z))
	}
	return m
}

// log is the logarithm of Σ wⱼN(jμ,1) over N(0,1) at z, and its slope.
func (m *mixture) log(z float64) (log, slope float64) {
	// The exponents are concave in j.
	at := func(j int) float64 { x := float64(j) * m.mu; return m.logs[j] + x*z - x*x/2 }
	n := len(m.logs)
	top := sort.Search(n-1, func(j int) bool { return at(j+1) <= at(j) })
	most := at(top)
	sum, mean := 1.0, float64(top)
	for _, step := range [2]int{-1, 1} {
		for j := top + step; j >= 0 && j < n; j += step {
			d := at(j) - most
			if d < -45 {
				break
			}
			w := math.Exp(d)
			sum, mean = sum+w, mean+float64(j)*w
		}
	}
	return most + math.Log(sum), mean / sum * m.mu
}

func (m *mixture) loss(z float64) float64 {
	x, _ := m.lossAt(z)
	return x
}

func (m *mixture) lossAt(z float64) (loss, slope float64) {
	loss, slope = m.log(z)
	if m.twoSided {
		other, falls := m.log(-z)
		loss, slope = loss-other, slope+falls
	}
	return loss, slope
}

// position is where the loss is x, found between the places whose losses are known by Newton's method.
func (m *mixture) position(x float64) float64 {
	if m.twoSided && x < 0 {
		return -m.position(-x)
	}
	low, high := -float64(end), float64(end)
	if i := sort.SearchFloat64s(m.losses, x); i < len(m.losses) {
		high = m.places[i]
		if i > 0 {
			low = m.places[i-1]
		}
	} else {
		low = m.places[i-1]
	}
	if m.loss(low) >= x {
		if low == -end {
			return math.Inf(-1)
		}
		return low
	}
	z := (low + high) / 2
	for range 80 {
		y, slope := m.lossAt(z)
		if y < x {
			low = z
		} else {
			high = z
		}
		next := z - (y-x)/slope
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		if math.Abs(next-z) <= 2*ulp*math.Abs(next) {
			return next
		}
		z = next
	}
	return z
}

// A crowd is a place on the line with the normal tails of every number of records, and of fewer than none.
type crowd struct {
	up, down []normalTail // of j records at index j
}

func (m *mixture) point(z float64) crowd {
	var p crowd
	p.up = make([]normalTail, len(m.weights))
	for j := range p.up {
		p.up[j] = normalTailAt(z - float64(j)*m.mu)
	}
	if m.twoSided {
		p.down = make([]normalTail, len(m.weights))
		for j := range p.down {
			p.down[j] = normalTailAt(z + float64(j)*m.mu)
		}
	}
	return p
}

// mass is that of the mixture of normals between two points, and a bound on its error.
func (m *mixture) mass(a, b []normalTail) (mass, err float64) {
	for j, w := range m.weights {
		x, xErr := between(a[j], b[j])
		mass += w * x
		err += w * xErr
	}
	return mass, err + (m.err+ulp*float64(len(m.weights)+4))*mass
}

func (m *mixture) interval(a, b crowd, x float64) (r part) {
	r.p, r.err = m.mass(a.up, b.up)
	var qErr float64
	if m.twoSided {
		r.q, qErr = m.mass(a.down, b.down)
	} else {
		r.q, qErr = between(a.up[0], b.up[0])
	}
	r.err = max(r.err, math.Exp(x)*qErr) + 4*ulp*r.p
	return r
}

func (m *mixture) reach(tails float64) (low, high float64) {
	above := func(z float64) (sum float64) {
		for j, w := range m.weights {
			sum += w * upper(z-float64(j)*m.mu)
		}
		return sum
	}
	bisect := func(above func(z float64) float64, high float64) float64 {
		low := 0.0
		for range 50 {
			if z := (low + high) / 2; above(z) > tails {
				low = z
			} else {
				high = z
			}
		}
		return high
	}
	high = bisect(above, 37+m.mu*float64(len(m.weights)))
	if m.loss(high) > mostLoss {
		high = m.position(mostLoss)
	}
	if m.twoSided {
		return -high, high
	}
	return -bisect(upper, 37), high
}

func (l group) sketch(tails float64) []part {
	upper, _ := l.mixtures(tails)
	return sketch(upper, tails)
}

func (l group) cut(p plan, direction int) (upper, lower cells, g grid) {
	high, low := l.mixtures(p.tails)
	g = grid{spacing: p.spacing}
	middle := high.loss(0)
	g.offset = middle - g.spacing*math.Floor(middle/g.spacing)
	upper, lower = high.cells(p, g), low.cells(p, g)
	if direction == add {
		lower, _ = lower.mirror(g)
		upper, g = upper.mirror(g)
	}
	return upper, lower, g
}

// cells are the mixture between the grid points of both ends of its reach, and beyond.
func (m *mixture) cells(p plan, g grid) cells {
	low, _ := m.reach(p.tails)
	first := int(math.Floor((m.loss(low) - g.offset) / g.spacing))
	from, least := m.point(max(-end, m.position(g.loss(first)))), m.point(math.Inf(-1))
	c := cut(m, p, g, first, from)
	c.below = m.interval(least, from, g.loss(first))
	c.above.p += m.more
	return c
}
