package reproduce

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// An Estimate is a mean over seeds.
type Estimate struct {
	Mean, Err float64 // and its standard error
	N         int
}

// Mean is over what seeds found.
func Mean(values map[int]float64) Estimate {
	e := Estimate{N: len(values)}
	if e.N == 0 {
		return Estimate{Mean: math.NaN(), Err: math.NaN()}
	}
	// In a fixed order, so that a figure has the same digits each time.
	seeds := make([]int, 0, e.N)
	for s := range values {
		seeds = append(seeds, s)
	}
	slices.Sort(seeds)
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

// Difference pairs a and b by seed.
func Difference(a, b map[int]float64) Estimate {
	d := map[int]float64{}
	for seed, x := range a {
		if y, ok := b[seed]; ok {
			d[seed] = x - y
		}
	}
	return Mean(d)
}

// Half is half the width of a two-sided 95 % interval of the mean, by Student's t
// over seeds: the seeds' figures are taken as independent and normal.
func (e Estimate) Half() float64 { return e.quantile(0.975) }

// Bounds are one-sided: each holds with 95 % confidence by itself.
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
func (e Estimate) Percent() string {
	switch {
	case e.N == 0:
		return "–"
	case math.IsInf(e.Half(), 0):
		return fmt.Sprintf("%.2f", 100*e.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", 100*e.Mean, 100*e.Half())
}

// Number writes any other figure with its interval.
func (e Estimate) Number() string {
	switch {
	case e.N == 0:
		return "–"
	case math.IsInf(e.Half(), 0):
		return fmt.Sprintf("%.4g", e.Mean)
	}
	return fmt.Sprintf("%.4g ± %.2g", e.Mean, e.Half())
}

// Points writes a difference of accuracies.
func (e Estimate) Points() string {
	if math.IsInf(e.Half(), 0) {
		return fmt.Sprintf("%+.2f", 100*e.Mean)
	}
	return fmt.Sprintf("%+.2f ± %.2f", 100*e.Mean, 100*e.Half())
}
