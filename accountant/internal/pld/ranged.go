package pld

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// A ranged is count adaptively chosen releases, the losses of each of which lie in an
// interval of length epsilon: [t−ε, t] for a t in [0, ε] that may follow from what was
// released before, as for exponential mechanisms.
//
// Of one release, given t, the worst has the losses t and t−ε alone. F, the curve of the
// best δ against γ = e^loss, follows release by release (Dong, Durfee and Rogers 2020;
// docs/proofs/exponential-mechanism.md):
//
//	F₀(γ) = (1−γ)₊, Fₖ(γ) = sup over t of p·Fₖ₋₁(γe^{−t}) + (1−p)·Fₖ₋₁(γe^{ε−t}),
//	p = (e^ε−e^t)/(e^ε−1).
//
// It is convex, so a chord between points that are too high is too high: the upper end is
// computed at steps of a fraction of ε, with the supremum over t taken exactly. The lower
// end has one t for all releases, the best at the tilt. F is its own mirror image.
type ranged struct {
	epsilon float64
	count   int
	once    sync.Once
	step    float64   // distance of the knots
	curve   []float64 // F at the losses 0, step, 2·step, …
}

const (
	rangedWork = 6e6  // values of t that are tried in all
	rangedMost = 2000 // knots in ε at most
	rangedLess = 3    // and at least, below which releases count as independent
	rangedTail = 14   // standard deviations of the loss that the knots reach
)

func newRanged(epsilon float64, count int) *ranged { return &ranged{epsilon: epsilon, count: count} }

// knots is how many an interval of length ε has, and how many all of [0, the largest loss]
// that matters.
func (l *ranged) knots() (each, all int) {
	k := float64(l.count)
	reach := min(k, rangedTail/2*math.Sqrt(k)+k*l.epsilon/8+1) // in ε; ρ = kε²/8
	each = int(min(rangedMost, math.Sqrt(rangedWork/k/reach)))
	return each, int(math.Ceil(reach * float64(each)))
}

// together says whether so many are worth a curve of their own.
func (l *ranged) together() bool {
	each, _ := l.knots()
	return each >= rangedLess
}

func (l *ranged) key() string     { return fmt.Sprint("ranged ", l.epsilon, " ", l.count) }
func (l *ranged) symmetric() bool { return true }
func (l *ranged) slack() float64  { return 32 * ulp * (1 + l.epsilon*float64(l.count)) }

func (l *ranged) span() float64 {
	if l.count > 1 {
		return 0
	}
	return 2 * l.epsilon
}

// values are F at the knots.
func (l *ranged) values() (step float64, curve []float64) {
	l.once.Do(func() {
		each, all := l.knots()
		l.step = l.epsilon / float64(each)
		l.curve = make([]float64, all+1) // (1−γ)₊ at γ ≥ 1
		r := newRangedStep(l.epsilon, each, all)
		for range l.count {
			l.curve = r.next(l.curve)
		}
	})
	return l.step, l.curve
}

// A rangedStep takes a curve on one release. Knot i of its lists has the loss (i−low)·step.
type rangedStep struct {
	each, low        int
	gamma, value     []float64 // at the knots
	intercept, slope []float64 // of the chord from a knot to the next
	v, p             []float64 // e^t and p at t = j·step
	top, less        float64   // e^ε and e^ε−1
}

func newRangedStep(epsilon float64, each, all int) *rangedStep {
	r := &rangedStep{each: each, low: all + each + 1, top: math.Exp(epsilon), less: math.Expm1(epsilon)}
	n := 2*r.low + 1
	r.gamma, r.value, r.intercept, r.slope = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range r.gamma {
		r.gamma[i] = math.Exp(float64(i-r.low) * epsilon / float64(each))
	}
	for j := range each + 1 {
		t := epsilon * float64(j) / float64(each)
		r.v, r.p = append(r.v, math.Exp(t)), append(r.p, -math.Expm1(t-epsilon)*r.top/r.less)
	}
	return r
}

// up bounds the rounding of one value, relatively.
const rangedUp = 1 + 1e-12

func (r *rangedStep) next(curve []float64) []float64 {
	most := len(curve) - 1
	for x := -r.low; x <= r.low; x++ {
		f := curve[min(abs(x), most)] // beyond the last knot it is no larger than there
		if x < 0 {                    // F(1/γ) = 1 − 1/γ + F(γ)/γ
			f = 1 - r.gamma[x+r.low]*(1-f)
		}
		r.value[x+r.low] = f
	}
	for i := range len(r.value) - 1 {
		r.slope[i] = (r.value[i+1] - r.value[i]) / (r.gamma[i+1] - r.gamma[i])
		r.intercept[i] = r.value[i] - r.slope[i]*r.gamma[i]
	}
	next := make([]float64, len(curve))
	for x := range next {
		next[x] = min(1, r.best(x+r.low)*rangedUp)
	}
	return next
}

