package accountant

import (
	"cmp"
	"fmt"
	"math"
)

// ObjectivePerturbation releases the minimum of a sum of convex losses, a regulariser and a random
// linear term (Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012). A record's loss is ℓ(⟨w, x⟩),
// its gradient at most L and its curvature at most β; the regulariser is Λ/2·‖w‖², and the linear term
// normal of deviation σ in every coordinate.
// docs/proofs/objective-perturbation.md proves the bounds, in the line of Redberg, Koskela and Wang 2023.
type ObjectivePerturbation struct {
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ/L
	Curvature       float64 `json:"curvature"`        // β/Λ
	// TwoSided says that the slope of a record's loss may have either sign, as that of a
	// regression. Of a classification it never changes its sign.
	TwoSided bool `json:"two_sided,omitempty"`
	// OutputMultiplier is the deviation of Gaussian noise on the output over twice the distance that a solver may
	// stay away from the minimum. 0: the minimum is exact.
	OutputMultiplier float64 `json:"output_multiplier,omitempty"`
}

var _ = register(ObjectivePerturbation{})

func (ObjectivePerturbation) Name() string { return "objective-perturbation" }

func (m ObjectivePerturbation) validate() error {
	if !(m.OutputMultiplier >= 0) || math.IsInf(m.OutputMultiplier, 0) {
		return fmt.Errorf("output_multiplier %v: must be a finite number, 0 or more", m.OutputMultiplier)
	}
	return cmp.Or(positive("noise_multiplier", m.NoiseMultiplier), positive("curvature", m.Curvature))
}

// gaussian is the Gaussian release in the place of this one.
func (m ObjectivePerturbation) gaussian() Gaussian {
	if m.OutputMultiplier == 0 {
		return Gaussian{m.NoiseMultiplier}
	}
	return Gaussian{1 / math.Hypot(1/m.NoiseMultiplier, 1/m.OutputMultiplier)}
}

// sides is S: of how many one-sided pairs the release is made up.
func (m ObjectivePerturbation) sides(distance float64) float64 {
	if m.TwoSided {
		return math.Exp2(distance)
	}
	return 1
}

func (m ObjectivePerturbation) bound(distance float64) (bound, error) {
	mu := distance / m.NoiseMultiplier
	return bound{rdp: func(order float64) (float64, error) {
		// ln(1+κ) + ln(e^{α(α−1)μ²/2}·Φ((α−½)μ) + Φ(−μ/2))/(α−1); two-sided, the sum is e^{α(α−1)μ²/2}·2Φ((α−1)μ).
		a := order - 1
		moment := order * a * mu * mu / 2
		if m.TwoSided {
			moment += math.Log(math.Erfc(-a * mu / math.Sqrt2))
		} else {
			above, below := math.Erfc(-(order-0.5)*mu/math.Sqrt2)/2, math.Erfc(mu/2/math.Sqrt2)/2
			moment += math.Log(above + below*math.Exp(-moment))
		}
		total := math.Log1p(m.Curvature) + moment/a
		if m.OutputMultiplier > 0 {
			x := distance / m.OutputMultiplier
			total += order * x * x / 2
		}
		return total, nil
	}}, nil
}
