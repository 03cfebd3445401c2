package pld

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Pair is a pair of distributions that dominates one release under
// add-remove: how far the outputs with and without one record are apart.
type Pair struct {
	what string
	size float64
	most float64 // of the size, or of its double under replace-one
	law  func(size float64) law

	records float64 // that are added or removed together
}

// Of is the pair of so many records, all added or all removed; under replace-one all replaced.
func (p Pair) Of(records int) Pair {
	p.records = float64(records)
	return p
}

// Gaussian is N(μ,1) against N(0,1): Gaussian noise of standard deviation σ
// on a sum to which one record adds at most C in norm has μ = C/σ.
func Gaussian(mu float64) Pair {
	// What is nearer loses as good as nothing; squares stay above 0.
	return Pair{"a Gaussian's mu", mu, math.Inf(1), func(mu float64) law { return gaussian{mu: max(mu, 1e-150), q: 1} }, 1}
}

// mostPure keeps probabilities e^{−ε} within float64.
const mostPure = 300

// Laplace is Laplace noise of scale 1/ε on a number that one record changes
// by at most 1.
func Laplace(epsilon float64) Pair {
	return Pair{"a Laplace epsilon", epsilon, mostPure, func(e float64) law { return laplace(e) }, 1}
}

// Pure is randomised response, the pair that dominates every (ε, 0)-DP release.
func Pure(epsilon float64) Pair {
	return Pair{"a pure epsilon", epsilon, mostPure, func(e float64) law { return pure(e) }, 1}
}

// Ranged is what dominates a release whose privacy losses lie in an interval of length ε,
// wherever that is, as those of an exponential mechanism do.
func Ranged(epsilon float64) Pair {
	return Pair{"a bounded range", epsilon, mostRange, func(e float64) law { return newRanged(e, 1) }, 1}
}

// mostRange keeps the curve of one such release within float64.
const mostRange = 100

// unsampled is the pair's law, at so many times the distance as there are records, and at twice that under
// replace-one (docs/proofs/groups.md).
func (p Pair) unsampled(replaceOne bool) (law, error) {
	if p.law == nil {
		return nil, errors.New("pld: a step has a nil pair")
	}
	if !(p.size > 0 && p.size <= 1e6) {
		return nil, fmt.Errorf("pld: %s is %v; it must be positive and at most 1e6", p.what, p.size)
	}
	size := p.size * p.records
	if replaceOne {
		size *= 2
	}
	switch {
	case size <= p.most:
	case p.records > 1:
		return nil, fmt.Errorf("pld: %s is %v for one record and %v for %v; above %v it is not supported", p.what, p.size, size, p.records, p.most)
	default:
		return nil, fmt.Errorf("pld: %s is %v; above %v under add-remove or %v under replace-one it is not supported",
			p.what, p.size, p.most, p.most/2)
	}
	return p.law(size), nil
}

// A Step is Count batches drawn at one rate. Each batch is asked all Pairs,
// which are composed first and then amplified once.
type Step struct {
	Pairs []Pair
	Rate  float64 // of sampling, in (0, 1]; 1 is every record
	Count int
	// Subsets says that batches are uniform subsets of a fixed size, Rate being its share of all
	// records; otherwise sampling is Poisson.
	Subsets bool
}

// An Interval is where a true value lies. Upper is a guarantee.
type Interval struct{ Lower, Upper float64 }

// Epsilon is the ends between which the least ε ≥ 0 lies for which the
// composition of the steps is (ε, δ)-DP: under add-remove the larger of
// adding and removing, under replace-one if replaceOne. Upper−Lower is at
// most 1e-3·ε, or 1e-4 below ε = 0.1, or a hundredth of the loss's standard deviation where
// that is below 0.01, wherever a few million points suffice; elsewhere the interval is wider,
// and as valid.
func Epsilon(steps []Step, replaceOne bool, delta float64) (Interval, error) {
	if !(delta >= minDelta && delta < 1) {
		return Interval{}, fmt.Errorf("pld: delta is %v; it must be at least %g, below which nothing is certified, and below 1", delta, float64(minDelta))
	}
	c, err := prepare(steps, replaceOne)
	switch {
	case err != nil:
		return Interval{}, err
	case len(c.kinds) > 0:
		form := Interval{0, math.Inf(1)}
		if g, ok := c.nearGaussian(cutShare * delta); ok {
			form = g.epsilon(delta)
		}
		if form.narrow() {
			return form, nil
		}
		err := c.refine(delta)
		return c.found.or(form, err)
	case c.mu == 0:
		return Interval{}, nil
	}
	return widen(gaussianEpsilon(c.mu, delta)), nil
}