// best is the supremum over t at a knot. Between values of t whose losses are both knots the
// curve is two chords, and what is maximised is −b·e^t − c·e^{−t} and a constant.
func (r *rangedStep) best(at int) float64 {
	best := 0.0
	for j := range r.each + 1 {
		p := r.p[j]
		best = max(best, p*r.value[at-j]+(1-p)*r.value[at+r.each-j])
		if j == r.each {
			break
		}
		near, far := at-j-1, at+r.each-j-1
		b := r.intercept[near] - r.intercept[far]
		c := (r.slope[far] - r.slope[near]) * r.gamma[at] * r.top
		if !(c > b*r.v[j]*r.v[j] && c < b*r.v[j+1]*r.v[j+1]) {
			continue
		}
		v := math.Sqrt(c / b)
		best = max(best, r.intercept[far]+r.slope[far]*r.gamma[at]+(b*(r.top-v)-c*(1/v-1/r.top))/r.less)
	}
	return best
}

func abs(x int) int { return max(x, -x) }

// parts are the atoms of the curve's chords, and the mass of an infinite loss.
func (l *ranged) parts() (losses []float64, parts []part, infinite float64) {
	step, curve := l.values()
	last := len(curve) - 1
	f := func(x int) float64 {
		if x >= 0 {
			return curve[min(x, last)]
		}
		return 1 - math.Exp(float64(x)*step)*(1-curve[min(-x, last)])
	}
	width := math.Expm1(step)
	up := 1 + 64*ulp/step                                    // slopes are off by some ulp·|slope|, and a curve adds up some 1/step of them
	before := (f(-last) - 1) / math.Exp(-float64(last)*step) // the chord from γ = 0
	for x := -last; x <= last; x++ {
		loss := float64(x) * step
		gamma := math.Exp(loss)
		slope := 0.0
		if x < last {
			slope = (f(x+1) - f(x)) / (gamma * width)
		}
		q := max(0, slope-before)
		losses = append(losses, loss)
		parts = append(parts, part{p: gamma * q * up, q: q * up, err: 4 * ulp * gamma * q})
		before = slope
	}
	return losses, parts, curve[last]
}

func (l *ranged) sketch(float64) []part {
	_, parts, _ := l.parts()
	return parts
}

func (l *ranged) cut(p plan, direction int) (upper, lower cells, g grid) {
	g = grid{spacing: p.spacing}
	if s := l.span(); s > 0 {
		g = aligned(p.spacing, s/2) // knots are a whole number of steps from ε
	}
	at := func(loss float64) int { return int(math.Floor((loss-g.offset)/g.spacing + 1e-9)) }
	losses, parts, infinite := l.parts()
	for i, x := range parts {
		k := at(losses[i])
		upper.list = append(upper.list, cell{k, k + 1, x})
	}
	upper.above.p = infinite
	for _, x := range l.alike(slices.Max(p.tilts[min(direction, len(p.tilts)-1)]) / 2) {
		lower.list = append(lower.list, atom(at(x.loss), g, x.mass, x.loss, l.slack()))
	}
	return upper, lower, g
}

// A spike is mass at a loss.
type spike struct{ loss, mass float64 }

// alike are the losses of releases with one t, the best for E[e^{tilt·loss}].
func (l *ranged) alike(tilt float64) []spike {
	less := -math.Expm1(-tilt * l.epsilon)
	if !(less > 0) {
		return l.withInterval(l.epsilon / 2)
	}
	t := math.Log(tilt / (tilt + 1) * (math.Expm1(l.epsilon) + less) / less)
	return l.withInterval(max(0, min(t, l.epsilon*(1-1e-9))))
}

// withInterval are the losses of releases that all lie in [t−ε, t].
func (l *ranged) withInterval(t float64) (all []spike) {
	p := -math.Expm1(t-l.epsilon) * math.Exp(l.epsilon) / math.Expm1(l.epsilon)
	n := float64(l.count)
	whole, _ := math.Lgamma(n + 1)
	for i := range l.count + 1 { // so many with the larger loss
		k := float64(i)
		a, _ := math.Lgamma(k + 1)
		b, _ := math.Lgamma(n - k + 1)
		log := whole - a - b + k*math.Log(p) + (n-k)*math.Log1p(-p)
		if log > -700 {
			all = append(all, spike{k*t - (n-k)*(l.epsilon-t), math.Exp(log) * (1 - 1e-9)})
		}
	}
	return all
}
