package prv

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Noise is the distribution of what is added to a release.
type Noise int

const (
	GaussianNoise Noise = iota
	LaplaceNoise
)

// Step is Count releases of a noisy number or vector, each on records drawn afresh.
type Step struct {
	Noise Noise
	// Size is how far one record, added or removed, moves the release at most:
	// in standard deviations for Gaussian noise (μ = C/σ), in scales b for
	// Laplace noise (the release's pure ε). Above 0, at most 20.
	Size  float64
	Rate  float64 // probability of each record to be in, independently; 1: every record
	Count int
}

// Result is an interval that holds the exact value, and an estimate in it. The
// interval is proved but for the rounding errors of the Fourier transform, for which
// it allows ten times the largest seen over the schedules of this package's tests.
type Result struct{ Lower, Estimate, Upper float64 }

// Limits of what can be computed.
const (
	minDelta = 1e-11 // below, rounding in the transform would decide
	maxSize  = 20    // above, exponentials overflow; the releases would hide nothing
	maxCount = 1e9   // of all releases together, so that counts are exact in float64
)

// shareOfDelta is δ_error over δ.
const shareOfDelta = 1e-3

// Epsilon gives ε at δ of the composed steps: under add-remove, or under
// replace-one. Poisson-sampled Laplace releases under replace-one are refused.
func Epsilon(steps []Step, replaceOne bool, delta float64) (Result, error) {
	if !(delta > 0) || delta >= 1 {
		return Result{}, fmt.Errorf("delta %v: must be in (0, 1)", delta)
	}
	if delta < minDelta {
		return Result{}, fmt.Errorf("delta %v: accountant prv works in double precision and cannot resolve a delta below %g: use pld", delta, minDelta)
	}
	lists, err := directions(steps, replaceOne)
	if err != nil {
		return Result{}, err
	}
	// By Rényi divergence, which is above ε by a few per cent: the worse direction first.
	bounds := make([]float64, len(lists))
	for i, l := range lists {
		bounds[i] = l.divergence(delta)
	}
	if len(lists) > 1 && bounds[1] > bounds[0] {
		slices.Reverse(lists)
		slices.Reverse(bounds)
	}
	// Where ε is small against what one release can lose, the bound is far above it; a lattice of a few cells is not.
	about := bounds[0]
	if few, err := lists[0].compose(shareOfDelta*delta, about, fewCells); err == nil {
		about = math.Min(about, few.epsilon(delta))
	}
	var worst Result
	for i, l := range lists {
		if bounds[i] <= worst.Lower {
			continue
		}
		c, err := l.compose(shareOfDelta*delta, about, l.cells())
		if err != nil {
			return Result{}, err
		}
		if c.deltaError > delta/4 {
			return Result{}, fmt.Errorf("delta %v over %.0f releases: rounding in accountant prv may reach %.2g: raise delta or use pld", delta, c.count, rounding(c.count))
		}
		worst = worst.or(Result{
			Lower:    c.epsilon(delta+c.deltaError) - c.epsilonError,
			Estimate: c.epsilon(delta),
			Upper:    c.epsilon(delta-c.deltaError) + c.epsilonError,
		})
	}
	return worst, nil
}

// Delta gives δ at ε of the composed steps, like Epsilon. A δ below 1e-11 is refused.
func Delta(steps []Step, replaceOne bool, epsilon float64) (Result, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 0) {
		return Result{}, fmt.Errorf("epsilon %v: must be a finite number, 0 or more", epsilon)
	}
	lists, err := directions(steps, replaceOne)
	if err != nil {
		return Result{}, err
	}
	var worst Result
	for _, l := range lists {
		bound := l.probability(epsilon)
		if bound < minDelta {
			worst = worst.or(Result{Upper: bound})
			continue
		}
		// The bound is up to tens of times δ.
		about := bound
		if few, err := l.compose(math.Max(shareOfDelta*bound, minDelta), epsilon, fewCells); err == nil {
			about = math.Min(about, math.Max(few.delta(epsilon), minDelta))
		}
		c, err := l.compose(shareOfDelta*about, epsilon, l.cells())
		if err != nil {
			return Result{}, err
		}
		worst = worst.or(Result{
			Lower:    c.delta(epsilon+c.epsilonError) - c.deltaError,
			Estimate: c.delta(epsilon),
			Upper:    math.Min(1, c.delta(epsilon-c.epsilonError)+c.deltaError),
		})
	}
	if worst.Estimate < math.Max(minDelta, 4*rounding(lists[0].count())) {
		return Result{}, fmt.Errorf("epsilon %v: its delta is at most %.2g, which accountant prv cannot resolve in double precision: lower epsilon or use pld", epsilon, worst.Upper)
	}
	return worst, nil
}

// or is the larger of two results, number by number.
func (r Result) or(s Result) Result {
	return Result{math.Max(r.Lower, s.Lower), math.Max(r.Estimate, s.Estimate), math.Max(r.Upper, s.Upper)}
}

// directions checks the steps, joins equal ones, and makes the variables of
// one record removed and of one added; only the first where both are the same.
func directions(steps []Step, replaceOne bool) ([]list, error) {
	if len(steps) == 0 {
		return nil, errors.New("there is no step to account for")
	}
	counts := map[Step]float64{} // of steps that are equal but for their own counts
	var kinds []Step
	total := 0.0
	for i, s := range steps {
		if err := s.validate(replaceOne); err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		count := float64(s.Count)
		s.Count = 0
		if counts[s] == 0 {
			kinds = append(kinds, s)
		}
		counts[s] += count
		if total += count; total > maxCount {
			return nil, fmt.Errorf("more than %.0g releases in all: accountant prv does not go that far, use pld", float64(maxCount))
		}
	}
	limit := math.Inf(1)
	for _, k := range kinds {
		limit = math.Min(limit, maxTilt(k.Size, k.Rate))
	}
	var removed, added list
	for _, k := range kinds {
		l := loss{noise: k.Noise, rate: k.Rate, size: k.Size, replace: replaceOne}
		if replaceOne && k.Rate == 1 {
			l.size, l.replace = 2*l.size, false
		}
		removed = append(removed, newVariable(l, false, counts[k], limit))
		if !replaceOne {
			added = append(added, newVariable(l, true, counts[k], limit))
		}
	}
	if replaceOne || !slices.ContainsFunc(kinds, func(k Step) bool { return k.Rate < 1 }) {
		return []list{removed}, nil
	}
	return []list{removed, added}, nil
}

func (s Step) validate(replaceOne bool) error {
	switch {
	case s.Noise != GaussianNoise && s.Noise != LaplaceNoise:
		return fmt.Errorf("noise %d: choose GaussianNoise or LaplaceNoise", s.Noise)
	case !(s.Size > 0 && s.Size <= maxSize):
		return fmt.Errorf("size %v of a release over its noise: accountant prv needs a number above 0 and at most %d; add noise, or use pld", s.Size, maxSize)
	case !(s.Rate > 0 && s.Rate <= 1):
		return fmt.Errorf("sampling rate %v: must be in (0, 1]", s.Rate)
	case s.Count < 1:
		return fmt.Errorf("count %d: must be 1 or more", s.Count)
	case s.Noise == LaplaceNoise && replaceOne && s.Rate < 1:
		return fmt.Errorf("laplace noise on a Poisson batch at rate %v under replace-one: accountant prv has no pair for it; use add-remove, or rate 1", s.Rate)
	}
	return nil
}
