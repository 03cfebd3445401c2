package sgd

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
)

var _ dpoptim.Optimizer = (*Adam)(nil)

// Moments are the settings of Adam alone.
type Moments struct {
	Beta1, Beta2 float64 // decay of the moments, in [0, 1)
	Epsilon      float64 // added to the root of the second, above 0
	// SubtractNoise takes the variance of the noise out of the second moment
	// (Adam). The mechanism's bound must not move.
	SubtractNoise bool
}

// DefaultMoments are those that Adam's authors recommend (Kingma and Ba 2015,
// algorithm 1), without subtraction.
func DefaultMoments() Moments { return Moments{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8} }

// Validate finds faults of what a user may set.
func (m Moments) Validate() error {
	switch {
	case !(m.Beta1 >= 0) || m.Beta1 >= 1:
		return fmt.Errorf("beta1 %v: must be in [0, 1)", m.Beta1)
	case !(m.Beta2 >= 0) || m.Beta2 >= 1:
		return fmt.Errorf("beta2 %v: must be in [0, 1)", m.Beta2)
	case !(m.Epsilon > 0) || math.IsInf(m.Epsilon, 0):
		return fmt.Errorf("adam-epsilon %v: must be a finite number above 0", m.Epsilon)
	}
	return nil
}

// noiseFloor is the least that subtraction leaves of a second moment, as a
// share of the noise's variance Φ. Of a coordinate that holds nothing but noise
// the second moment is Φ with a standard deviation of Φ√(2(1−β₂)/(1+β₂)), 0.03·Φ
// at the default β₂ and more in the first steps: what lies below is not known.
const noiseFloor = 0.1

// Adam scales each coordinate by running moments of its gradient (Kingma and Ba
// 2015, algorithm 1); the gradient of the L2 penalty is part of the gradient.
//
// A private gradient's second moment is mostly the noise's variance
// Φ = (σC/(qN))², the same in all coordinates, so that Adam's steps become
// those of SGD. With SubtractNoise the step is m̂/(√max(v̂ − Φ, γ′) + ε), which
// is DP-AdamBC (Tang, Shpilevskiy and Lécuyer 2024, algorithm 1), with
// γ′ = Φ/10.
type Adam struct {
	config Config
	state  []dpoptim.Vector
}

// NewAdam allocates the two moments.
func NewAdam(n dpoptim.Vectors, c Config) (*Adam, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Momentum != 0 {
		return nil, fmt.Errorf("momentum %v: Adam has its own moments; leave it at 0", c.Momentum)
	}
	if err := c.Moments.Validate(); err != nil {
		return nil, err
	}
	state, err := dpoptim.NewStates(n, device.Adam)
	return &Adam{config: c, state: state}, err
}

// Record adds the update to a step.
func (o *Adam) Record(q dpoptim.Queue, params dpoptim.Vector, g dpoptim.Noisy) error {
	return dpoptim.RecordRule(q, device.Adam, params, g, o.state)
}

// Set gives a run the bias corrections of update t, and the variance of the
// noise that the mechanism has set.
func (o *Adam) Set(s *dpoptim.Scalars, t int) {
	o.config.set(s)
	m := o.config.Moments
	s[device.Beta1], s[device.Beta2] = float32(m.Beta1), float32(m.Beta2)
	s[device.Bias1] = float32(1 - math.Pow(m.Beta1, float64(t)))
	s[device.Bias2] = float32(1 - math.Pow(m.Beta2, float64(t)))
	s[device.Epsilon] = float32(m.Epsilon)
	s[device.Variance], s[device.Floor] = 0, 0
	if m.SubtractNoise {
		deviation := float64(s[device.NoiseStd]) / o.config.Normaliser
		s[device.Variance] = float32(deviation * deviation)
		s[device.Floor] = float32(noiseFloor * deviation * deviation)
	}
}

// State is the first and the second moment.
func (o *Adam) State() []dpoptim.State { return dpoptim.Plain(o.state) }
