package pld

import (
	"errors"
	"math"
	"slices"
)

const (
	relativeWidth = 1e-3 // of Upper−Lower
	absoluteWidth = 1e-4 // below ε = 0.1
	smallWidth    = 5e-3 // relative, where that is less
	spreadWidth   = 1e-2 // of the loss's standard deviation, the most where ε is small; a tenth of it is the least
	leastWidth    = 1e-8 // nobody asks for less
	cutShare      = 1e-4 // of δ, for what is cut off
	jumpShare     = 0.05 // of δ, for losses that are not worth a tilt
	maxLog2       = 21   // of a window's points
	maxWork       = 24   // the same, of all kinds together
)

// ErrFine says that a composition needs more points than are allowed.
var ErrFine = errors.New("pld: the losses of these steps differ too much in size for a grid: use a Rényi bound")

// tails fixes how much may be cut off, a share of δ in all, and sketches every kind. It counts the steps.
func (c *composition) tails(delta, share float64) (steps float64) {
	for _, k := range c.kinds {
		steps += float64(k.count)
	}
	c.cut = share * delta / steps
	clear(c.sketches[:])
	for _, k := range c.kinds {
		parts := k.high.sketch(c.cut)
		for d := range c.sketches {
			c.sketches[d] = append(c.sketches[d], newAtoms(parts, d == add))
		}
	}
	return steps
}

// moments are roughly the composition's cumulant and its derivatives.
func (c *composition) moments(d int, t float64) (k, mean, variance float64) {
	for i, a := range c.sketches[d] {
		n := float64(c.kinds[i].count)
		k1, m1, v1 := a.moments(t)
		k, mean, variance = k+n*k1, mean+n*m1, variance+n*v1
	}
	return k, mean, variance
}

// saddle is roughly the δ at the ε that is the mean loss under tilt t: the
// loss taken for normal under the tilt.
func (c *composition) saddle(d int, t float64) float64 {
	k, mean, variance := c.moments(d, t)
	s := math.Sqrt(variance)
	return math.Exp(k-t*mean) * (mills(t*s) - mills((t+1)*s)) / math.Sqrt(2*math.Pi)
}

// tiltAt is the tilt ≥ 0 under which the mean loss is ε.
func (c *composition) tiltAt(d int, epsilon float64) float64 {
	return c.solve(d, func(t float64) bool {
		_, mean, _ := c.moments(d, t)
		return mean < epsilon
	})
}

// tiltNear is the tilt ≥ 0 at which the masses about ε are computed: the smallest under which
// Chernoff's bound e^{K−tε} is nearly as low as under tiltAt(ε). Where rare losses lie far above ε,
// that is a good deal smaller, and keeps them rare.
func (c *composition) tiltNear(d int, epsilon float64) float64 {
	best := c.tiltAt(d, epsilon)
	most := c.chernoff(d, best, epsilon) + 2
	low, high := 0.0, best
	for range 30 {
		if t := (low + high) / 2; c.chernoff(d, t, epsilon) > most {
			low = t
		} else {
			high = t
		}
	}
	return high
}

// chernoff is the logarithm of Chernoff's bound on the δ at ε.
func (c *composition) chernoff(d int, t, epsilon float64) float64 {
	k, _, _ := c.moments(d, t)
	return k - t*epsilon
}

// tiltFor is the tilt ≥ 0 whose mean loss has δ, roughly.
func (c *composition) tiltFor(d int, delta float64) float64 {
	return c.solve(d, func(t float64) bool { return c.saddle(d, t) > delta })
}

