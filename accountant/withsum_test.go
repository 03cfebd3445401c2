package accountant

import "testing"

// Adaptive clipping asks a batch for a sum (σ/C = 1) and for a count of
// sensitivity ½ (σ_b = ½). The golden ε come from the divergence of the pair of
// releases in the plane, by quadrature over both axes, with sampling once for
// both, and were minimised over orders in steps of 0.1.
func TestCountOnTheSumsBatch(t *testing.T) {
	const deviation, sensitivity = 0.5, 0.5
	count := Gaussian{deviation / sensitivity}
	for n, want := range map[Neighbouring]float64{AddRemove: 3.1360339838536495, ReplaceOne: 3.5249270378432627} {
		s := Schedule{SamplingRate: 0.005, Steps: 1000, Neighbouring: n, Accountant: RDP, Delta: 1e-5, Batch: beside(count)}
		joint, err := s.Epsilon(1)
		must(t, err)
		near(t, string(n), joint, want, 1e-8)
		// One Gaussian of 1/σ² = 1/σ_g² + 1/(4σ_b²) is another way to say it.
		near(t, string(n), account(t, RDP, n, s.Delta, PoissonBatch(0.005, 1000, Gaussian{0.7071067811865475})).Epsilon, want, 1e-8)
		apart := account(t, RDP, n, s.Delta, PoissonBatch(0.005, 1000, Gaussian{1}), PoissonBatch(0.005, 1000, count)).Epsilon
		if joint < 1.5*apart {
			t.Errorf("%s: ε %v together, and %v as if each query had drawn a batch of its own", n, joint, apart)
		}

		// Calibrations pay for the count.
		sigma := checkCalibrated(t, s, want, 1e-5)
		near(t, "multiplier", sigma, 1, 1e-4)
		_, _, err = s.Calibrate(0.5)
		refused(t, err, "epsilon 0.5", "out of reach")
	}
}
