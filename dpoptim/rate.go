package dpoptim

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
)

// The shapes of a Rate.
const (
	Constant = "constant"
	Cosine   = "cosine"
)

// Rate is a step size over a committed schedule: of a step's place in it alone,
// so that it is public, and the same after a resumption.
type Rate struct {
	Peak   float64 // largest step size, above 0
	Shape  string
	Warmup int // steps that rise to the peak
	Steps  int // of the schedule
}

// Shapes lists what a Rate's shape may be.
func Shapes() []string { return []string{Constant, Cosine} }

// Validate finds faults of what a user may set.
func (r Rate) Validate() error {
	switch {
	case !slices.Contains(Shapes(), r.Shape):
		return usage.Unknown("lr-schedule", r.Shape, Shapes())
	case r.Warmup < 0 || r.Warmup > r.Steps:
		return fmt.Errorf("warmup %d: must be 0 to %d, the steps of the schedule", r.Warmup, r.Steps)
	}
	return nil
}

// At is the step size of a step of the schedule, counted from 1. The first
// Warmup steps rise evenly to the peak (Goyal et al. 2017, section 2.2). From
// there on Cosine falls along half a cosine that would reach 0 one step after the
// last (Loshchilov and Hutter 2017, equation 5, without restarts).
func (r Rate) At(step int) float64 {
	switch {
	case step <= r.Warmup:
		return r.Peak * float64(step) / float64(r.Warmup)
	case r.Shape == Cosine:
		return r.Peak * 0.5 * (1 + math.Cos(math.Pi*float64(step-1-r.Warmup)/float64(r.Steps-r.Warmup)))
	}
	return r.Peak
}
