package reproduce

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// An Estimate is a mean over seeds.
type Estimate struct {
	Mean, Err float64 // and its standard error
	N         int
}

// Mean is over what seeds found, in their order: a figure has the same digits each time.
func Mean(values map[int]float64) Estimate {
	e := Estimate{N: len(values)}
	if e.N == 0 {
		return Estimate{Mean: math.NaN(), Err: math.NaN()}
	}
	seeds := slices.Sorted(maps.Keys(values))
	for _, s := range seeds {
		e.Mean += values[s] / float64(e.N)
	}
	if e.N < 2 {
		e.Err = math.Inf(1) // one run says nothing of how others would end
		return e
	}
	sum := 0.0
	for _, s := range seeds {
		sum += (values[s] - e.Mean) * (values[s] - e.Mean)
	}
	e.Err = math.Sqrt(sum / float64(e.N-1) / float64(e.N))
	return e
}

// Difference is the mean of a − b, paired by seed.
func Difference(a, b map[int]float64) Estimate { return Mean(paired(a, b)) }

// paired gives a − b of the seeds that both have.
func paired(a, b map[int]float64) map[int]float64 {
	d := map[int]float64{}
	for seed, x := range a {
		if y, ok := b[seed]; ok {
			d[seed] = x - y
		}
	}
	return d
}

// Half is half the width of a two-sided 95% interval of the mean, by Student's t
// over seeds: the seeds' figures are taken as independent and normal.
func (e Estimate) Half() float64 { return e.quantile(0.975) }

// Open reports whether more seeds might settle a comparison: the half-width of its interval is
// more than half the effect, which is the one that a paper claims, or, where that is 0, the one
// that was found.
func (e Estimate) Open(effect float64) bool {
	return e.N > 0 && e.Half() > math.Abs(cmp.Or(effect, e.Mean))/2
}

// Bounds are one-sided: each holds with 95% confidence by itself.
func (e Estimate) Bounds() (lower, upper float64) {
	h := e.quantile(0.95)
	return e.Mean - h, e.Mean + h
}

func (e Estimate) quantile(p float64) float64 {
	if e.N < 2 || e.Err == 0 {
		return e.Err
	}
	return distuv.StudentsT{Sigma: 1, Nu: float64(e.N - 1)}.Quantile(p) * e.Err
}

// Percent writes an accuracy with its interval.
func (e Estimate) Percent() string { return e.text(100, "%.2f", "%.2f") }

// Number writes any other figure with its interval.
func (e Estimate) Number() string { return e.text(1, "%.4g", "%.2g") }

// Points writes a difference of accuracies.
func (e Estimate) Points() string { return e.text(100, "%+.2f", "%.2f") }

// text writes the mean, and half the width of its interval where that is finite.
func (e Estimate) text(scale float64, mean, half string) string {
	switch {
	case e.N == 0:
		return "–"
	case math.IsInf(e.Half(), 0):
		return fmt.Sprintf(mean, scale*e.Mean)
	}
	return fmt.Sprintf(mean+" ± "+half, scale*e.Mean, scale*e.Half())
}

// An Interval is a median with a 95% interval.
type Interval struct {
	Median, Low, High float64
	N                 int
}

// MedianDifference is the median of a − b, paired by seed.
func MedianDifference(a, b map[int]float64) Interval {
	return medianOf(slices.Sorted(maps.Values(paired(a, b))))
}

// medianOf gives the interval between the k-th least and the k-th largest of sorted
// values, for the largest k that the median is below or above with at most 2.5% chance
// each: whatever the values' law. Few values say nothing.
func medianOf(sorted []float64) Interval {
	n := len(sorted)
	m := Interval{Median: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), N: n}
	if n == 0 {
		return m
	}
	m.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	// The median lies below the k-th least where fewer than k of n fair coins show heads.
	coins := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for k < n/2 && coins.CDF(float64(k)) <= 0.025 {
		k++
	}
	if k > 0 {
		m.Low, m.High = sorted[k-1], sorted[n-k]
	}
	return m
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
