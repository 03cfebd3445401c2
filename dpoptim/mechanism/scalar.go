package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Scalar adds normal noise to one value, beside the release of the gradient of the same
// batch. Its event belongs into the batch's, with the gradient's: what is asked of one
// batch is composed first and amplified once. Its tensor must be another than the
// gradient's, or recording the step of both is refused.
type Scalar struct{ gaussian Gaussian }

// Release records the release, into a vector of one value.
func (s *Scalar) Release(q device.Queue, dst device.Vector, src device.Sum) {
	s.gaussian.Release(q, dst, src)
}

func (s *Scalar) Set(in *device.Inputs) { s.gaussian.set(in) }

// Event is a Gaussian of the multiplier: that of the norm, or σ_b over the count's bound.
func (s *Scalar) Event() accountant.Mechanism { return s.gaussian.Event() }

// CountBound is the most that one record adds to a centred count.
const CountBound = 0.5

// NewCount releases the centred count of Queue.CountedSum, with noise of a standard
// deviation in counts, above 0 (Andrew et al. 2021, algorithm 1).
// Each record's share is −½, 0 or ½: adding or removing one moves the count by
// at most ½, replacing one by at most 1.
//
// For a gradient of multiplier σ/C and a count of deviation σ_b, both are one Gaussian of
// multiplier (C²/σ² + 1/(4σ_b²))^−½ (theorem 1 there).
func NewCount(deviation float64, s *stream.Stream, tensor uint32) (*Scalar, error) {
	if !(deviation > 0) || math.IsInf(deviation, 0) {
		return nil, fmt.Errorf("noise of deviation %v on a count: must be a finite number above 0", deviation)
	}
	g, err := NewGaussian(deviation/CountBound, CountBound, 0, 1, 1, s, tensor)
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	g.noise = g.noise.WithSlots(device.CountStd, device.CountStep)
	return &Scalar{*g}, nil
}

// normRounding is what rounding adds to the distance of two norms, for each gradient
// of a batch: twice that of device.Queue.Norm.
const normRounding = 0x1p-22

// NewNorm releases the norm of a sum of clipped gradients, beside the sum itself, with
// noise of a multiplier (σ/C, above 0) times the bound C. By the triangle inequality a
// record moves the norm by no more than it moves the sum: by C when it is added or
// removed, by 2C when it is replaced. The squared norm, which Hong et al. 2021 release,
// has no public bound where the size of the batch is private, and 4(n−1)C² where it is n;
// this says the same with far less noise.
//
// The rounding is of sums of at most so many rows, of so many values and parts: what underflow
// does to each moves the norm, too, and so does the rounding of parts. The gradient's mechanism sets the clip norm.
func NewNorm(multiplier, bound, rounding float64, rows, values, parts int, s *stream.Stream, tensor uint32) (*Scalar, error) {
	g, err := NewGaussian(multiplier, bound, rounding+normRounding*float64(rows), values, parts, s, tensor)
	if err != nil {
		return nil, fmt.Errorf("norm of a sum: %w", err)
	}
	g.noise = g.noise.WithSlots(device.NormStd, device.NormStep)
	return &Scalar{*g}, nil
}
