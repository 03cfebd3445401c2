package reach

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Scalars are what a step is told beside its rows and its position. All of them are public.
type Scalars = [device.Slots]float32

// NoiseOf is the noise of a step.
func NoiseOf(s *Scalars) Noise {
	return Noise{Std: s[device.NoiseStd], Step: float64(s[device.NoiseStep])}
}

// Listen is the device, and keeps in s the scalars of the latest step with noise that its nets were to run.
func Listen(d device.Device, s *Scalars) device.Device { return listening{d, s} }

type listening struct {
	device.Device
	scalars *Scalars
}

// Wrapped is the device itself, which maps records unheard.
func (d listening) Wrapped() device.Device { return d.Device }

func (d listening) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return listeningNet{n, d.scalars}, err
}

type listeningNet struct {
	device.Net
	scalars *Scalars
}

func (n listeningNet) Record(body func(device.Queue)) (device.Step, error) {
	s, err := n.Net.Record(body)
	return listeningStep{s, n.scalars}, err
}

type listeningStep struct {
	device.Step
	scalars *Scalars
}

func (s listeningStep) Run(in *device.Inputs) error {
	if in.Scalars[device.NoiseStd] != 0 {
		*s.scalars = in.Scalars
	}
	return s.Step.Run(in)
}
