package mechanism

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

func TestExactRefuses(t *testing.T) {
	s := testStream(t)
	for _, test := range []struct {
		multiplier, bound float64
		stream            *stream.Stream
		tensor            uint32
		want              string
	}{
		{0, 1, s, 0, "noise multiplier 0"},
		{1, math.Inf(1), s, 0, "clip norm +Inf"},
		{1, 1, nil, 0, "needs a noise stream"},
		{1, 1, s, exact.MaxTensor, "tensor 2147483648"},
		{MostExact * 1.01, 1, s, 0, "multipliers in"},
		{LeastExact / 2, 1, s, 0, "multipliers in"},
	} {
		if _, err := NewExact(test.multiplier, test.bound, test.stream, test.tensor); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("multiplier %v, bound %v: %v, want %q", test.multiplier, test.bound, err, test.want)
		}
	}
}

// The deviation is the least float32 that is not below multiplier·C, as
// compared in the rational numbers.
func TestExactNoiseIsNeverBelow(t *testing.T) {
	product := func(multiplier, clip float64) *big.Rat {
		return new(big.Rat).Mul(new(big.Rat).SetFloat64(multiplier), new(big.Rat).SetFloat64(clip))
	}
	type pair struct{ multiplier, bound float64 }
	var pairs []pair
	for _, multiplier := range []float64{LeastExact, 1, 1 + 0x1p-52, 1.152180194854736, 1.0 / 3, 0.1, 1e4, MostExact} {
		for _, bound := range []float64{1, 1 + 0x1p-23, 0.1, 1.0 / 3, 12.7, 1e-20, 1e20} {
			pairs = append(pairs, pair{multiplier, bound})
		}
	}
	// Products above a float32 by less than a float64 can tell.
	hidden := 0
	for i := range 100 {
		std, bound := float64(1+float32(i)/128), float64(float32(1)/(3+float32(i)))
		multiplier := std / bound
		if multiplier*bound == std && product(multiplier, bound).Cmp(new(big.Rat).SetFloat64(std)) > 0 {
			pairs = append(pairs, pair{multiplier, bound})
			hidden++
		}
	}
	if hidden == 0 {
		t.Error("no product that rounds down was found")
	}
	for _, c := range pairs {
		e, err := NewExact(c.multiplier, c.bound, testStream(t), 1)
		check(t, err)
		var in device.Inputs
		e.Set(&in)
		clip, std := in.Scalars[device.Clip], in.Scalars[device.NoiseStd]
		if step := in.Scalars[device.NoiseStep]; float64(step) != device.NewGrid(clip).Step {
			t.Errorf("the noise's grid has step %v, the sums' %v", step, device.NewGrid(clip).Step)
		}
		if clip != float32(c.bound) {
			t.Errorf("clip norm %v became %v", c.bound, clip)
		}
		want := product(c.multiplier, float64(clip))
		if new(big.Rat).SetFloat64(float64(std)).Cmp(want) < 0 {
			t.Errorf("multiplier %v at clip norm %v draws deviation %v, which is less", c.multiplier, clip, std)
		}
		if below := math.Nextafter32(std, 0); new(big.Rat).SetFloat64(float64(below)).Cmp(want) >= 0 {
			t.Errorf("multiplier %v at clip norm %v draws deviation %v, where %v was enough", c.multiplier, clip, std, below)
		}
		if got := e.Event(); got != accountant.Mechanism(accountant.Gaussian{NoiseMultiplier: c.multiplier}) {
			t.Errorf("multiplier %v costs the event %v", c.multiplier, got)
		}
		if !e.noise.Exact() || e.noise.Tensor() != 1 {
			t.Errorf("the noise is %v", e.noise)
		}
	}
}
