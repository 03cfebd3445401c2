package record

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Step is what one recorded step asks of its runs.
type Step struct {
	// Index is what the latest run found, by the step's search or minimum. The device sets it, where
	// there is one. It may wait for the run.
	Index      func() (int, error)
	net        *Net
	tables     []gathered // that rows are gathered from
	clips      bool
	words      int // of views that a run brings for a row
	candidates int // how many of a run's step sizes are read
	checks     []func(*device.Inputs) error
	after      []func(*device.Inputs) // what an admitted run changes
	noises     []device.Noise
	search     device.Search
	queries    int    // of the search; 0: the step has none
	asked      bool   // for an index, by a search or a minimum
	draws      []draw // of the noises, and of the search or the minimum
	streams    []*stream.Stream
}

// gathered is a table of which a step reads units, or single rows.
type gathered struct {
	*device.Rows
	units int
}

// draw is a place in a stream that a step draws from.
type draw interface {
	Stream() *stream.Stream
	Tensor() uint32
}

// tallies notes that the step adds a run's rows to a sum on a grid.
func (s *Step) tallies(x *sum) {
	s.checks = append(s.checks, x.tally.add)
	s.after = append(s.after, x.tally.added)
}

// clears notes that the step lets a sum on a grid go, which a check may refuse.
func (s *Step) clears(x *sum, check func(*device.Inputs) error) {
	s.checks = append(s.checks, check)
	s.after = append(s.after, func(*device.Inputs) { x.tally.rows = 0 })
}

// releases notes the noise of one more release of the step, of so many values.
func (s *Step) releases(noise device.Noise, values int) error {
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
	if !slices.Contains(s.streams, d.Stream()) {
		s.streams = append(s.streams, d.Stream())
	}
	s.draws = append(s.draws, d)
	return nil
}

// Admit checks a run's inputs, takes its noise position and notes what it changes. What
// it refuses is the net's failure. No message tells about rows.
func (s *Step) Admit(in *device.Inputs) error {
	for _, check := range []func(*device.Inputs) error{s.checkRows, s.checkScalars, s.claim} {
		if err := check(in); err != nil {
			return s.net.Fail(err)
		}
	}
	for _, f := range s.after {
		f(in)
	}
	return nil
}

func (s *Step) checkRows(in *device.Inputs) error {
	if most := s.net.Options.Capacity; len(in.Rows) > most {
		return fmt.Errorf("a run was given more rows than the capacity of %d", most)
	}
	if want := len(in.Rows) * s.words; len(in.Words) != want && s.words > 0 {
		return fmt.Errorf("a run was given %d words for views, which need %d for each row", len(in.Words), s.words)
	}
	for _, t := range s.tables {
		for _, r := range in.Rows {
			if r < 0 || int(r) >= t.units {
				return fmt.Errorf("a run names a row that the table does not have")
			}
		}
	}
	return nil
}

func (s *Step) checkScalars(in *device.Inputs) error {
	if clip := in.Scalars[device.Clip]; s.clips && (!positive(clip) || clip > device.MostClip) {
		return fmt.Errorf("clip norm %v: must be above 0 and at most %g", clip, float64(device.MostClip))
	}
	for i, eta := range in.Candidates[:s.candidates] {
		if math.IsNaN(float64(eta)) || math.IsInf(float64(eta), 0) {
			return fmt.Errorf("candidate step size %d is %v: must be finite", i, eta)
		}
	}
	for _, check := range s.checks {
		if err := check(in); err != nil {
			return err
		}
	}
	for _, noise := range s.noises {
		if err := checkNoise(in.Scalars[noise.Std()], in.Scalars[noise.Step()]); err != nil {
			return err
		}
	}
	return nil
}

// claim takes the run's noise position, unless the run draws nothing or goes on with a search.
func (s *Step) claim(in *device.Inputs) error {
	resumed, err := s.resume(in)
	if err != nil {
		return err
	}
	if resumed && len(s.noises) == 0 || len(s.draws) == 0 {
		return nil
	}
	if drawn := s.net.drawn; in.Draw <= drawn {
		return fmt.Errorf("noise position %d after %d: %w", in.Draw, drawn, device.ErrDrawUsed)
	}
	s.net.drawn = in.Draw
	for _, x := range s.streams {
		if !x.Claim(in.Draw) {
			return fmt.Errorf("noise position %d of a stream that another network draws from: %w", in.Draw, device.ErrDrawUsed)
		}
	}
	s.begin(in)
	return nil
}

// positive says that x is a finite number above 0.
func positive(x float32) bool { return x > 0 && x <= math.MaxFloat32 }
