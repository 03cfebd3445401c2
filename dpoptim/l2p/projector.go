package l2p

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
)

// projector is an optimizer whose steps a coordinate-wise LSTM makes of noised
// gradients: θ += rate·y.
type projector struct {
	lstm           device.LSTM
	setting        Setting
	rate, l2       float64
	weights, state device.Vector

	// Released is what the step to come may know. A step that it is not of spends its
	// part of a budget that is spent evenly.
	Released Released
}

// newProjector puts the learned projector of p on a network. Rate multiplies its output,
// and l2 is the weight λ of a penalty λ/2·‖w‖² outside the clipping.
func newProjector(n dpoptim.Engine, p *Protector, s Setting, rate, l2 float64) (*projector, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	o := &projector{lstm: p.Card.Projector.LSTM(ProjectorContext), setting: s, rate: rate, l2: l2}
	var err error
	if o.weights, err = n.NewScalars(o.lstm.Weights()); err == nil {
		o.state, err = n.NewVector(o.lstm.States())
	}
	if err == nil {
		err = n.Write(o.weights, p.Projector)
	}
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	return o, nil
}

func (o *projector) Record(q dpoptim.Queue, params dpoptim.Vector, g dpoptim.Noisy) error {
	v, err := g.Vector()
	if err != nil {
		return err
	}
	q.Project(o.lstm, params, v, o.weights, o.state)
	return nil
}

// Set gives a run the unit of its gradient and the public figures of its step; the
// mechanism has set the noise.
func (o *projector) Set(s *dpoptim.Scalars, t int) {
	known := o.Released
	if known.Step != t {
		known = Released{Step: t, Left: math.Max(1-float64(t-1)/float64(o.setting.Steps), 0)}
	}
	multiplier := float64(s[device.NoiseStd]) / o.setting.Clip
	s[device.Rate] = float32(o.rate)
	s[device.Scale] = float32(1 / o.setting.Batch)
	s[device.L2] = float32(o.l2)
	s[device.Gain] = float32(o.setting.Gain(multiplier))
	for i, x := range o.setting.Context(known, multiplier) {
		s[device.Context+device.Slot(i)] = float32(x)
	}
}

func (o *projector) State() []dpoptim.State {
	return []dpoptim.State{{Vector: o.state, Width: o.lstm.States()}}
}
