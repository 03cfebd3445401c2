package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// CountBound is the most that one record adds to a centred count.
const CountBound = 0.5

// Count adds normal noise to the centred count of Queue.CountedSum, beside the
// release of the gradient of the same batch (Andrew et al. 2021, algorithm 1).
// Each record's share is −½, 0 or ½: adding or removing one moves the count by
// at most ½, replacing one by at most 1, which as everywhere is the
// accountant's to know.
//
// Its event belongs into the batch's, with the gradient's: what is asked of one
// batch is composed first and amplified once. For a gradient of multiplier σ/C
// and a count of deviation σ_b, both are one Gaussian of multiplier
// (C²/σ² + 1/(4σ_b²))^−½ (theorem 1 there).
type Count struct {
	multiplier float64
	noise      device.Noise
}

// NewCount makes noise of a standard deviation in counts, above 0. The tensor
// must be another than the gradient's, or recording the step of both is refused.
func NewCount(deviation float64, s *stream.Stream, tensor uint32) (*Count, error) {
	if !(deviation > 0) || math.IsInf(deviation, 0) {
		return nil, fmt.Errorf("noise of deviation %v on a count: must be a finite number above 0", deviation)
	}
	if s == nil {
		return nil, fmt.Errorf("the count needs a noise stream")
	}
	return &Count{deviation / CountBound, device.NewNoise(s, tensor).WithStd(device.CountStd)}, nil
}

// Release records the release of a count, into a vector of one value.
func (c *Count) Release(q device.Queue, dst device.Vector, src device.Sum) {
	q.Release(dst, src, c.noise)
}

// Set gives a run the count's noise, rounded up to float32.
func (c *Count) Set(in *device.Inputs) {
	in.Scalars[device.CountStd] = roundUp(c.multiplier * CountBound)
}

// Event is a Gaussian of the multiplier, σ_b over the bound of ½.
func (c *Count) Event() accountant.Mechanism {
	return accountant.Gaussian{NoiseMultiplier: c.multiplier}
}
