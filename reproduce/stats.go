package reproduce

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// estimate is a mean over seeds.
type estimate struct {
	mean, err float64 // and its standard error
	n         int
}

func mean(values map[int]float64) estimate {
	e := estimate{n: len(values)}
	if e.n == 0 {
		return estimate{mean: math.NaN(), err: math.NaN()}
	}
	// In a fixed order, so that a figure has the same digits each time.
	seeds := make([]int, 0, e.n)
	for s := range values {
		seeds = append(seeds, s)
	}
	slices.Sort(seeds)
	for _, s := range seeds {
		e.mean += values[s] / float64(e.n)
	}
	if e.n < 2 {
		e.err = math.Inf(1) // one run says nothing of how others would end
		return e
	}
	sum := 0.0
	for _, s := range seeds {
		sum += (values[s] - e.mean) * (values[s] - e.mean)
	}
	e.err = math.Sqrt(sum / float64(e.n-1) / float64(e.n))
	return e
}

// difference pairs a and b by seed.
func difference(a, b map[int]float64) estimate {
	d := map[int]float64{}
	for seed, x := range a {
		if y, ok := b[seed]; ok {
			d[seed] = x - y
		}
	}
	return mean(d)
}

// half is half the width of a two-sided 95 % interval of the mean, by Student's t
// over seeds: the seeds' figures are taken as independent and normal.
func (e estimate) half() float64 { return e.quantile(0.975) }

// bounds are one-sided: each holds with 95 % confidence by itself.
func (e estimate) bounds() (lower, upper float64) {
	h := e.quantile(0.95)
	return e.mean - h, e.mean + h
}

func (e estimate) quantile(p float64) float64 {
	if e.n < 2 || e.err == 0 {
		return e.err
	}
	return distuv.StudentsT{Sigma: 1, Nu: float64(e.n - 1)}.Quantile(p) * e.err
}

// percent writes an accuracy with its interval.
func (e estimate) percent() string {
	switch {
	case e.n == 0:
		return "–"
	case math.IsInf(e.half(), 0):
		return fmt.Sprintf("%.2f", 100*e.mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", 100*e.mean, 100*e.half())
}

func (e estimate) number() string {
	switch {
	case e.n == 0:
		return "–"
	case math.IsInf(e.half(), 0):
		return fmt.Sprintf("%.4g", e.mean)
	}
	return fmt.Sprintf("%.4g ± %.2g", e.mean, e.half())
}

// The verdicts on a claim.
const (
	agrees      = "agrees"
	contradicts = "contradicts"
	undecided   = "undecided"
	unmeasured  = "not measured"
)

// A Claim is what a paper says, in our words, beside what was found.
type Claim struct {
	Claim   string `json:"claim"`
	Found   string `json:"found"`
	Verdict string `json:"verdict"`
}

// tally counts paired comparisons whose 95 % interval leaves 0 out.
type tally struct{ above, below, total int }

func (t *tally) add(d estimate) {
	if d.n == 0 {
		return
	}
	t.total++
	switch h := d.half(); {
	case d.mean-h > 0:
		t.above++
	case d.mean+h < 0:
		t.below++
	}
}

func (t tally) String() string {
	if t.total == 0 {
		return "no comparison"
	}
	return fmt.Sprintf("better at %d, worse at %d, undecided at %d of %d", t.above, t.below, t.total-t.above-t.below, t.total)
}

// mostly is the verdict on "better in most cases".
func (t tally) mostly() string {
	switch {
	case t.total == 0:
		return unmeasured
	case 2*t.above > t.total:
		return agrees
	case 2*t.below > t.total:
		return contradicts
	}
	return undecided
}

// differences pairs a and b by seed.
func differences(a, b map[int]float64) (all []float64) {
	for seed, x := range a {
		if y, ok := b[seed]; ok {
			all = append(all, x-y)
		}
	}
	slices.Sort(all)
	return all
}

// interval is a median with a 95 % interval.
type interval struct {
	median, low, high float64
	n                 int
}

// medianOf gives the interval between the k-th least and the k-th largest of sorted
// values, for the largest k that the median is below or above with at most 2.5 % chance
// each: whatever the values' law. Few values say nothing.
func medianOf(sorted []float64) interval {
	n := len(sorted)
	m := interval{median: math.NaN(), low: math.Inf(-1), high: math.Inf(1), n: n}
	if n == 0 {
		return m
	}
	m.median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	if k := medianOrder(n); k > 0 {
		m.low, m.high = sorted[k-1], sorted[n-k]
	}
	return m
}

// medianOrder is that k, 0 where there is none: the median lies below the k-th least of n where fewer
// than k of n fair coins show heads.
func medianOrder(n int) int {
	coins := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for k < n/2 && coins.CDF(float64(k)) <= 0.025 {
		k++
	}
	return k
}

func (m interval) String() string {
	switch {
	case m.n == 0:
		return "–"
	case math.IsInf(m.low, 0):
		return fmt.Sprintf("%+.4g", m.median)
	}
	return fmt.Sprintf("%+.4g [%+.4g, %+.4g]", m.median, m.low, m.high)
}

// medians counts those whose interval leaves 0 out.
type medians struct{ below, above, total int }

func (c *medians) add(m interval) {
	if m.n == 0 {
		return
	}
	c.total++
	if m.high < 0 {
		c.below++
	}
	if m.low > 0 {
		c.above++
	}
}

// claim judges "lower at every one".
func (c medians) claim(claim string) Claim {
	verdict := undecided
	switch {
	case c.total == 0:
		verdict = unmeasured
	case c.below == c.total:
		verdict = agrees
	case c.above > 0:
		verdict = contradicts
	}
	return Claim{claim, fmt.Sprintf("median of the paired differences below 0 at %d, above 0 at %d, undecided at %d of %d", c.below, c.above, c.total-c.below-c.above, c.total), verdict}
}
