package device

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/stream"
)

// Law is a distribution of a search's noise.
type Law uint8

const (
	GaussianLaw Law = iota // scales are standard deviations
	LaplaceLaw             // scales are b of the density e^(−|x|/b)/2b
)

// Search is the right to ask which query of a sum is the first above a noisy
// threshold (Queue.FirstAbove). Only dpoptim/mechanism asks for one, as for
// Noise; the zero value is refused.
type Search struct {
	stream   *stream.Stream
	tensor   uint32
	law      Law
	baseline bool
	least    bool
	trials   int
}

// NewSearch makes the right to search with noise from s, in the counter range
// (Inputs.Draw, tensor), whose scales are the run's ThresholdStd and QueryStd.
// With a baseline the sum's first value is what all queries begin from, filled
// by LossSum. A search answers at most trials queries, any number for 0.
func NewSearch(s *stream.Stream, tensor uint32, law Law, baseline bool, trials int) Search {
	return Search{stream: s, tensor: tensor, law: law, baseline: baseline, trials: trials}
}

// NewLeast makes the right to ask instead which value of a sum that LossSum
// filled, with its bias added, is the least, less noise from the exponential
// distribution of mean QueryStd: its number, and no threshold. It goes over one run.
func NewLeast(s *stream.Stream, tensor uint32) Search {
	return Search{stream: s, tensor: tensor, law: LaplaceLaw, least: true}
}

// Stream and Tensor say where an implementation draws.
func (s Search) Stream() *stream.Stream { return s.stream }
func (s Search) Tensor() uint32         { return s.tensor }

// Baseline says that the first value of a sum is the queries' baseline, and
// Trials is the most queries that a search answers, 0 for any number.
func (s Search) Baseline() bool { return s.baseline }

// Least says that the least value is asked for.
func (s Search) Least() bool { return s.least }
func (s Search) Trials() int { return s.trials }

// Claim takes a position of the search's stream, as Noise.Claim does.
func (s Search) Claim(draw uint64) bool { return s.stream.Claim(draw) }

// Queries is how many queries a sum of so many values holds.
func (s Search) Queries(values int) (int, error) {
	k := values
	if s.baseline {
		k--
	}
	if k < 1 || values > MaxCandidates {
		return 0, fmt.Errorf("a search over a sum of %d values: want 1 to %d, and one more than its queries where they share a baseline", values, MaxCandidates)
	}
	return k, nil
}

// Thresholds draws what the queries of a run are compared with: query i of the
// run is above if it is at least t[i] = bias_i + λ − ν_i. λ is noise number 0 of
// (Draw, tensor) and ν_i number 1 + First + i, so that no noise depends on how a
// search is cut into runs. With them the index of a search tells the private
// sums apart: they are for the comparison alone.
func (s Search) Thresholds(in *Inputs, t []float64) {
	var noise [MaxCandidates]float64
	threshold, query := float64(in.Scalars[ThresholdStd]), float64(in.Scalars[QueryStd])
	if s.least { // of the values added to them
		s.stream.Laplaces(noise[:len(t)], in.Draw, s.tensor, 0)
		for i := range t {
			t[i] = in.Biases[i] - query*math.Abs(noise[i])
		}
		return
	}
	draw := s.stream.Normals
	if s.law == LaplaceLaw {
		draw = s.stream.Laplaces
	}
	draw(noise[:1], in.Draw, s.tensor, 0)
	lambda := threshold * noise[0]
	draw(noise[:len(t)], in.Draw, s.tensor, 1+in.First)
	for i := range t {
		t[i] = in.Biases[i] + (lambda - query*noise[i])
	}
}

// FirstAbove compares the queries of a run with their thresholds: the index of
// the first that is above, −1 for none; or that of the least value. It is for devices that compare in the
// host's memory, and defines what others do. A query that is a NaN would not be
// above; none is, for every share of a row is at most MostClip in magnitude, and
// the noise is finite.
func FirstAbove[T float32 | float64](s Search, in *Inputs, src []T) int {
	var t [MaxCandidates]float64
	base := 0.0
	queries := src
	if s.baseline {
		base, queries = float64(src[0]), src[1:]
	}
	s.Thresholds(in, t[:len(queries)])
	if s.least {
		best := 0
		for i, x := range queries {
			if float64(x)+t[i] < float64(queries[best])+t[best] {
				best = i
			}
		}
		return best
	}
	for i, x := range queries {
		q := float64(x)
		if s.baseline {
			q = base - q
		}
		if q >= t[i] {
			return i
		}
	}
	return -1
}
