package mechanism

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Gaussian adds independent normal noise of standard deviation at least
// multiplier·bound to every coordinate of a sum in which each record's share
// has L2 norm at most bound (Abadi et al. 2016, algorithm 1). The event counts
// noise in units of the bound; what adding, removing or replacing a record
// does to the sum is the accountant's to know.
//
// The guarantee is one of the numbers that are computed. A record moves the
// floating-point sum by up to bound·(1+rounding), and its rounding to the grid that the
// noise lies on by √values·γ more (device.Queue.Release), or by as much for each part of a
// total whose parts are rounded by themselves (device.Combiner). The deviation is that of
// the multiplier times both together, so that the event is what the release costs.
// docs/proofs/exact-noise.md has the proof.
type Gaussian struct {
	multiplier, bound, rounding float64
	values, parts               int
	noise                       device.Noise
}

// NewGaussian checks the multiplier (σ/C, above 0), the bound (C, above 0), the
// rounding (0 or more; device.Net.Rounding of the largest batch, 0 for sums of losses),
// how many values are released, and of how many parts each is the total (device.Net.Parts,
// 1 for what lies on the grid already). Where a stream serves several mechanisms, each needs a
// tensor of its own: a position that was drawn before is refused when a step is
// recorded or run.
func NewGaussian(multiplier, bound, rounding float64, values, parts int, s *stream.Stream, tensor uint32) (*Gaussian, error) {
	if !(multiplier > 0) || math.IsInf(multiplier, 0) {
		return nil, fmt.Errorf("noise multiplier %v: must be a finite number above 0", multiplier)
	}
	if !(bound > 0) || bound > device.MostClip {
		return nil, fmt.Errorf("clip norm %v: must be above 0 and at most %g", bound, float64(device.MostClip))
	}
	if !(rounding >= 0) || rounding > mostRounding {
		return nil, fmt.Errorf("rounding moves a clipped sum by %v of the clip norm: at most %v is allowed; let more examples go through the network together, or make batches smaller", rounding, mostRounding)
	}
	if values < 1 {
		return nil, fmt.Errorf("a release of %d values: must be at least one", values)
	}
	if parts < 1 {
		return nil, fmt.Errorf("a release of %d parts: must be at least one", parts)
	}
	if s == nil {
		return nil, fmt.Errorf("the Gaussian mechanism needs a noise stream")
	}
	return &Gaussian{multiplier, bound, rounding, values, parts, device.NewNoise(s, tensor)}, nil
}

// mostRounding is where a sum in single precision stops being one.
const mostRounding = 1

func (g *Gaussian) Release(q device.Queue, dst device.Vector, src device.Sum) Noisy {
	q.Release(dst, src, g.noise)
	return Noisy{dst, true}
}

// Set gives a run its clip norm and noise together, so that one never moves
// without the other.
func (g *Gaussian) Set(in *device.Inputs) {
	in.Scalars[device.Clip] = float32(g.bound)
	g.set(in)
}

// set gives a run the noise alone, for the bound as float32 has it or the bound, whichever is larger.
func (g *Gaussian) set(in *device.Inputs) {
	bound := math.Max(g.bound, float64(float32(g.bound)))
	std, step := onGrid(g.multiplier, bound, bound*(1+g.rounding), g.values, g.parts)
	in.Scalars[g.noise.Std()], in.Scalars[g.noise.Step()] = std, step
}

func (g *Gaussian) SetBound(c float64) { g.bound = c }

func (g *Gaussian) Event() accountant.Mechanism {
	return accountant.Gaussian{NoiseMultiplier: g.multiplier}
}
