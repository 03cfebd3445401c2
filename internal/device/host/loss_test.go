package host

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// TestQueryAdd checks one row's share in every form, whichever of its losses
// is not finite.
func TestQueryAdd(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		form   device.LossForm
		base   float64
		losses []float64
		want   []float64
	}{
		{device.LossSum, nan, []float64{0, 1, 2, 5, inf, nan}, []float64{0, 1, 2, 2, 2, 2}},
		{device.LossDecrease, 3, []float64{2, 0.5, 4.5, 9, inf, nan}, []float64{1, 2, -1.5, -2, -2, -2}},
		{device.LossDecrease, inf, []float64{0, 1e300, inf, nan}, []float64{2, 2, 0, 0}},
		{device.LossDecrease, nan, []float64{0, 1e300, inf, nan}, []float64{2, 2, 0, 0}},
		{device.LossCurve, 3, []float64{2, 2, 4}, []float64{1, 1, -1}},
		{device.LossCurve, 3, []float64{0, 7}, []float64{1.2, -1.6}},
		{device.LossCurve, 3, []float64{3, 3}, []float64{0, 0}},
		{device.LossCurve, 3, []float64{2, inf}, []float64{0, 0}},
		{device.LossCurve, 3, []float64{nan, 2}, []float64{0, 0}},
		{device.LossCurve, inf, []float64{2, 1}, []float64{0, 0}},
		{device.LossCurve, nan, []float64{2, 1}, []float64{0, 0}},
		{device.LossCurve, 0, []float64{1e300, 1e-300}, []float64{0, 0}}, // its norm overflows
	} {
		q := Query[float32]{Form: test.form, Clip: 2}
		sums := make([]float64, len(test.want))
		for n := range 3 { // shares add up
			q.Add(sums, test.base, test.losses)
			for i, want := range test.want {
				if got := sums[i]; !(math.Abs(got-float64(n+1)*want) < 1e-15*float64(n+1)) {
					t.Errorf("%s of %v from %v: %v after %d rows, want %v each", test.form, test.losses, test.base, sums, n+1, test.want)
				}
			}
		}
		if slices.ContainsFunc(sums, math.IsNaN) {
			t.Errorf("%s of %v from %v: %v", test.form, test.losses, test.base, sums)
		}
	}
}
