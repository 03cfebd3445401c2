package sgd

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
)

// Config is what SGD and Adam share.
type Config struct {
	Rate       float64 // step size, above 0
	Normaliser float64 // what a sum is divided by: the public expected batch q·N, never the realised one
	L2         float64 // λ of the penalty λ/2·‖w‖², added outside the clipping; of AdamW, its decay
	Momentum   float64 // SGD only, in [0, 1)
	Moments    Moments // Adam only
}

func (c Config) validate() error {
	switch {
	case !(c.Rate > 0) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("learning rate %v: must be a finite number above 0", c.Rate)
	case !(c.Normaliser > 0) || math.IsInf(c.Normaliser, 0):
		return fmt.Errorf("normaliser %v: the expected batch must be a finite number above 0", c.Normaliser)
	case !(c.L2 >= 0) || math.IsInf(c.L2, 0):
		return fmt.Errorf("l2 %v: must be a finite number, 0 or more", c.L2)
	case !(c.Momentum >= 0) || c.Momentum >= 1:
		return fmt.Errorf("momentum %v: must be in [0, 1)", c.Momentum)
	}
	return nil
}

// noiseFloor is the least that subtraction leaves of a second moment, as a
// share of the noise's variance Φ. Of a coordinate that holds nothing but noise
// the second moment is Φ with a standard deviation of Φ√(2(1−β₂)/(1+β₂)), 0.03·Φ
// at the default β₂ and more in the first steps: what lies below is not known.
const noiseFloor = 0.1

// Optimizer makes updates by SGD or Adam.
type Optimizer struct {
	config Config
	rule   device.Rule
	state  []dpoptim.Vector // the momentum, or both moments
}

// NewSGD makes stochastic gradient descent with heavy-ball momentum, m = μm + g,
// w −= ηm. With the Gaussian mechanism it is DP-SGD (Abadi et al. 2016).
func NewSGD(n vectors, c Config) (*Optimizer, error) {
	if c.Momentum > 0 {
		return newOptimizer(n, c, device.HeavyBall)
	}
	return newOptimizer(n, c, device.SGD)
}

// newAdam scales each coordinate by running moments of its gradient (Kingma and Ba
// 2015, algorithm 1); the gradient of the L2 penalty is part of the gradient.
//
// A private gradient's second moment is mostly the noise's variance
// Φ = (σC/(qN))², the same in all coordinates, so that Adam's steps become
// those of SGD. With SubtractNoise the step is m̂/(√max(v̂ − Φ, γ′) + ε), which
// is DP-AdamBC (Tang, Shpilevskiy and Lécuyer 2024, algorithm 1), with
// γ′ = Φ/10.
func newAdam(n vectors, c Config) (*Optimizer, error) { return newMoments(n, c, device.Adam) }

// newAdamW is Adam whose L2 shrinks weights by the factor 1 − ηλ before each step, and has no part in the gradient: the decoupled decay of
// Loshchilov and Hutter (2019), times the learning rate, as in PyTorch. On private gradients it is DP-AdamW (arXiv 2511.07843).
func newAdamW(n vectors, c Config) (*Optimizer, error) { return newMoments(n, c, device.AdamW) }

func newMoments(n vectors, c Config, rule device.Rule) (*Optimizer, error) {
	if c.Momentum != 0 {
		return nil, fmt.Errorf("momentum %v: Adam has its own moments; leave it at 0", c.Momentum)
	}
	if err := c.Moments.validate(); err != nil {
		return nil, err
	}
	return newOptimizer(n, c, rule)
}

// vectors makes zero vectors, as every engine does.
type vectors interface {
	NewVector(width int) (dpoptim.Vector, error)
}

func newOptimizer(n vectors, c Config, rule device.Rule) (*Optimizer, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	o := &Optimizer{config: c, rule: rule}
	for range rule.States() {
		v, err := n.NewVector(1)
		if err != nil {
			return nil, fmt.Errorf("optimizer state: %w", err)
		}
		o.state = append(o.state, v)
	}
	return o, nil
}

func (o *Optimizer) Record(q dpoptim.Queue, params dpoptim.Vector, g dpoptim.Noisy) error {
	v, err := g.Vector()
	if err != nil {
		return err
	}
	q.Update(o.rule, params, v, o.state...)
	return nil
}

// Set gives a run the settings; Adam's has the bias corrections of update t, and the
// variance of the noise that the mechanism has set.
func (o *Optimizer) Set(s *dpoptim.Scalars, t int) {
	c, m := o.config, o.config.Moments
	s[device.Rate] = float32(c.Rate)
	s[device.Scale] = float32(1 / c.Normaliser)
	s[device.L2] = float32(c.L2)
	if o.rule != device.Adam && o.rule != device.AdamW {
		s[device.Momentum] = float32(c.Momentum)
		return
	}
	s[device.Beta1], s[device.Beta2] = float32(m.Beta1), float32(m.Beta2)
	s[device.Bias1] = float32(1 - math.Pow(m.Beta1, float64(t)))
	s[device.Bias2] = float32(1 - math.Pow(m.Beta2, float64(t)))
	s[device.Epsilon] = float32(m.Epsilon)
	s[device.Variance], s[device.Floor] = 0, 0
	if m.SubtractNoise {
		deviation := float64(s[device.NoiseStd]) / c.Normaliser
		s[device.Variance] = float32(deviation * deviation)
		s[device.Floor] = float32(noiseFloor * deviation * deviation)
	}
}

// State is the momentum, or both moments.
func (o *Optimizer) State() (all []dpoptim.State) {
	for _, v := range o.state {
		all = append(all, dpoptim.State{Vector: v, Width: 1})
	}
	return all
}
