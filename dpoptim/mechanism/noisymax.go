package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// NoisyMax tells which of some counts is the largest, and nothing else: report
// noisy max with exponential noise of mean 1/ε on each count (Dwork and Roth 2014,
// section 3.3; Ding et al. 2021, arXiv 2105.07260, shows that it is the
// permute-and-flip mechanism).
//
// The noisy counts are compared as real numbers (exact.Reals), without rounding. Each record adds 1 to one count or to none, so that adding or removing one
// moves counts in one direction by at most 1: (ε, 0)-private under add-remove
// without a factor of 2. Replacing a record is two such moves, as the accountant knows.
type NoisyMax struct {
	epsilon float64
	stream  *stream.Stream
	noise   *exact.Reals
}

// NewNoisyMax checks ε, above 0. The tensor must be no other mechanism's.
func NewNoisyMax(epsilon float64, s *stream.Stream, tensor uint32) (*NoisyMax, error) {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return nil, fmt.Errorf("epsilon %v of a noisy maximum: must be a finite number above 0", epsilon)
	}
	if s == nil {
		return nil, fmt.Errorf("a noisy maximum needs a noise stream")
	}
	noise, err := exact.NewReals(exact.Laplace, s, tensor)
	if err != nil {
		return nil, fmt.Errorf("a noisy maximum: %w", err)
	}
	return &NoisyMax{epsilon, s, noise}, nil
}

// Select draws at a noise position that nothing has used, and gives the index of
// the largest noisy count.
func (m *NoisyMax) Select(private device.Counts, draw uint64) (int, error) {
	counts := device.NewCounting(private)
	if len(counts) == 0 {
		return 0, fmt.Errorf("a noisy maximum of no counts: give at least one")
	}
	if err := claim(m.stream, draw, "a noisy maximum"); err != nil {
		return 0, err
	}
	scale, best := math.Nextafter(1/m.epsilon, math.Inf(1)), 0
	for i := 1; i < len(counts); i++ {
		if m.noise.AtLeastZero(draw, []float64{float64(counts[i]), -float64(counts[best])},
			exact.Term{Scale: scale, Draw: i, Magnitude: true}, exact.Term{Scale: -scale, Draw: best, Magnitude: true}) {
			best = i
		}
	}
	return best, nil
}

func (m *NoisyMax) Event() accountant.Mechanism { return accountant.Pure{Epsilon: m.epsilon} }
