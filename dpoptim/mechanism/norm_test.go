package mechanism

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
)

// The norm's noise is in units of the clip norm, as is its price, and covers what rounding
// adds; a run's clip norm and gradient noise are none of its business.
func TestNormNoise(t *testing.T) {
	const rounding, rows = 1e-5, 400
	for _, multiplier := range []float64{0.05, 1, 7.3, 1e6} {
		for _, bound := range []float64{0.1, 1, 3} {
			m, err := NewNorm(multiplier, bound, rounding, rows, 65, 1, testStream(t), 4)
			check(t, err)
			var in, want device.Inputs
			m.Set(&in)
			std := float64(in.Scalars[device.NormStd])
			// A record moves the exact norm by the bound, that of rounded sums by 1e-5 more,
			// and rounding either norm, of 400 bounds at most, by 2⁻²⁴ of it.
			if least := multiplier * bound * (1 + rounding + 400*0x1p-23); std < least || std > multiplier*bound*(1+2e-4) {
				t.Errorf("multiplier %v at bound %v draws %v, %v is the least", multiplier, bound, std, least)
			}
			want.Scalars[device.NormStd], want.Scalars[device.NormStep] = in.Scalars[device.NormStd], in.Scalars[device.NormStep]
			if in.Scalars != want.Scalars {
				t.Errorf("the norm also sets %v", in.Scalars)
			}
			if e, ok := m.Event().(accountant.Gaussian); !ok || e.NoiseMultiplier != multiplier {
				t.Errorf("multiplier %v costs the event %v", multiplier, m.Event())
			}
		}
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewNorm(bad, 1, rounding, rows, 65, 1, testStream(t), 4); err == nil {
			t.Errorf("noise multiplier %v on a norm", bad)
		}
	}
	if _, err := NewNorm(1, 1, rounding, rows, 65, 1, nil, 4); err == nil {
		t.Error("a norm without a noise stream")
	}
}
