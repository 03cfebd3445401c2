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
type Count struct{ gaussian Gaussian }

// NewCount makes noise of a standard deviation in counts, above 0. The tensor
// must be another than the gradient's, or recording the step of both is refused.
func NewCount(deviation float64, s *stream.Stream, tensor uint32) (*Count, error) {
	if !(deviation > 0) || math.IsInf(deviation, 0) {
		return nil, fmt.Errorf("noise of deviation %v on a count: must be a finite number above 0", deviation)
	}
	g, err := NewGaussian(deviation/CountBound, CountBound, 0, 1, s, tensor)
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	g.noise = g.noise.WithSlots(device.CountStd, device.CountStep)
	return &Count{*g}, nil
}

// Release records the release of a count, into a vector of one value.
func (c *Count) Release(q device.Queue, dst device.Vector, src device.Sum) {
	c.gaussian.Release(q, dst, src)
}

// Set gives a run the count's noise.
func (c *Count) Set(in *device.Inputs) { c.gaussian.set(in) }

// Event is a Gaussian of the multiplier, σ_b over the bound of ½.
func (c *Count) Event() accountant.Mechanism { return c.gaussian.Event() }