// Delta is the ends between which δ lies at ε ≥ 0, which are as near as those
// of Epsilon at that δ.
func Delta(steps []Step, replaceOne bool, epsilon float64) (Interval, error) {
	if !(epsilon >= 0 && epsilon <= math.MaxFloat64) {
		return Interval{}, fmt.Errorf("pld: epsilon is %v; it must be finite and not negative", epsilon)
	}
	c, err := prepare(steps, replaceOne)
	switch {
	case err != nil:
		return Interval{}, err
	case len(c.kinds) > 0:
		form := Interval{0, math.Inf(1)}
		if g, ok := c.nearGaussian(minDelta); ok {
			g, _ = c.nearGaussian(max(minDelta, cutShare*g.delta(epsilon).Upper))
			form = g.delta(epsilon)
		}
		if form.narrow() {
			return form, nil
		}
		grid, err := c.gridDelta(epsilon)
		return grid.or(form, err)
	case c.mu == 0:
		return Interval{}, nil
	}
	r := widen(math.Exp(gaussianDelta(c.mu, epsilon)))
	r.Upper = max(r.Upper, math.SmallestNonzeroFloat64) // it underflows, and is above 0
	return r, nil
}

func (c *composition) gridDelta(epsilon float64) (Interval, error) {
	if err := c.refine(c.deltaAt(epsilon)); err != nil {
		return Interval{}, err
	}
	return c.delta(epsilon)
}

// A composition is a list of steps, discretised once there are kinds.
type composition struct {
	kinds     []kind  // none: a closed form answers
	mu        float64 // of all unsampled Gaussians together
	spacing   float64
	design    float64             // the δ that the spacing is chosen for
	found     Interval            // ε at design, as refine saw it
	cut       float64             // mass that may be cut off from each tail of a pair
	tilts     [directions]float64 // under which the mean loss is ε
	near      [directions]float64 // at which masses about ε are computed
	sketches  [directions][]atoms // of the kinds
	measures  map[string]*[directions]ends
	transform *transform // of the latest window
}

// A kind is a pair and its count. Where similar pairs were merged, high
// dominates all of them and low is dominated by all.
type kind struct {
	high, low law
	count     int
}

// apart says that the ends of the kind itself are.
func (k kind) apart() bool {
	_, is := k.high.(*ranged)
	return is || k.high.key() != k.low.key()
}

// ends are the pessimistic and the optimistic measure.
type ends struct{ upper, lower measure }

const (
	minDelta   = 1e-100
	startDelta = 1e-20
	maxKinds   = 512
	maxCount   = int64(1) << 40
)

func (c *composition) epsilon(delta float64) (Interval, error) {
	var r Interval
	for d := range c.directions() {
		t := c.near[d]
		for try := 0; ; try++ {
			up, down, err := c.compose(d, t)
			if err != nil {
				return Interval{}, err
			}
			if up.inf >= delta {
				return Interval{}, fmt.Errorf("pld: delta is %v; these steps have an infinite loss with a probability of up to %.3g, "+
					"so that no epsilon can be certified below that", delta, up.inf)
			}
			high, low := up.epsilon(delta, 1), down.epsilon(delta, -1)
			if try == 0 && math.IsInf(high, 1) && t < c.tilts[d] { // δ is below what a transform at so small a tilt can tell
				t = c.tilts[d]
				continue
			}
			if try < 2 && t > 0 && c.chernoff(d, t, high)-c.chernoff(d, c.tiltAt(d, high), high) > 5 { // the masses there are less precise
				t = c.tiltNear(d, high)
				continue
			}
			r.Upper, r.Lower = max(r.Upper, high), max(r.Lower, low)
			break
		}
	}
	r.Lower = min(r.Lower, r.Upper)
	return r, nil
}

func (c *composition) delta(epsilon float64) (Interval, error) {
	var r Interval
	for d := range c.directions() {
		up, down, err := c.compose(d, c.tiltNear(d, epsilon))
		if err != nil {
			return Interval{}, err
		}
		r.Upper, r.Lower = max(r.Upper, up.delta(epsilon, 1)), max(r.Lower, down.delta(epsilon, -1))
	}
	r.Lower = min(r.Lower, r.Upper)
	return r, nil
}

// directions is how many directions differ.
func (c *composition) directions() int {
	if slices.ContainsFunc(c.kinds, func(k kind) bool { return !k.high.symmetric() }) {
		return directions
	}
	return 1
}

