package l2p

import (
	"fmt"
	"math"
)

// Setting is what is public of a run before it begins.
type Setting struct {
	Steps  int     // T, for which the budget is planned
	Params int     // P, of the network
	Clip   float64 // C
	Batch  float64 // expected batch q·N, the normaliser of a sum
	// Least and Planned are noise multipliers: σ_min, with which a step would spend the
	// whole budget, and σ_g, with which T steps do. Both are 0 without noise.
	Least, Planned float64
}

func (s Setting) validate() error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	switch {
	case s.Steps < 1:
		return fmt.Errorf("a protector was given %d steps: must be 1 or more", s.Steps)
	case s.Params < 1:
		return fmt.Errorf("a protector was given a network of %d parameters", s.Params)
	case !positive(s.Clip) || !positive(s.Batch):
		return fmt.Errorf("a protector was given clip norm %v and an expected batch of %v: both must be finite and above 0", s.Clip, s.Batch)
	case !(s.Least >= 0) || !(s.Planned >= s.Least) || math.IsInf(s.Planned, 0):
		return fmt.Errorf("a protector was given noise multipliers from %v, %v planned: must be finite and in order", s.Least, s.Planned)
	}
	return nil
}

// Multiplier is the noise for the output y in [0, 1] of a scheduler:
// σ_min + 2(σ_g − σ_min)·y, so that ½ stands for the planned noise (appendix B.7).
func (s Setting) Multiplier(y float64) float64 { return s.Least + 2*(s.Planned-s.Least)*y }

// unit is the size that a coordinate of a released mean gradient is expected to have:
// noise of deviation σC/qN beside a gradient of norm C spread over P coordinates. A
// network of any size and any noise so has inputs of order 1.
func (s Setting) unit(multiplier float64) float64 {
	noise := multiplier * s.Clip / s.Batch
	return math.Sqrt(noise*noise + s.Clip*s.Clip/float64(s.Params))
}

// Gain is what a projector multiplies a mean gradient by before its LSTM reads it.
func (s Setting) Gain(multiplier float64) float64 { return 1 / s.unit(multiplier) }

// level is the share of the noise in that unit, from 0 without noise to 1 where
// nothing else is left.
func (s Setting) level(multiplier float64) float64 {
	return multiplier * s.Clip / s.Batch / s.unit(multiplier)
}

// Released is what a step may know of the data: all of it was released, or is public.
type Released struct {
	Step int     // t, from 1
	Left float64 // share of the budget not spent, from 1 to 0; 1 − (t−1)/T without noise
	// Of step t−1; 0 in the first step.
	Multiplier float64 // σ/C
	Norm2      float64 // squared norm of the released mean gradient
	Norm       float64 // released norm of the mean gradient, noise of its own, where it is asked for
}

// Context is what a projector reads in step t beside the gradient, multiplier being
// that step's.
func (s Setting) Context(r Released, multiplier float64) [3]float64 {
	return [3]float64{float64(r.Step-1) / float64(s.Steps), r.Left, s.level(multiplier)}
}

// Scheduled is what a scheduler reads in step t, in the place of the gradient and as
// context: how much of the last gradient was noise, from the squared norm that it
// was expected to have, P units² of which; the time; the budget; and the norm.
func (s Setting) Scheduled(r Released) (float64, [3]float64) {
	energy := 0.0
	if u := s.unit(r.Multiplier); r.Step > 1 {
		energy = math.Log(r.Norm2/(float64(s.Params)*u*u) + 1e-3)
	}
	return energy, [3]float64{float64(r.Step-1) / float64(s.Steps), r.Left, r.Norm / s.Clip}
}

// ProjectorContext and SchedulerContext are the numbers of public figures that the LSTMs read.
const (
	ProjectorContext = 3
	SchedulerContext = 3
)
