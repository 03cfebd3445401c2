package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// NoisyMin tells at which candidate the loss of a batch is least, and nothing
// else: report noisy max of the losses' negatives, with exponential noise of mean
// Δ/ε on each, Δ being the bound on a record's loss (Lee and Kifer 2018, section
// 4.1, NOISYMIN, there with Laplace noise).
//
// A record's clipped losses lie in [0, Δ], so that adding or removing one moves all
// sums in one direction by at most Δ: (ε, 0)-private under add-remove without a
// factor of 2, and public biases beside the sums change nothing of that. Replacing a record is two such moves, as the accountant knows.
type NoisyMin struct {
	epsilon, bound float64
	minimum        device.Minimum
}

// NewNoisyMin checks ε and the bound, both above 0. The tensor must be no other mechanism's.
func NewNoisyMin(epsilon, bound float64, s *stream.Stream, tensor uint32) (*NoisyMin, error) {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return nil, fmt.Errorf("epsilon %v of a noisy minimum: must be a finite number above 0", epsilon)
	}
	if !(bound > 0) || bound > device.MostClip {
		return nil, fmt.Errorf("bound %v on a record's loss: must be above 0 and at most %g", bound, float64(device.MostClip))
	}
	if s == nil {
		return nil, fmt.Errorf("a noisy minimum needs a noise stream")
	}
	return &NoisyMin{epsilon, bound, device.NewMinimum(s, tensor)}, nil
}

// NewUnprotectedMin is the minimum without noise: nothing that it tells is private.
func NewUnprotectedMin(bound float64, s *stream.Stream, tensor uint32) *NoisyMin {
	return &NoisyMin{math.Inf(1), bound, device.NewMinimum(s, tensor)}
}

func (m *NoisyMin) Test(q device.Queue, src device.Sum) { q.ArgMin(src, m.minimum) }

// Set gives a run the bound, the noise and the losses' grid, and biases of 0. On the
// grid sums have no rounding: a record moves all losses one way, by at most the bound.
func (m *NoisyMin) Set(in *device.Inputs) {
	setScales(in, m.bound, 0, 1/m.epsilon)
	in.First = 0
	clear(in.Biases[:])
}

// Event is a pure release of ε; nil of one without noise.
func (m *NoisyMin) Event() accountant.Mechanism {
	if math.IsInf(m.epsilon, 1) {
		return nil
	}
	return accountant.Pure{Epsilon: m.epsilon}
}
