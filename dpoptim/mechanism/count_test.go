package mechanism

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

func TestCountRefuses(t *testing.T) {
	s := testStream(t)
	for _, test := range []struct {
		deviation float64
		stream    *stream.Stream
		want      string
	}{
		{0, s, "noise of deviation 0 on a count"},
		{-1, s, "noise of deviation -1"},
		{math.NaN(), s, "noise of deviation NaN"},
		{math.Inf(1), s, "noise of deviation +Inf"},
		{1, nil, "needs a noise stream"},
	} {
		if _, err := NewCount(test.deviation, test.stream, 0); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("deviation %v: %v, want %q", test.deviation, err, test.want)
		}
	}
}

// The count's noise is in counts, its price in units of a record's ½; a run's
// clip norm and gradient noise are none of its business.
func TestCountNoise(t *testing.T) {
	for _, deviation := range []float64{0.05, 0.1, 51.2, 1.0 / 3, 1e-6, 1e8} {
		c, err := NewCount(deviation, testStream(t), 2)
		check(t, err)
		var in, want device.Inputs
		c.Set(&in)
		std := float64(in.Scalars[device.CountStd])
		// The grid's step moves the count by as much, in units of its bound of ½.
		if most := deviation * (1 + 2e-7 + 2.001*float64(in.Scalars[device.CountStep])); std < deviation || std > most {
			t.Errorf("deviation %v draws %v", deviation, std)
		}
		want.Scalars[device.CountStd], want.Scalars[device.CountStep] = in.Scalars[device.CountStd], in.Scalars[device.CountStep]
		if in.Scalars != want.Scalars {
			t.Errorf("the count also sets %v", in.Scalars)
		}
		if e, ok := c.Event().(accountant.Gaussian); !ok || e.NoiseMultiplier != 2*deviation {
			t.Errorf("deviation %v costs the event %v", deviation, c.Event())
		}
	}
}
