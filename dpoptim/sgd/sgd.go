package sgd

import (
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
)

var _ dpoptim.Optimizer = (*SGD)(nil)

// SGD is stochastic gradient descent with heavy-ball momentum, m = μm + g,
// w −= ηm. With the Gaussian mechanism it is DP-SGD (Abadi et al. 2016).
type SGD struct {
	config Config
	rule   device.Rule
	state  []dpoptim.Vector
}

// NewSGD allocates the momentum where there is one.
func NewSGD(n dpoptim.Vectors, c Config) (*SGD, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	o := &SGD{config: c, rule: device.SGD}
	if c.Momentum > 0 {
		o.rule = device.HeavyBall
	}
	var err error
	o.state, err = dpoptim.NewStates(n, o.rule)
	return o, err
}

// Record adds the update to a step.
func (o *SGD) Record(q dpoptim.Queue, params dpoptim.Vector, g dpoptim.Noisy) error {
	return dpoptim.RecordRule(q, o.rule, params, g, o.state)
}

// Set gives a run the constant settings.
func (o *SGD) Set(s *dpoptim.Scalars, _ int) {
	o.config.set(s)
	s[device.Momentum] = float32(o.config.Momentum)
}

// State is the momentum, if any.
func (o *SGD) State() []dpoptim.State { return dpoptim.Plain(o.state) }
