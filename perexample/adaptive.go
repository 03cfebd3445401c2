package perexample

import (
	"fmt"
	"math"
)

// Adaptive moves the clip norm of flat clipping towards a quantile of the
// gradients' norms (Andrew et al. 2021, "Differentially Private Learning with
// Adaptive Clipping", algorithm 1). It sees the released count alone, so that
// every clip norm after the first is a released value, too.
//
// The multiplier σ/C of the gradient's noise does not move, so neither does
// its price. The count has a price of its own: each record's share of it is at
// most ½, under noise of the public deviation CountDeviation.
type Adaptive struct {
	Quantile       float64 // γ: the share of gradients to leave as they are, in (0, 1)
	Floor, Ceiling float64 // public bounds of C
}

// The constants of Adaptive that its authors recommend.
const (
	AdaptiveQuantile = 0.5
	adaptiveRate     = 0.2 // η_C, of the geometric update
	adaptiveNoise    = 20  // of the count: one part in so many of the expected batch
)

// AdaptiveRange is how far C may move from its first value by default: to a
// thousandth and to a thousandfold.
const AdaptiveRange = 1000

// CountDeviation is the standard deviation of the noise on the count of a
// batch: a twentieth of the public expected batch.
func CountDeviation(expectedBatch float64) float64 { return expectedBatch / adaptiveNoise }

func (a Adaptive) Validate(clip float64) error {
	switch {
	case !(a.Quantile > 0 && a.Quantile < 1):
		return fmt.Errorf("clip quantile %v: must be in (0, 1)", a.Quantile)
	case !(a.Floor > 0) || math.IsInf(a.Floor, 0):
		return fmt.Errorf("clip floor %v: must be a finite number above 0", a.Floor)
	case !(a.Ceiling >= a.Floor) || math.IsInf(a.Ceiling, 0):
		return fmt.Errorf("clip ceiling %v: must be a finite number, at least the clip floor of %v", a.Ceiling, a.Floor)
	case !(clip >= a.Floor && clip <= a.Ceiling):
		return fmt.Errorf("clip norm %v: adaptive clipping keeps it in [%v, %v]; start within it, or change clip_floor or clip_ceiling", clip, a.Floor, a.Ceiling)
	}
	return nil
}

// Next is the clip norm after a step at clip whose released count was count:
// C·exp(−η_C(b̃ − γ)), kept between the bounds, with b̃ = count/(q·N) + ½ since
// the count is centred. Noise may carry b̃ out of [0, 1], which the paper allows.
func (a Adaptive) Next(clip, count, expectedBatch float64) float64 {
	fraction := count/expectedBatch + 0.5
	return min(max(clip*math.Exp(-adaptiveRate*(fraction-a.Quantile)), a.Floor), a.Ceiling)
}
