package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Gaussian adds independent normal noise of standard deviation
// multiplier·bound to every coordinate of a sum in which each record's share
// has L2 norm at most bound (Abadi et al. 2016, algorithm 1). The event counts
// noise in units of the bound; what adding, removing or replacing a record
// does to the sum is the accountant's to know.
//
// Rounding lets a record move a sum by up to bound·(1+rounding); the deviation
// is larger by as much, so that the event is that of the exact sum.
type Gaussian struct {
	multiplier, bound, rounding float64
	noise                       device.Noise
}

// NewGaussian checks the multiplier (σ/C, above 0), the bound (C, above 0) and
// the rounding (0 or more; device.Net.Rounding of the largest batch). Where
// a stream serves several mechanisms, each needs a tensor of its own: a position that was drawn
// before is refused when a step is recorded or run.
func NewGaussian(multiplier, bound, rounding float64, s *stream.Stream, tensor uint32) (*Gaussian, error) {
	if !(multiplier > 0) || math.IsInf(multiplier, 0) {
		return nil, fmt.Errorf("noise multiplier %v: must be a finite number above 0", multiplier)
	}
	if !(bound > 0) || bound > device.MostClip {
		return nil, fmt.Errorf("clip norm %v: must be above 0 and at most %g", bound, float64(device.MostClip))
	}
	if !(rounding >= 0) || rounding > mostRounding {
		return nil, fmt.Errorf("rounding moves a clipped sum by %v of the clip norm: at most %v is allowed; let more examples go through the network together, or make batches smaller", rounding, mostRounding)
	}
	if s == nil {
		return nil, fmt.Errorf("the Gaussian mechanism needs a noise stream")
	}
	return &Gaussian{multiplier, bound, rounding, device.NewNoise(s, tensor)}, nil
}

// mostRounding is where a sum in single precision stops being one.
const mostRounding = 1

// Release records the release of a sum.
func (g *Gaussian) Release(q device.Queue, dst device.Vector, src device.Sum) Noisy {
	q.Release(dst, src, g.noise)
	return Noisy{dst, true}
}

// Set gives a run its clip norm and noise together, so that one never moves
// without the other. The deviation is rounded up to float32.
func (g *Gaussian) Set(in *device.Inputs) {
	in.Scalars[device.Clip] = float32(g.bound)
	in.Scalars[device.NoiseStd] = roundUp(g.multiplier * (1 + g.rounding) * float64(in.Scalars[device.Clip]))
}

// SetBound moves the bound for the releases to come.
func (g *Gaussian) SetBound(c float64) { g.bound = c }

// roundUp is the least float32 that is not below x.
func roundUp(x float64) float32 {
	y := float32(x)
	if float64(y) < x {
		y = math.Nextafter32(y, float32(math.Inf(1)))
	}
	return y
}

// Event is a Gaussian of the multiplier.
func (g *Gaussian) Event() accountant.Mechanism {
	return accountant.Gaussian{NoiseMultiplier: g.multiplier}
}
