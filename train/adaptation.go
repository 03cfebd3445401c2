package train

import (
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/perexample"
)

// Adaptation moves an engine's clip norm by a noisy count of its batches'
// gradients.
type Adaptation struct {
	Rule          perexample.Adaptive
	Count         *mechanism.Count
	ExpectedBatch float64
	// Clip is the next step's clip norm. It follows from the first one and from
	// released counts alone: public, and part of a checkpoint.
	Clip float64

	private  device.Sum
	released device.Vector
}

// open makes room for the count.
func (a *Adaptation) open(n device.Net) (err error) {
	if a.private, err = n.NewScalarSum(1); err != nil {
		return err
	}
	a.released, err = n.NewScalars(1)
	return err
}

// follow takes in what the last step released.
func (a *Adaptation) follow(n device.Net) error {
	count := make([]float32, 1)
	if err := n.Read(a.released, count); err != nil {
		return err
	}
	a.Clip = a.Rule.Next(a.Clip, float64(count[0]), a.ExpectedBatch)
	return nil
}
