package timing

import (
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 2, 4}, 3}} {
		before := slices.Clone(c.values)
		if got := Median(c.values); got != c.want || !slices.Equal(c.values, before) {
			t.Errorf("median of %v: %v, left %v", before, got, c.values)
		}
	}
}
