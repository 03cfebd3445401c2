package mechanism

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Unprotected releases sums as they are, for ordinary training and for
// clipping without noise. Nothing that it releases is private.
type Unprotected struct {
	clip  float64
	noise device.Noise
}

// NewUnprotected releases sums clipped at clip (ignored by plain schedules).
func NewUnprotected(clip float64, s *stream.Stream) *Unprotected {
	return &Unprotected{clip, device.NewNoise(s, 0)}
}

func (u *Unprotected) Release(q device.Queue, dst device.Vector, src device.Sum) Noisy {
	q.Release(dst, src, u.noise)
	return Noisy{dst, true}
}

// Set gives a run its clip norm and no noise.
func (u *Unprotected) Set(in *device.Inputs) {
	in.Scalars[device.Clip] = float32(u.clip)
	in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 0, 0
}

func (u *Unprotected) SetBound(c float64) { u.clip = c }

// Event is nil: no accountant can bound what this costs.
func (u *Unprotected) Event() accountant.Mechanism { return nil }

// NewUnprotectedSearch is a search without noise, Armijo's own: nothing that it
// tells is private.
func NewUnprotectedSearch(bound float64, queries string, s *stream.Stream, tensor uint32) *NoisyBTLS {
	c := accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, Queries: queries}
	return &NoisyBTLS{c, bound, device.NewSearch(s, tensor, device.GaussianLaw, queries == accountant.SharedBaseline, 0)}
}
