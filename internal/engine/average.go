package engine

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
)

// average is an exponential moving average of the parameters: of released values, and
// nothing learns from it. It starts at the initial parameters, and update t from 1 on
// makes it d·average + (1−d)·parameters with
//
//	d = min(decay, (1+t)/(10+t)),
//
// so that the first updates do not leave it near its start. The ramp is that of
// TensorFlow's ExponentialMovingAverage with num_updates; De et al. 2022 average
// private training so.
type average struct {
	decay  float64
	vector device.Vector
}

func newAverage(n device.Net, decay float64) (*average, error) {
	if !(decay > 0) || decay >= 1 {
		return nil, fmt.Errorf("average %v: must be a decay in (0, 1), or 0 for no average", decay)
	}
	v, err := n.NewVector(1)
	if err != nil {
		return nil, fmt.Errorf("average of the parameters: %w", err)
	}
	return &average{decay: decay, vector: v}, nil
}

// set gives a run the weight of its parameters in the average.
func (a *average) set(s *[device.Slots]float32, t int) {
	decay := min(a.decay, float64(1+t)/float64(10+t))
	s[device.Blend] = float32(1 - decay)
}
