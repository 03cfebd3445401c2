package dpoptim

import (
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
)

var _ Optimizer = (*SGD)(nil)

// SGD is stochastic gradient descent with heavy-ball momentum, m = μm + g,
// w −= ηm. With the Gaussian mechanism it is DP-SGD (Abadi et al. 2016).
type SGD struct {
	config Config
	rule   device.Rule
	state  []device.Vector
}

// NewSGD allocates the momentum where there is one.
func NewSGD(n device.Net, c Config) (*SGD, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	o := &SGD{config: c, rule: device.SGD}
	if c.Momentum > 0 {
		o.rule = device.HeavyBall
	}
	var err error
	o.state, err = newStates(n, o.rule)
	return o, err
}

// Record adds the update to a step.
func (o *SGD) Record(q device.Queue, params device.Vector, g mechanism.Noisy) error {
	return record(q, o.rule, params, g, o.state)
}

// Set gives a run the constant settings.
func (o *SGD) Set(in *device.Inputs, _ int) {
	o.config.set(in)
	in.Scalars[device.Momentum] = float32(o.config.Momentum)
}

// State is the momentum, if any.
func (o *SGD) State() []State { return plain(o.state) }
