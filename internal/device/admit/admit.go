// Package admit holds what every device asks of a run before it does any of it:
// rows that exist, a clip norm and deviations that are numbers, and noise
// positions that nobody used. A device records what its steps ask for, and
// admits each run.
package admit

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// CheckOptions finds what no net of a schedule can be. has are the precisions of the device beside Float32.
func CheckOptions(s *ir.Schedule, o device.Options, has []device.Precision) error {
	if o.Capacity < 1 {
		return fmt.Errorf("a network needs room for at least one row, has capacity %d", o.Capacity)
	}
	if o.Precision != device.Float32 {
		if !slices.Contains(has, o.Precision) {
			return fmt.Errorf("precision %s: this device multiplies in float32 or better; choose precision float32, or a GPU by device cuda, which has tf32 and bf16", o.Precision)
		}
		if o.Exact {
			return fmt.Errorf("precision %s: exact sums are of float32 gradients; choose precision float32, or other noise than exact", o.Precision)
		}
	}
	if o.Exact {
		return CheckExact(s)
	}
	return nil
}

// Step is what one recorded step asks of its runs.
type Step struct {
	Tables     []*device.Rows // that rows are gathered from
	Clips      bool
	Candidates int // how many of a run's step sizes are read
	Checks     []func(*device.Inputs) error
	noises     []device.Noise
	search     search
	asks       bool   // for an index
	draws      []draw // of the noises, and of the search or the minimum
	streams    []draw // one of each stream
}

// draw is a place in a stream that a step draws from.
type draw interface {
	Stream() *stream.Stream
	Tensor() uint32
	Claim(draw uint64) bool
}

// Draw notes the noise of one more release of the step, of so many values.
func (s *Step) Draw(noise device.Noise, values int) error {
	if err := s.draw(noise); err != nil {
		return err
	}
	if c := noise.Stream().Cipher(); uint64(values) > exact.Draws(c) {
		return fmt.Errorf("a release of %d values: noise from %s has %d draws", values, c, exact.Draws(c))
	}
	s.noises = append(s.noises, noise)
	return nil
}

func (s *Step) draw(d draw) error {
	if d.Stream() == nil {
		return device.ErrNoNoise
	}
	if err := exact.Check(d.Stream(), d.Tensor()); err != nil {
		return err
	}
	if slices.ContainsFunc(s.draws, func(e draw) bool { return e.Stream() == d.Stream() && e.Tensor() == d.Tensor() }) {
		return fmt.Errorf("two releases of one step name noise tensor %d: %w", d.Tensor(), device.ErrDrawUsed)
	}
	if !slices.ContainsFunc(s.streams, func(e draw) bool { return e.Stream() == d.Stream() }) {
		s.streams = append(s.streams, d)
	}
	s.draws = append(s.draws, d)
	return nil
}

// Run checks a run's inputs against a net's capacity and takes its noise
// position; drawn is the last that the net took. No message tells about rows.
func (s *Step) Run(in *device.Inputs, capacity int, drawn *uint64) error {
	if len(in.Rows) > capacity {
		return fmt.Errorf("a run was given more rows than the capacity of %d", capacity)
	}
	for _, t := range s.Tables {
		for _, r := range in.Rows {
			if r < 0 || int(r) >= t.Count {
				return fmt.Errorf("a run names a row that the table does not have")
			}
		}
	}
	if clip := in.Scalars[device.Clip]; s.Clips && (!Positive(clip) || clip > device.MostClip) {
		return fmt.Errorf("clip norm %v: must be above 0 and at most %g", clip, float64(device.MostClip))
	}
	for i, eta := range in.Candidates[:s.Candidates] {
		if math.IsNaN(float64(eta)) || math.IsInf(float64(eta), 0) {
			return fmt.Errorf("candidate step size %d is %v: must be finite", i, eta)
		}
	}
	for _, check := range s.Checks {
		if err := check(in); err != nil {
			return err
		}
	}
	for _, noise := range s.noises {
		if err := checkNoise(in.Scalars[noise.Std()], in.Scalars[noise.Step()]); err != nil {
			return err
		}
	}
	resumed, err := s.search.resume(in)
	if err != nil {
		return err
	}
	if resumed && len(s.noises) == 0 || len(s.draws) == 0 {
		return nil
	}
	if in.Draw <= *drawn {
		return fmt.Errorf("noise position %d after %d: %w", in.Draw, *drawn, device.ErrDrawUsed)
	}
	*drawn = in.Draw
	for _, d := range s.streams {
		if !d.Claim(in.Draw) {
			return fmt.Errorf("noise position %d of a stream that another network draws from: %w", in.Draw, device.ErrDrawUsed)
		}
	}
	s.search.begin(in)
	return nil
}

// Positive says that x is a finite number above 0.
func Positive(x float32) bool { return x > 0 && x <= math.MaxFloat32 }
