package engine

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// Adaptation moves an engine's clip norm by a noisy count of its batches'
// gradients.
type Adaptation struct {
	Rule perexample.Adaptive
	// Clip is the next step's clip norm. It follows from the first one and from
	// released counts alone: public, and part of a checkpoint.
	Clip float64
	// Count is the last one that was released, 0 before the first.
	Count float64

	count    *mechanism.Scalar
	batch    float64
	private  device.Sum
	released device.Vector
}

// CountNoise is the price of one count where so many records are expected in a batch.
func CountNoise(expectedBatch float64) accountant.Gaussian {
	return accountant.Gaussian{NoiseMultiplier: perexample.CountDeviation(expectedBatch) / mechanism.CountBound}
}

func NewAdaptation(rule perexample.Adaptive, clip, expectedBatch float64, s *stream.Stream) (*Adaptation, error) {
	count, err := mechanism.NewCount(CountNoise(expectedBatch).NoiseMultiplier*mechanism.CountBound, s, countNoise)
	return &Adaptation{Rule: rule, Clip: clip, count: count, batch: expectedBatch}, err
}

func (a *Adaptation) open(n device.Net) (err error) {
	if a.private, err = n.NewScalarSum(1); err != nil {
		return err
	}
	a.released, err = n.NewScalars(1)
	return err
}

func (a *Adaptation) follow(n device.Net) error {
	count := make([]float32, 1)
	if err := n.Read(a.released, count); err != nil {
		return err
	}
	a.Count = float64(count[0])
	a.Clip = a.Rule.Next(a.Clip, a.Count, a.batch)
	return nil
}
