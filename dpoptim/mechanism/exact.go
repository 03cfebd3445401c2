package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Exact is the Gaussian mechanism in the arithmetic that computes it, for nets
// compiled with device.Options.Exact. A record's share of a sum is a vector k
// of integers with ‖k‖ ≤ C/γ, checked exactly, so that the sensitivity is C
// without rounding; the noise is a Gaussian of deviation at least σ, rounded to
// the grid γ·ℤ and drawn exactly (package exact). As k is an integer vector,
// k + round(Z) = round(k + Z): the release is a function of the continuous
// mechanism's, and costs what that costs. docs/proofs/exact-noise.md has the details.
type Exact struct{ Gaussian }

// LeastExact and MostExact bound the multiplier of Exact: with C/γ in
// [2²⁰, 2²¹), deviations that package exact draws.
const (
	LeastExact = exact.MinStd * 0x1p-20
	MostExact  = exact.MaxStd * 0x1p-22
)

// NewExact checks what NewGaussian does, the bounds on the multiplier and that the
// tensor is below exact.MaxTensor.
func NewExact(multiplier, bound float64, s *stream.Stream, tensor uint32) (*Exact, error) {
	g, err := NewGaussian(multiplier, bound, 0, 1, 1, s, tensor)
	if err != nil {
		return nil, err
	}
	if err := exact.Check(s, tensor); err != nil {
		return nil, err
	}
	if multiplier < LeastExact || multiplier > MostExact {
		return nil, fmt.Errorf("noise multiplier %v: exact noise is drawn for multipliers in [%g, %g]", multiplier, LeastExact, MostExact)
	}
	g.noise = device.NewExactNoise(s, tensor)
	return &Exact{*g}, nil
}

// Set gives a run its clip norm C, a float32, the step of its grid, and the least
// float32 that is not below the product of multiplier and C, which is compared
// without rounding.
func (e *Exact) Set(in *device.Inputs) {
	clip := float32(e.bound)
	std := float32(e.multiplier * float64(clip))
	for math.FMA(e.multiplier, float64(clip), -float64(std)) > 0 {
		std = math.Nextafter32(std, float32(math.Inf(1)))
	}
	in.Scalars[device.Clip], in.Scalars[device.NoiseStd] = clip, std
	in.Scalars[device.NoiseStep] = float32(device.NewGrid(clip).Step)
}
