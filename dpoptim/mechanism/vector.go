package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Vector releases one vector of float64 numbers, which was computed on the host from all
// records: output perturbation. The bound Δ is how far the numbers, as computed, move in L2 when a
// record is added or removed; replacing one is two such moves, as the accountant knows. The noise is
// normal of deviation multiplier·Δ in every coordinate (accountant.Gaussian), or of density
// ∝ exp(−ε‖z‖/Δ) (accountant.Pure; Chaudhuri, Monteleoni and Sarwate 2011, algorithm 1).
//
// Both are drawn exactly, rounded to a public grid of step γ. The vector is rounded to it first,
// which adds at most √values·γ to Δ; the noise is for both together. So the event is what the
// release costs. docs/proofs/output-perturbation.md has the proof.
type Vector struct {
	noise   accountant.Mechanism
	values  int
	stream  *stream.Stream
	release func(v []float64, draw uint64) error

	// Scale is the noise's deviation, or of pure noise its radius over the Gamma distribution's; Step is γ.
	Scale, Step float64
}

// mostPure is the largest scale of pure noise, in grid steps.
const mostPure = 0x1p32

// NewVector checks the noise, the bound (above 0, at most device.MostClip) and how many values
// there are. The tensor must be no other mechanism's.
func NewVector(noise accountant.Mechanism, bound float64, values int, s *stream.Stream, tensor uint32) (*Vector, error) {
	var per, most float64 // scale over sensitivity, and at most in grid steps
	switch n := noise.(type) {
	case accountant.Gaussian:
		per, most = n.NoiseMultiplier, exact.MaxStd
	case accountant.Pure:
		per, most = 1/n.Epsilon, mostPure
	default:
		return nil, fmt.Errorf("a vector is released with Gaussian noise or at a pure ε, not with %v", noise)
	}
	if !(per > 0) || math.IsInf(per, 0) {
		return nil, fmt.Errorf("noise %v on a vector: must be a finite number above 0", noise)
	}
	if !(bound > 0) || bound > device.MostClip {
		return nil, fmt.Errorf("a vector that a record moves by %v: must be above 0 and at most %g", bound, float64(device.MostClip))
	}
	if values < 1 {
		return nil, fmt.Errorf("a release of %d values: must be at least one", values)
	}
	v := &Vector{noise: noise, values: values, stream: s}
	v.Scale, v.Step = onVectorGrid(per, bound, values, most)
	if !(v.Step <= exact.MaxGrid) {
		return nil, fmt.Errorf("noise of scale %v on a vector lies beyond what is drawn: allow more epsilon", v.Scale)
	}
	if _, pure := noise.(accountant.Pure); pure {
		d, err := exact.NewDirection(v.Scale/v.Step, values, s, tensor)
		v.release = func(x []float64, draw uint64) error { return d.Release64(x, x, v.Step, draw) }
		return v, err
	}
	g, err := exact.New(v.Scale/v.Step, s, tensor)
	if err == nil && uint64(values) > exact.Draws(s.Cipher()) {
		err = fmt.Errorf("a release of %d values: the noise has %d", values, exact.Draws(s.Cipher()))
	}
	v.release = func(x []float64, draw uint64) error {
		g.Release64(x, x, v.Step, draw, 0)
		return nil
	}
	return v, err
}

// onVectorGrid is onGrid in float64, for noise of so many grid steps at most.
func onVectorGrid(per, bound float64, values int, most float64) (scale, step float64) {
	for step = stepOf(math.Max(bound*gridDigits, leastStep)); ; step *= 2 {
		// The last factor is for the float64 operations of this line, and those of per.
		scale = per * (bound + math.Sqrt(float64(values))*step) * (1 + 0x1p-48)
		if scale <= most*step || !(step <= exact.MaxGrid) {
			return scale, step
		}
	}
}

// Release turns private numbers into released ones, in their place, with the noise of a position
// that nothing has used. Numbers that lie beyond 2⁴⁹·Step count as that, and NaN as 0. Where it
// fails nothing is left of them.
func (v *Vector) Release(private []float64, draw uint64) error {
	if err := claimFor(private, v.values, v.stream, draw, "a release"); err != nil {
		return err
	}
	for i, x := range private {
		if math.IsNaN(x) {
			private[i] = 0
		}
	}
	return v.release(private, draw)
}

// Event is the noise that was given.
func (v *Vector) Event() accountant.Mechanism { return v.noise }