// solve is the tilt above which more stops being true, within what float64 can
// hold of e^{tilt·loss}.
func (c *composition) solve(d int, more func(t float64) bool) float64 {
	if !more(0) {
		return 0
	}
	largest := 1e-9
	for _, a := range c.sketches[d] {
		for _, x := range a {
			largest = max(largest, math.Abs(x.loss))
		}
	}
	most := 600 / largest
	low, high := 0.0, min(1, most)
	for high < most && more(high) {
		low, high = high, min(2*high, most)
	}
	for range 36 {
		mid := (low + high) / 2
		if more(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// deltaAt is roughly the δ at ε.
func (c *composition) deltaAt(epsilon float64) float64 {
	delta := startDelta
	for try := range 12 {
		c.tails(delta, 0.01)
		next := minDelta
		for d := range c.directions() {
			next = max(next, c.saddle(d, c.tiltAt(d, epsilon)))
		}
		next = min(next, 0.5)
		if try > 0 {
			next = max(next, delta/4)
		}
		if math.Abs(next-delta) < 0.1*delta {
			break
		}
		delta = next
	}
	return delta
}

// spacingAt is the formula's spacing, with the tails and tilts for δ. Connecting
// adds to the cumulant K(λ) of a step λ(λ+1)/2·h²/6, the variance of a uniform loss
// within a cell sent to its ends, fusing takes half as much, and K moves ε by as
// much over λ: the ends are about T(λ+1)h²/8 apart, a little more where rare losses matter.
func (c *composition) spacingAt(delta float64) float64 {
	c.design = delta
	// Rare losses that lie far above the others grow under a tilt until they are all that is left
	// of a composition: ε is looked for without those that δ has room for.
	var at [directions]float64
	c.tails(delta, jumpShare)
	for d := range c.directions() {
		_, at[d], _ = c.moments(d, c.tiltFor(d, delta))
	}
	n := c.tails(delta, cutShare)
	epsilon, work := 0.0, 0.0
	for d := range c.directions() {
		c.tilts[d], c.near[d] = c.tiltAt(d, at[d]), c.tiltNear(d, at[d])
		epsilon, work = max(epsilon, at[d]), max(work, n*(c.tilts[d]+1))
	}
	return math.Sqrt(2.8 * c.width(epsilon) / work)
}

// refine finds the spacing: that of the formula, with h² scaled once by what
// came out where it was more, is a smooth function of the noise, so that a
// calibration sees no jumps. What it gives is kept in found.
func (c *composition) refine(delta float64) error {
	h := c.spacingAt(delta)
	best, bestWidth := 0.0, math.Inf(1)
	c.found = Interval{0, math.Inf(1)}
	// What merging costs does not go away with the spacing, nor what ranged releases do: the formula must do.
	apart := slices.ContainsFunc(c.kinds, kind.apart)
	for try := 0; try < 5; try++ {
		c.setSpacing(h)
		var r Interval
		err := c.discretise()
		if err == nil {
			r, err = c.epsilon(delta)
		}
		switch {
		case errors.Is(err, ErrFine) && best > 0:
			h, try = (h+best)/2, max(try, 3) // one more, in between
			if h > 0.8*best {
				try = 5
			}
			continue
		case errors.Is(err, ErrFine) && h < 1e6:
			h *= 2
			try--
			continue
		case err != nil:
			return err
		}
		w, want := r.Upper-r.Lower, c.width(r.Upper)
		if math.IsInf(w, 1) {
			break // no spacing mends what overflows
		}
		little := try > 1 && w > 0.8*bestWidth
		if w < bestWidth {
			best, bestWidth, c.found = c.spacing, w, r
		}
		// A window near the most that is allowed leaves nothing to refine.
		full := c.transform.log2 >= maxLog2-1
		if w <= 0.6*want || apart || try > 0 && (w <= want || little || full) {
			break
		}
		h = c.spacing * max(0.125, min(1, math.Sqrt(0.55*want/w)))
	}
	if c.spacing == best || best == 0 {
		return nil
	}
	c.setSpacing(best)
	return c.discretise()
}

// width is what Upper−Lower may be at ε. Where δ is near its value at ε = 0, ε may be much
// less than the losses are apart, and only their size says what is near.
func (c *composition) width(epsilon float64) float64 {
	variance := 0.0
	for d := range c.directions() {
		_, _, v := c.moments(d, 0)
		variance = max(variance, v)
	}
	spread := math.Sqrt(variance)
	small := max(min(smallWidth*epsilon, spreadWidth*spread), spreadWidth/10*spread)
	return max(relativeWidth*epsilon, min(absoluteWidth, small), leastWidth)
}

// setSpacing fixes the spacing, near h: one that puts both extreme losses of a
// single kind on the grid, where they are atoms, and all knots of a single curve.
func (c *composition) setSpacing(h float64) {
	if l, ok := c.kinds[0].high.(*ranged); ok && len(c.kinds) == 1 && c.kinds[0].count == 1 {
		h, _ = l.values()
	} else if s := c.kinds[0].high.span(); len(c.kinds) == 1 && c.kinds[0].low.key() == c.kinds[0].high.key() && s > 0 {
		h = s / math.Ceil(s/h*(1-1e-12))
	}
	if h != c.spacing {
		c.spacing = h
		clear(c.measures)
	}
}

// discretise makes the measures that are missing.
func (c *composition) discretise() error {
	var tilts [directions][]float64
	for d := range tilts {
		tilts[d] = []float64{0, c.tilts[d], 2*c.tilts[d] + 2}
	}
	for _, k := range c.kinds {
		high, low := k.high.key(), k.low.key()
		if c.measures[high+"|"+low] != nil {
			continue
		}
		made := new([directions]ends)
		for d := range c.directions() {
			if d == add && k.high.symmetric() {
				made[d] = made[remove]
				continue
			}
			cutting := func(l law) (upper, lower cells, g grid, err error) {
				upper, lower, g = l.cut(plan{c.spacing, c.cut, tilts[:]}, d)
				if len(upper.list) > maxCells {
					err = ErrFine
				}
				return upper, lower, g, err
			}
			upper, lower, g, err := cutting(k.high)
			if err != nil {
				return err
			}
			made[d].upper = connect(upper, g, k.high.slack())
			if high != low {
				if _, lower, g, err = cutting(k.low); err != nil {
					return err
				}
			}
			made[d].lower = fuseBest(lower, g, k.low.slack(), c.tilts[d])
		}
		c.measures[high+"|"+low] = made
	}
	return nil
}

// compose is the curves of one direction, with masses precise about the mean
// loss under tilt t.
func (c *composition) compose(d int, t float64) (up, down *curve, err error) {
	empty := false
	var upper, lower []factor
	for _, k := range c.kinds {
		m := c.measures[k.high.key()+"|"+k.low.key()][d]
		upper, lower = append(upper, factor{m.upper, k.count}), append(lower, factor{m.lower, k.count})
		empty = empty || len(m.lower.index) == 0
	}
	if empty { // a lower end with no mass left is 0
		lower = upper
	}
	tilting := tails(upper, t, c.outside(d, t))
	var lows [2]int
	log2 := 6.0
	for i, f := range [2][]factor{upper, lower} {
		low, high := window(f, tilting)
		log2 = max(log2, math.Ceil(math.Log2(high-low+4)))
		if !(log2 <= maxLog2) || log2+math.Log2(float64(len(upper))) > maxWork+1 || math.Abs(low) > 1<<52 {
			return nil, nil, ErrFine
		}
		lows[i] = int(math.Floor(low)) - 1
	}
	if c.transform == nil || c.transform.log2 != int(log2) {
		c.transform = newTransform(int(log2))
	}
	up, down = compose(upper, lower, tilting, lows, c.transform)
	if empty {
		down = nil
	}
	return up, down, nil
}

// outside is how much tilted mass may lie on either side of a window: what an upper end gains by it
// is a small share of δ.
func (c *composition) outside(d int, t float64) float64 {
	k, mean, _ := c.moments(d, t)
	return max(1e-13, min(1e-10, 1e-10*c.design*math.Exp(t*mean-k)))
}

// tails is t with the further tilts that bound both tails best: the ends are
// alike enough for one choice.
func tails(factors []factor, t, outside float64) tilting {
	h := factors[0].spacing
	cumulant := func(t float64) (sum float64) {
		for i := range factors {
			k, _ := factors[i].cumulant(t * h)
			sum += float64(factors[i].count) * k
		}
		return sum
	}
	variance := 0.0
	for i := range factors {
		variance += float64(factors[i].count) * factors[i].variance(t*h)
	}
	k, rest := cumulant(t), -math.Log(outside)
	start := math.Log(math.Sqrt(2*rest/max(variance, 1e-4)) / h)
	best := func(sign float64) float64 {
		bound := func(x float64) float64 { s := math.Exp(x); return (cumulant(t+sign*s) - k + rest) / s }
		at, step, value := start, 0.4, bound(start)
		if other := bound(start - step); other < value {
			at, value, step = start-step, other, -step
		}
		for range 40 {
			next := bound(at + step)
			if !(next < value) {
				break
			}
			at, value, step = at+step, next, 1.3*step
		}
		return math.Exp(at)
	}
	return tilting{t, best(1), best(-1), outside}
}
