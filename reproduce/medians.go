package reproduce

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Differences pairs a and b by seed.
func Differences(a, b map[int]float64) (all []float64) {
	for seed, x := range a {
		if y, ok := b[seed]; ok {
			all = append(all, x-y)
		}
	}
	slices.Sort(all)
	return all
}

// An Interval is a median with a 95 % interval.
type Interval struct {
	Median, Low, High float64
	N                 int
}

// MedianOf gives the interval between the k-th least and the k-th largest of sorted
// values, for the largest k that the median is below or above with at most 2.5 % chance
// each: whatever the values' law. Few values say nothing.
func MedianOf(sorted []float64) Interval {
	n := len(sorted)
	m := Interval{Median: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), N: n}
	if n == 0 {
		return m
	}
	m.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	if k := medianOrder(n); k > 0 {
		m.Low, m.High = sorted[k-1], sorted[n-k]
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

func (m Interval) String() string {
	switch {
	case m.N == 0:
		return "–"
	case math.IsInf(m.Low, 0):
		return fmt.Sprintf("%+.4g", m.Median)
	}
	return fmt.Sprintf("%+.4g [%+.4g, %+.4g]", m.Median, m.Low, m.High)
}

// Medians counts those whose interval leaves 0 out.
type Medians struct{ below, above, total int }

// Add takes another; one without figures does not count.
func (c *Medians) Add(m Interval) {
	if m.N == 0 {
		return
	}
	c.total++
	if m.High < 0 {
		c.below++
	}
	if m.Low > 0 {
		c.above++
	}
}

// Claim judges "lower at every one".
func (c Medians) Claim(claim string) Claim {
	verdict := Undecided
	switch {
	case c.total == 0:
		verdict = Unmeasured
	case c.below == c.total:
		verdict = Agrees
	case c.above > 0:
		verdict = Contradicts
	}
	return Claim{claim, fmt.Sprintf("median of the paired differences below 0 at %d, above 0 at %d, undecided at %d of %d", c.below, c.above, c.total-c.below-c.above, c.total), verdict}
}
