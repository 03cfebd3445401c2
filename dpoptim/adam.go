package dpoptim

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
)

var _ Optimizer = (*Adam)(nil)

// The constants of Adam that its authors recommend (Kingma and Ba 2015, algorithm 1).
const (
	adamBeta1   = 0.9
	adamBeta2   = 0.999
	adamEpsilon = 1e-8
)

// Adam scales each coordinate by running moments of its gradient.
type Adam struct {
	config Config
	state  []device.Vector
}

// NewAdam allocates the two moments.
func NewAdam(n device.Net, c Config) (*Adam, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Momentum != 0 {
		return nil, fmt.Errorf("momentum %v: Adam has its own moments; leave it at 0", c.Momentum)
	}
	state, err := newStates(n, device.Adam)
	return &Adam{config: c, state: state}, err
}

// Record adds the update to a step.
func (o *Adam) Record(q device.Queue, params device.Vector, g mechanism.Noisy) error {
	return record(q, device.Adam, params, g, o.state)
}

// Set gives a run the bias corrections of update t.
func (o *Adam) Set(in *device.Inputs, t int) {
	o.config.set(in)
	in.Scalars[device.Beta1], in.Scalars[device.Beta2] = adamBeta1, adamBeta2
	in.Scalars[device.Bias1] = float32(1 - math.Pow(adamBeta1, float64(t)))
	in.Scalars[device.Bias2] = float32(1 - math.Pow(adamBeta2, float64(t)))
	in.Scalars[device.Epsilon] = adamEpsilon
}

// State is the first and the second moment.
func (o *Adam) State() []device.Vector { return o.state }
