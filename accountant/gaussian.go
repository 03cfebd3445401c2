package accountant

import (
	"fmt"
	"math"
)

// Gaussian adds normal noise to a sum; a multiplier of 0 adds none.
type Gaussian struct {
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ over the bound C on one record's share
}

var _ = register(Gaussian{})

func (Gaussian) Name() string { return "gaussian" }

func (g Gaussian) validate() error {
	if !(g.NoiseMultiplier >= 0) || math.IsInf(g.NoiseMultiplier, 0) {
		return fmt.Errorf("noise_multiplier %v: must be a finite number, 0 or more", g.NoiseMultiplier)
	}
	return nil
}

func (g Gaussian) bound(distance float64) (bound, error) {
	return bound{mu: distance / g.NoiseMultiplier}, nil
}
