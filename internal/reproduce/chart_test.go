package reproduce

import (
	"slices"
	"testing"
)

// Ticks of a linear axis are round, and have no digits that say nothing.
func TestRoundTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      []string
	}{
		{63, 1821, []string{"500", "1000", "1500"}},
		{-120, 70300, []string{"0", "10000", "20000", "30000", "40000", "50000", "60000", "70000"}},
		{0.71, 0.93, []string{"0.75", "0.8", "0.85", "0.9"}},
		{1, 3, []string{"1", "1.5", "2", "2.5", "3"}},
		{-1e-7, 1e-6, []string{"0", "2e-07", "4e-07", "6e-07", "8e-07", "1e-06"}},
	} {
		var got []string
		for _, at := range round(c.low, c.high) {
			if at.Value < c.low || at.Value > c.high {
				t.Errorf("%v to %v: a tick at %v", c.low, c.high, at.Value)
			}
			got = append(got, at.Label)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v to %v: %q, want %q", c.low, c.high, got, c.want)
		}
	}
}
