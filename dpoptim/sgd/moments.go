package sgd

import (
	"fmt"
	"math"
)

// Moments are the settings of Adam alone.
type Moments struct {
	Beta1, Beta2 float64 // decay of the moments, in [0, 1)
	Epsilon      float64 // added to the root of the second, above 0
	// SubtractNoise takes the variance of the noise out of the second moment
	// (newAdam). The mechanism's bound must not move.
	SubtractNoise bool
}

// DefaultMoments are those that Adam's authors recommend (Kingma and Ba 2015,
// algorithm 1), without subtraction.
func DefaultMoments() Moments { return Moments{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8} }

// validate finds faults of what a user may set.
func (m Moments) validate() error {
	switch {
	case !(m.Beta1 >= 0) || m.Beta1 >= 1:
		return fmt.Errorf("beta1 %v: must be in [0, 1)", m.Beta1)
	case !(m.Beta2 >= 0) || m.Beta2 >= 1:
		return fmt.Errorf("beta2 %v: must be in [0, 1)", m.Beta2)
	case !(m.Epsilon > 0) || math.IsInf(m.Epsilon, 0):
		return fmt.Errorf("adam_epsilon %v: must be a finite number above 0", m.Epsilon)
	}
	return nil
}
