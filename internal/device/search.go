package device

import (
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Law is a distribution of a search's noise.
type Law uint8

const (
	GaussianLaw Law = iota // scales are standard deviations
	LaplaceLaw             // scales are b of the density e^(−|x|/b)/2b
)

// Search is the right to ask which query of a sum is the first above a noisy
// threshold (Queue.AboveThreshold). Only dpoptim/mechanism asks for one, as for
// Noise; the zero value is refused.
type Search struct {
	place
	law      Law
	baseline bool
	trials   int
}

// NewSearch makes the right to search with noise from s, in the counter range
// (Inputs.Draw, tensor), whose scales are the run's ThresholdStd and QueryStd.
// With a baseline the sum's first value is what all queries begin from, filled
// by LossSum. A search answers at most trials queries, any number for 0.
func NewSearch(s *stream.Stream, tensor uint32, law Law, baseline bool, trials int) Search {
	return Search{place: place{s, tensor}, law: law, baseline: baseline, trials: trials}
}

// Baseline says that the first value of a sum is the queries' baseline, and
// Trials is the most queries that a search answers, 0 for any number.
func (s Search) Baseline() bool { return s.baseline }
func (s Search) Trials() int    { return s.trials }

// Queries is how many queries a sum of so many values holds.
func (s Search) Queries(values int) int {
	if s.baseline {
		return values - 1
	}
	return values
}

// Law is the distribution of the search's noise.
func (s Search) Law() Law { return s.law }

// Decide compares the queries of a run with their noisy thresholds: the index
// of the first that is above, −1 for none. It defines what every device does.
//
// Query i of the run is above if query_i − bias_i + ν_i − λ ≥ 0. λ is noise number 0
// of (Draw, tensor) and ν_i number 1 + First + i, so that no noise depends on how a
// search is cut into runs. Sums, biases and noise are taken as real numbers, of
// which as many digits are computed as decide (exact.Reals): nothing is rounded, and
// what holds for a search with continuous noise holds for this one.
//
// A query that is a NaN would not be above; none is, for every share of a row is at
// most MostClip in magnitude.
func (s Search) Decide(in *Inputs, sums []float64) (int, error) {
	law := exact.Normal
	if s.law == LaplaceLaw {
		law = exact.Laplace
	}
	noise, err := exact.NewReals(law, s.stream, s.tensor)
	if err != nil {
		return 0, err
	}
	threshold, query := float64(in.Scalars[ThresholdStd]), float64(in.Scalars[QueryStd])
	base, queries := 0.0, sums
	if s.baseline {
		base, queries = sums[0], sums[1:]
	}
	for i, x := range queries {
		if s.baseline {
			x = -x
		}
		if noise.AtLeastZero(in.Draw, []float64{base, x, -in.Biases[i]},
			exact.Term{Scale: query, Draw: 1 + in.First + i}, exact.Term{Scale: -threshold}) {
			return i, nil
		}
	}
	return -1, nil
}
