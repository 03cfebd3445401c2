package dpoptim

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
)

var _ Optimizer = (*Average)(nil)

// Average is an optimizer with an exponential moving average of its parameters
// beside it. The average is of released values, so that it costs no privacy, and
// nothing learns from it. It starts at the initial parameters, and update t from
// 1 on makes it d·average + (1−d)·parameters with
//
//	d = min(decay, (1+t)/(10+t)),
//
// so that the first updates do not leave it near its start. The ramp is that of
// TensorFlow's ExponentialMovingAverage with num_updates; De et al. 2022 average
// private training so.
type Average struct {
	Optimizer
	decay   float64
	average device.Vector
}

// NewAverage makes room for the average; decay lies in (0, 1).
func NewAverage(n device.Net, o Optimizer, decay float64) (*Average, error) {
	if !(decay > 0) || decay >= 1 {
		return nil, fmt.Errorf("average %v: must be a decay in (0, 1), or 0 for no average", decay)
	}
	v, err := n.NewVector(1)
	if err != nil {
		return nil, fmt.Errorf("average of the parameters: %w", err)
	}
	return &Average{Optimizer: o, decay: decay, average: v}, nil
}

// Vector is the average, which a run starts at the initial parameters and a
// checkpoint must hold.
func (a *Average) Vector() device.Vector { return a.average }

// Record adds the update, and that of the average, to a step.
func (a *Average) Record(q device.Queue, params device.Vector, g mechanism.Noisy) error {
	if err := a.Optimizer.Record(q, params, g); err != nil {
		return err
	}
	q.Update(device.Average, a.average, params)
	return nil
}

// Set gives a run the weight of its parameters in the average.
func (a *Average) Set(in *device.Inputs, t int) {
	a.Optimizer.Set(in, t)
	decay := math.Min(a.decay, float64(1+t)/float64(10+t))
	in.Scalars[device.Blend] = float32(1 - decay)
}
