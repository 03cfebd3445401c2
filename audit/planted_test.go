package audit

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// An adding is a way to add a normal to a float32 sum, told what the step is told.
type adding func(sum float32, z float64, in *device.Inputs) float32

// fusedInFloats adds float32 noise by a fused multiply-add, as processors and GPUs have it: float64 holds the product,
// and of the sum enough digits that rounding it once more changes nothing in all but one of 2²⁸.
func fusedInFloats(sum float32, z float64, in *device.Inputs) float32 {
	return float32(math.FMA(float64(float32(z)), float64(in.Scalars[device.NoiseStd]), float64(sum)))
}

// addedInFloats rounds the noise, too.
func addedInFloats(sum float32, z float64, in *device.Inputs) float32 {
	return float32(z)*in.Scalars[device.NoiseStd] + sum
}

// addingDevice sums gradients by the device that it is made of, and adds noise in a way of its own.
type addingDevice struct {
	device.Device
	add adding
}

func (d addingDevice) Compile(s *plan.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return addingNet{n, s.Program.NumParams(), d.add}, err
}

type addingNet struct {
	device.Net
	params int
	add    adding
}

// Record cuts a step where it releases: the net releases the sum alone, and what follows runs on what was added to it.
func (n addingNet) Record(body func(device.Queue)) (device.Step, error) {
	q := &addingQueue{net: n}
	body(q)
	q.cut(nil)
	return q.step, q.err
}

type addingQueue struct {
	device.Queue // nil: no step of a test asks for more than what follows
	net          addingNet
	step         addingStep
	ops          []func(device.Queue)
	err          error
}

func (q *addingQueue) ClippedSum(dst device.Sum, from device.Data) {
	q.ops = append(q.ops, func(q device.Queue) { q.ClippedSum(dst, from) })
}

func (q *addingQueue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	q.ops = append(q.ops, func(q device.Queue) { q.Update(r, p, g, state...) })
}

func (q *addingQueue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	q.ops = append(q.ops, func(q device.Queue) { q.Release(dst, src, noise) })
	q.cut(func(in *device.Inputs) error {
		if in.Scalars[device.NoiseStd] == 0 {
			return nil
		}
		y, z := make([]float32, q.net.params), make([]float64, q.net.params)
		if err := q.net.Read(dst, y); err != nil {
			return err
		}
		noise.Stream().Normals(z, in.Draw, noise.Tensor(), 0)
		for i := range y {
			y[i] = q.net.add(y[i], z[i], in)
		}
		return q.net.Write(dst, y)
	})
}

// cut ends a part of the step; add is told what follows a part that releases.
func (q *addingQueue) cut(add func(*device.Inputs) error) {
	if q.err != nil || len(q.ops) == 0 {
		return
	}
	ops := q.ops
	q.ops = nil
	s, err := q.net.Net.Record(func(q device.Queue) {
		for _, op := range ops {
			op(q)
		}
	})
	q.err = err
	q.step = append(q.step, part{s, add})
}

// addingStep is a step in parts.
type addingStep []part

type part struct {
	device.Step
	add func(*device.Inputs) error // after a release
}

func (s addingStep) Run(in *device.Inputs) error {
	for _, p := range s {
		told := *in
		if p.add != nil { // a release of the sum as it is
			told.Scalars = [device.Slots]float32{device.Clip: in.Scalars[device.Clip]}
		}
		if err := p.Step.Run(&told); err != nil {
			return err
		}
		if p.add != nil {
			if err := p.add(in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s addingStep) Wait() (device.Outputs, error) { return s[len(s)-1].Wait() }
