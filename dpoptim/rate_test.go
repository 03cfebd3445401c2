package dpoptim

import (
	"math"
	"strings"
	"testing"
)

func TestRate(t *testing.T) {
	for _, test := range []struct {
		rate Rate
		want []float64 // of steps 1, 2, …
	}{
		{Rate{2, Constant, 0, 3}, []float64{2, 2, 2}},
		{Rate{2, Constant, 4, 6}, []float64{0.5, 1, 1.5, 2, 2, 2}},
		{Rate{2, Constant, 2, 2}, []float64{1, 2}},
		{Rate{2, Cosine, 0, 4}, []float64{2, 1 + math.Sqrt2/2, 1, 1 - math.Sqrt2/2}},
		{Rate{2, Cosine, 2, 5}, []float64{1, 2, 2, 1.5, 0.5}},
		{Rate{2, Cosine, 2, 2}, []float64{1, 2}},
	} {
		if err := test.rate.Validate(); err != nil {
			t.Fatal(err)
		}
		for i, want := range test.want {
			if got := test.rate.At(i + 1); math.Abs(got-want) > 1e-12 || !(got > 0) {
				t.Errorf("%v: step %d has %v, want %v", test.rate, i+1, got, want)
			}
		}
	}
	for want, r := range map[string]Rate{
		`unknown lr-schedule "linear"`: {2, "linear", 0, 3},
		"warmup -1":                    {2, Cosine, -1, 3},
		"warmup 4: must be 0 to 3":     {2, Cosine, 4, 3},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
