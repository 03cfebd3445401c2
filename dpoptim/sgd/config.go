package sgd

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
)

// Config is what SGD and Adam share.
type Config struct {
	Rate       float64 // step size, above 0
	Normaliser float64 // what a sum is divided by: the public expected batch q·N, never the realised one
	L2         float64 // λ of the penalty λ/2·‖w‖², added outside the clipping
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

func (c Config) set(s *dpoptim.Scalars) {
	s[dpoptim.SlotRate] = float32(c.Rate)
	s[dpoptim.SlotScale] = float32(1 / c.Normaliser)
	s[dpoptim.SlotL2] = float32(c.L2)
}
