package record

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
)

// tally is what is known of a sum of numbers on a grid, beside its values: of an
// exact net's gradients, or of losses.
type tally struct {
	rows       int     // added since the last release
	clip, step float32 // with which they were
}

// add checks what a run would add. So many rows keep a sum below 2⁵² steps: a
// gradient's coordinate is below 2²¹, a loss at most 2²⁴.
func (s *tally) add(in *device.Inputs) error {
	if err := s.same(in); err != nil {
		return err
	}
	if len(in.Rows) > device.MostTally-s.rows {
		return fmt.Errorf("a sum takes at most %d rows before it is released; make batches smaller", device.MostTally)
	}
	return nil
}

// same refuses another grid than that of the rows in the sum.
func (s *tally) same(in *device.Inputs) error {
	clip, step := in.Scalars[device.Clip], in.Scalars[device.NoiseStep]
	if s.rows > 0 && clip != s.clip {
		return fmt.Errorf("clip norm %v for a sum begun at %v: it can only change after the release", clip, s.clip)
	}
	if s.rows > 0 && step != s.step {
		return fmt.Errorf("a grid of step %v for a sum begun on one of %v: it can only change after the release", step, s.step)
	}
	return nil
}

// added notes what a run added.
func (s *tally) added(in *device.Inputs) {
	s.rows, s.clip, s.step = s.rows+len(in.Rows), in.Scalars[device.Clip], in.Scalars[device.NoiseStep]
}

// hidden checks that losses leave under noise on the grid of their rows, or that none of its scales is above 0.
func (s *tally) hidden(scales ...device.Slot) func(*device.Inputs) error {
	return func(in *device.Inputs) error {
		for _, k := range scales {
			if in.Scalars[k] != 0 {
				return s.onGrid(in)
			}
		}
		return nil
	}
}

// onGrid refuses rows that were added without a grid, or on one on which sums may round.
func (s *tally) onGrid(in *device.Inputs) error {
	if err := s.same(in); err != nil || s.rows == 0 {
		return err
	}
	if !isStep(s.step) || s.clip > s.step*0x1p24 {
		return fmt.Errorf("noise over losses on a grid of step %v at clip norm %v: the step must be a power of two, and at least the clip norm times 2⁻²⁴", s.step, s.clip)
	}
	return nil
}

// isStep says that x is a power of two.
func isStep(x float32) bool {
	fraction, _ := math.Frexp(float64(x))
	return fraction == 0.5
}

// releaseGradients checks the release of an exact net's gradients, whose grid is that of the clip norm.
func (s *tally) releaseGradients(in *device.Inputs) error {
	clip, step := in.Scalars[device.Clip], in.Scalars[device.NoiseStep]
	if !positive(clip) {
		return fmt.Errorf("clip norm %v: must be a finite number above 0, for it says what an exact sum counts", clip)
	}
	if s.rows > 0 && clip != s.clip {
		return s.same(in)
	}
	if grid := device.NewGrid(clip).Step; in.Scalars[device.NoiseStd] != 0 && float64(step) != grid {
		return fmt.Errorf("noise on a grid of step %v for exact sums clipped at %v: the step must be theirs, %v", step, clip, grid)
	}
	return nil
}

// checkNoise says whether noise of a deviation can be drawn on a grid.
func checkNoise(std, step float32) error {
	if std == 0 {
		return nil
	}
	if !positive(std) {
		return fmt.Errorf("noise of standard deviation %v: must be a finite number, 0 or more", std)
	}
	if !isStep(step) || float64(step) < exact.MinGrid || float64(step) > exact.MaxGrid {
		return fmt.Errorf("noise on a grid of step %v: must be a power of two, from %g to %g", step, exact.MinGrid, exact.MaxGrid)
	}
	if steps := float64(std) / float64(step); !(steps >= exact.MinStd && steps <= exact.MaxStd) {
		return fmt.Errorf("noise of standard deviation %v on a grid of step %v: must be %g to %g steps, is %g", std, step, exact.MinStd, exact.MaxStd, steps)
	}
	return nil
}
