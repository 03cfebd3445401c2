package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Perturbation releases the minimum of an objective with a random linear term: objective perturbation
// (Kifer, Smith and Thakurta 2012, algorithm 1). Both of its noises follow from one value, which is what
// the release costs: the tilt has the deviation multiplier·L in every coordinate, and the output, which a solver finds to
// within a distance of the minimum, gets Gaussian noise for twice that distance (Iyengar et al. 2019).
//
// Both are drawn exactly, rounded to a grid. A tilt between its grid points moves the minimum, and the
// distance must count that. docs/proofs/objective-perturbation.md has the proof.
type Perturbation struct {
	noise   accountant.ObjectivePerturbation
	tilt    *exact.Sampler
	output  *Vector
	drawn   uint64 // position of the tilt
	waiting bool

	Deviation, Step float64 // of the tilt, and its grid's
}

// Tilts has bounds of tilts that noise of a multiplier gives, for gradients up to a bound: on the size of a
// coordinate, which the sampler keeps, and on what rounding moved it by.
func Tilts(multiplier, bound float64) (most, rounding float64) {
	deviation := tiltDeviation(multiplier, bound)
	step := tiltStep(deviation)
	return 14*deviation + step, step / 2
}

// tiltDeviation is rounded up.
func tiltDeviation(multiplier, bound float64) float64 { return multiplier * bound * (1 + 0x1p-50) }

// tiltStep is the finest grid that such noise is drawn on.
func tiltStep(deviation float64) float64 { return stepOf(2 * deviation / exact.MaxStd) }

// NewPerturbation checks the noise; L, the bound on the norm of a record's gradient; and the distance of what
// will be released from the minimum, in parameters of which there are values. The tensors must be no other mechanism's.
func NewPerturbation(noise accountant.ObjectivePerturbation, bound, within float64, values int, s *stream.Stream, tilt, output uint32) (*Perturbation, error) {
	p := &Perturbation{noise: noise}
	if !(noise.NoiseMultiplier > 0) || !(noise.OutputMultiplier > 0) || !(bound > 0) || bound > device.MostClip {
		return nil, fmt.Errorf("objective perturbation with %+v and gradients up to %v: all must be above 0", noise, bound)
	}
	p.Deviation = tiltDeviation(noise.NoiseMultiplier, bound)
	p.Step = tiltStep(p.Deviation)
	if !(p.Step >= exact.MinGrid && p.Step <= exact.MaxGrid) {
		return nil, fmt.Errorf("a tilt of deviation %v lies beyond what is drawn: use another --feature-norm", p.Deviation)
	}
	var err error
	if p.tilt, err = exact.New(p.Deviation/p.Step, s, tilt); err != nil {
		return nil, err
	}
	if uint64(values) > exact.Draws(s.Cipher()) {
		return nil, fmt.Errorf("a tilt of %d values: the noise has %d", values, exact.Draws(s.Cipher()))
	}
	p.output, err = NewVector(accountant.Gaussian{NoiseMultiplier: noise.OutputMultiplier}, 2*within, values, s, output)
	return p, err
}

// Tilt draws the linear term, at a noise position that nothing has used. It is as private as the records.
func (p *Perturbation) Tilt(draw uint64) ([]float64, error) {
	if err := claim(p.output.stream, draw, "a tilt"); err != nil {
		return nil, err
	}
	p.drawn, p.waiting = draw, true
	tilt := make([]float64, p.output.values)
	p.tilt.Release64(tilt, tilt, p.Step, draw, 0)
	return tilt, nil
}

// Release turns what was found with the tilt of a position into what is released, in its place, once.
func (p *Perturbation) Release(private []float64, draw uint64) error {
	if len(private) != p.output.values || !p.waiting || draw != p.drawn {
		clear(private)
		return fmt.Errorf("a release of %d values at noise position %d does not belong to the tilt of %d values at %d", len(private), draw, p.output.values, p.drawn)
	}
	p.waiting = false
	for i, x := range private {
		if math.IsNaN(x) {
			private[i] = 0
		}
	}
	return p.output.release(private, draw)
}

// Event is the noise that was given.
func (p *Perturbation) Event() accountant.Mechanism { return p.noise }