// prepare checks the steps, brings each to its kind, and merges what is alike.
func prepare(steps []Step, replaceOne bool) (*composition, error) {
	c := &composition{measures: map[string]*[directions]ends{}}
	at := map[string]int{}
	insert := func(l law, count int) {
		key := l.key()
		if i, ok := at[key]; ok {
			c.kinds[i].count += count
			return
		}
		at[key] = len(c.kinds)
		c.kinds = append(c.kinds, kind{l, l, count})
	}
	total, squares := 0, 0.0
	for _, s := range steps {
		if err := s.check(total); err != nil {
			return nil, err
		}
		total += s.Count
		mu2, others, err := s.laws(replaceOne)
		if err != nil {
			return nil, err
		}
		if s.Count == 0 {
			continue
		}
		if s.Subsets && !replaceOne {
			return nil, fmt.Errorf("accountant pld prices fixed-size sampling (a share of %v) under replace-one only, "+
				"as an added record takes another's place: use replace-one, or Poisson sampling", s.Rate)
		}
		if s.Rate == 1 {
			squares += float64(s.Count) * mu2
			for _, l := range others {
				insert(l, s.Count)
			}
			continue
		}
		l, err := s.sampled(mu2, others, replaceOne)
		if err != nil {
			return nil, err
		}
		if l != nil {
			insert(l, s.Count)
		}
	}
	c.join()
	c.mu = math.Sqrt(squares)
	if len(c.kinds) > 0 && c.mu > 0 {
		if c.mu > maxMu {
			return nil, tooFar(c.mu)
		}
		insert(gaussian{mu: c.mu, q: 1}, 1)
	}
	var err error
	c.kinds, err = merge(c.kinds, maxKinds)
	return c, err
}

// join takes releases of one bounded range together.
func (c *composition) join() {
	for i, k := range c.kinds {
		if one, ok := k.high.(*ranged); ok {
			if all := newRanged(one.epsilon, k.count); all.together() {
				c.kinds[i] = kind{all, all, 1}
			}
		}
	}
}

// check refuses a step by itself, or after so many batches.
func (s *Step) check(before int) error {
	if !(s.Rate > 0 && s.Rate <= 1) {
		return fmt.Errorf("pld: a sampling rate is %v; it must be above 0 and at most 1, which is every record", s.Rate)
	}
	if s.Count < 0 || int64(s.Count) > maxCount || int64(before)+int64(s.Count) > maxCount {
		return fmt.Errorf("pld: a count is %v; counts must not be negative, and at most %d together", s.Count, maxCount)
	}
	return nil
}

// laws are what is asked of a batch: all Gaussians as one, of which μ² is
// returned, and the others.
func (s *Step) laws(replaceOne bool) (mu2 float64, others []law, err error) {
	for _, p := range s.Pairs {
		l, err := p.unsampled(replaceOne)
		if err != nil {
			return 0, nil, err
		}
		if g, ok := l.(gaussian); ok {
			mu2 += g.mu * g.mu
		} else {
			others = append(others, l)
		}
	}
	return mu2, others, nil
}

// sampled is the law of a batch that is asked so much; nil: nothing.
func (s *Step) sampled(mu2 float64, others []law, replaceOne bool) (law, error) {
	if !s.Subsets {
		return s.amplified(mu2, others, replaceOne)
	}
	l, err := s.amplified(mu2, others, false)
	if of, ok := l.(amplified); ok {
		l = subset{of}
	}
	return l, err
}

// amplified is the law of a Poisson batch.
func (s *Step) amplified(mu2 float64, others []law, replaceOne bool) (law, error) {
	mu := math.Sqrt(mu2)
	switch {
	case len(s.Pairs) > 0 && s.Pairs[0].records > 1:
		if len(others) > 0 || s.Subsets {
			return nil, errors.New("pld: on a batch only Gaussian releases, and only Poisson sampling, are supported for several records at once")
		}
		return newGroup(mu, s.Rate, s.Pairs[0].records, replaceOne)
	case len(others) > 0 && replaceOne:
		return nil, fmt.Errorf("pld: Laplace and pure releases on a Poisson batch (rate %v) are not supported under replace-one; "+
			"use Gaussian ones, every record, or add-remove", s.Rate)
	case len(others) > 0:
		if mu2 > 0 {
			if mu2 > maxMu*maxMu {
				return nil, tooFar(mu)
			}
			others = append(others, gaussian{mu: mu, q: 1})
		}
		slices.SortFunc(others, func(a, b law) int { return strings.Compare(a.key(), b.key()) })
		return batch{others, s.Rate}, nil
	case mu2 > 0:
		if replaceOne { // the centres lie at ±μ of the distance stated
			mu /= 2
		}
		if mu > maxMu {
			return nil, tooFar(mu)
		}
		return gaussian{mu, s.Rate, replaceOne}, nil
	}
	return nil, nil
}

// ErrNoise says that there is too little Gaussian noise for a grid.
var ErrNoise = fmt.Errorf("cannot be certified together with sampling or other noise: raise it to %g or more, or use accountant rdp", 1./maxMu)

func tooFar(mu float64) error {
	return fmt.Errorf("accountant pld: so little Gaussian noise (a multiplier of %.3g) %w", 1/mu, ErrNoise)
}
