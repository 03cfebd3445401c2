package mechanism

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Norm adds normal noise to the norm of a sum of clipped gradients, beside the release
// of the sum itself. By the triangle inequality a record moves the norm by no more
// than it moves the sum: by C when it is added or removed, by 2C when it is
// replaced, which as everywhere is the accountant's to know. The squared norm, which
// Hong et al. 2021 release, has no public bound where the size of the batch is private,
// and 4(n−1)C² where it is n; this says the same with far less noise.
//
// Its event belongs into the batch's, with the gradient's.
type Norm struct {
	gaussian Gaussian
}

// normRounding is what rounding adds to the distance of two norms, for each gradient
// of a batch: twice that of device.Queue.Norm.
const normRounding = 0x1p-22

// NewNorm checks a multiplier (σ/C, above 0), the bound C and the rounding of sums of
// at most so many rows and of so many values: what underflow does to each moves the norm, too. The tensor must be another than the gradient's.
func NewNorm(multiplier, bound, rounding float64, rows, values int, s *stream.Stream, tensor uint32) (*Norm, error) {
	g, err := NewGaussian(multiplier, bound, rounding+normRounding*float64(rows), values, s, tensor)
	if err != nil {
		return nil, fmt.Errorf("norm of a sum: %w", err)
	}
	g.noise = g.noise.WithSlots(device.NormStd, device.NormStep)
	return &Norm{*g}, nil
}

// Release records the release of a norm, into a vector of one value.
func (m *Norm) Release(q device.Queue, dst device.Vector, src device.Sum) {
	m.gaussian.Release(q, dst, src)
}

// Set gives a run the norm's noise; the gradient's mechanism sets the clip norm.
func (m *Norm) Set(in *device.Inputs) { m.gaussian.set(in) }

// Event is a Gaussian of the multiplier.
func (m *Norm) Event() accountant.Mechanism { return m.gaussian.Event() }
