package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// NoisyBTLS is the sparse-vector line search of Chen and Lee 2020 (algorithm 1):
// queries of one batch are asked in turn, and the first with q_i + ν_i ≥ bias_i + λ
// is told by its number, or that there is none. Nothing else leaves the device.
//
// A query is a decrease of loss, and its bias what Armijo's rule asks of it, both
// summed over a batch. The queries share a baseline if they are differences of losses
// clipped to [0, Δ] (device.LossSum, whose first candidate is a step of 0), and are generic
// if every difference is clipped to [−Δ, Δ] (device.LossDecrease), Δ being the bound.
// Biases must be functions of public and released values alone.
//
// Privacy, under add-remove: a record moves generic queries by a vector in
// [−Δ, Δ]^K, and those of a shared baseline by one in [(a−1)Δ, aΔ]^K for one
// a ∈ [0, 1]. docs/proofs/line-search.md derives from that what a search costs, whatever
// the biases and whichever index is told. The paper's theorem 1 (Laplace noise)
// holds and its theorem 2 has no proof; theorem 3 (Gaussian noise) is false in
// general and never used. Replacing a record moves the queries by twice as much,
// which the accountant knows.
//
// The event is one search of at most MaxTrials queries, paid whether an index is found
// or not. It belongs into the batch's event, with all else that is asked of the batch.
type NoisyBTLS struct {
	c      accountant.NoisyBTLS
	bound  float64
	search device.Search
}

// NewNoisyBTLS checks the search c, whose scales are in units of the bound, and
// the bound (above 0). A cap on the trials is needed but for Laplace noise. As with
// NewGaussian each mechanism of a stream needs a tensor of its own.
func NewNoisyBTLS(c accountant.NoisyBTLS, bound float64, s *stream.Stream, tensor uint32) (*NoisyBTLS, error) {
	if err := (accountant.Event{Mechanisms: []accountant.Mechanism{c}, Count: 1}).Validate(); err != nil {
		return nil, err
	}
	if c.Noise == accountant.BTLSGaussian && c.MaxTrials == 0 {
		return nil, fmt.Errorf("a line search with Gaussian noise and no cap on its trials: nothing bounds its cost; set max_trials, or choose %s noise", accountant.BTLSLaplace)
	}
	if !(bound > 0) || bound > device.MostClip {
		return nil, fmt.Errorf("bound %v on a record's share of a line search: must be above 0 and at most %g", bound, float64(device.MostClip))
	}
	if s == nil {
		return nil, fmt.Errorf("the line search needs a noise stream")
	}
	law := device.GaussianLaw
	if c.Noise == accountant.BTLSLaplace {
		law = device.LaplaceLaw
	}
	return &NoisyBTLS{c, bound, device.NewSearch(s, tensor, law, c.Queries == accountant.SharedBaseline, c.MaxTrials)}, nil
}

// Query asks for the losses that k queries of a search are made of, in a sum of as
// many values as it says.
func (b *NoisyBTLS) Query(at, dir device.Vector, k int) device.LossQuery {
	if b.search.Baseline() {
		return device.LossQuery{At: at, Dir: dir, K: k + 1, Form: device.LossSum}
	}
	return device.LossQuery{At: at, Dir: dir, K: k, Form: device.LossDecrease}
}

// Ask gives a run the search's queries from number first on, by their step sizes and
// biases. Where the step asks more, the rest are never above.
func (b *NoisyBTLS) Ask(in *device.Inputs, first int, etas []float32, biases []float64) {
	in.First = first
	for i := range in.Biases {
		in.Candidates[i], in.Biases[i] = 0, math.Inf(1)
	}
	candidates := in.Candidates[:]
	if b.search.Baseline() {
		candidates = candidates[1:] // behind the step of 0
	}
	copy(candidates, etas)
	copy(in.Biases[:], biases)
}

func (b *NoisyBTLS) Test(q device.Queue, src device.Sum) { q.AboveThreshold(src, b.search) }

func (b *NoisyBTLS) Set(in *device.Inputs) {
	setScales(in, b.bound, b.c.ThresholdScale, b.c.QueryScale)
}

// setScales gives a run a bound, and noise scales in units of the bound as float32 has
// it, rounded up. More noise of either kind never costs more, as it could be added to what
// is there. Where there is noise, losses are truncated to a grid, on which sums have no
// rounding: a record moves a value by at most the bound.
func setScales(in *device.Inputs, bound, threshold, query float64) {
	clip := float32(bound)
	scale := func(multiple float64) float32 {
		return roundUp(multiple * float64(clip) * (1 + 0x1p-50)) // the factor is for the roundings of the product and of the multiple
	}
	in.Scalars[device.Clip], in.Scalars[device.NoiseStep] = clip, 0
	if max(threshold, query) > 0 {
		in.Scalars[device.NoiseStep] = float32(stepOf(math.Max(float64(clip)*gridDigits, leastStep)))
	}
	in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd] = scale(threshold), scale(query)
}

// Deviation is the standard deviation of the noise of one comparison, ν_i − λ, in
// the unit of the loss: public, for margins.
func (b *NoisyBTLS) Deviation() float64 {
	unit := b.bound
	if b.c.Noise == accountant.BTLSLaplace {
		unit *= math.Sqrt2
	}
	return unit * math.Hypot(b.c.ThresholdScale, b.c.QueryScale)
}

// Event is the search; nil of one without noise, whose cost no accountant can bound.
func (b *NoisyBTLS) Event() accountant.Mechanism {
	if b.c.ThresholdScale == 0 {
		return nil
	}
	return b.c
}
