package admit

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/plan"
)

// A Grid is the lattice γ·ℤ on which an exact net sums at clip norm C. γ is
// the largest power of two that is at most C·2⁻²⁰, so that C/γ lies in
// [2²⁰, 2²¹).
type Grid struct {
	Step  float64 // γ
	Clip  float64 // C
	Most2 uint64  // ⌊(C/γ)²⌋
}

// gridBits is how many more binary digits than C has the grid.
const gridBits = 20

// NewGrid makes the grid of a clip norm, a finite number above 0.
func NewGrid(clip float32) Grid {
	fraction, exponent := math.Frexp(float64(clip))
	m := uint64(fraction * 0x1p24) // a float32 has 24 digits: C/γ = m/8, exactly
	return Grid{
		Step: math.Ldexp(1, exponent-1-gridBits), Clip: float64(clip),
		Most2: m * m >> 6,
	}
}

// CheckExact says whether a schedule can run on a grid.
func CheckExact(s *plan.Schedule) error {
	if s.Clipping != plan.Flat {
		return fmt.Errorf("exact sums of %s need flat clipping, not %s: their bound is one norm over all parameters", s.Program.Name, s.Clipping)
	}
	for i := range s.Program.Ops {
		op := &s.Program.Ops[i]
		stored, combined := 0, 0
		for _, st := range s.Steps {
			switch {
			case st == plan.Step{Kind: plan.GradStore, Op: i}:
				stored++
			case st == plan.Step{Kind: plan.Combine, Op: i}:
				combined++
			}
		}
		if op.Weight != plan.None && stored*combined != 1 {
			return fmt.Errorf("exact sums truncate every coordinate of every example's gradient, which the schedule never forms for %s: use strategy materialise or microbatch", op.Name)
		}
	}
	if n := s.Program.NumParams(); n > exact.MaxDraws {
		return fmt.Errorf("exact sums of %s: %d parameters, exact noise has %d draws", s.Program.Name, n, uint64(exact.MaxDraws))
	}
	return nil
}

// Integers is what is known of an exact net's sum, in grid steps, beside its values.
type Integers struct {
	rows int     // added since the last release
	clip float32 // with which they were
}

// mostRows keeps a sum below 2⁵² in magnitude, and below 2⁵³ with noise:
// a coordinate of a row is below 2²¹, noise of at most exact.MaxStd steps below
// 2⁴⁴. No batch is so large, for a table's rows are numbered by an int32.
const mostRows = math.MaxInt32

// Add checks what a run would add.
func (s *Integers) Add(in *device.Inputs) error {
	if err := s.sameClip(in); err != nil {
		return err
	}
	if len(in.Rows) > mostRows-s.rows {
		return fmt.Errorf("an exact sum takes at most %d rows before it is released", mostRows)
	}
	return nil
}

// sameClip refuses a clip norm that is not the one of the rows in the sum: it
// would be another grid.
func (s *Integers) sameClip(in *device.Inputs) error {
	if clip := in.Scalars[device.Clip]; s.rows > 0 && clip != s.clip {
		return fmt.Errorf("clip norm %v for an exact sum begun at %v: it can only change after the release", clip, s.clip)
	}
	return nil
}

// Added notes what a run added.
func (s *Integers) Added(in *device.Inputs) {
	s.rows, s.clip = s.rows+len(in.Rows), in.Scalars[device.Clip]
}

// Release checks a release: its grid is that of the rows, and in its steps the
// noise is such as can be drawn.
func (s *Integers) Release(in *device.Inputs) error {
	clip, std := in.Scalars[device.Clip], float64(in.Scalars[device.NoiseStd])
	if !Positive(clip) {
		return fmt.Errorf("clip norm %v: must be a finite number above 0, for it says what an exact sum counts", clip)
	}
	if steps := std / NewGrid(clip).Step; std != 0 && !(steps >= exact.MinStd && steps <= exact.MaxStd) {
		return fmt.Errorf("exact noise of deviation %v at clip norm %v: must be %g to %g grid steps, is %g", std, clip, exact.MinStd, exact.MaxStd, steps)
	}
	return s.sameClip(in)
}

// Released notes a release.
func (s *Integers) Released() { s.rows = 0 }
