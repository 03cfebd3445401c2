package audit

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// An adding is a way to add a normal to a float32 sum.
type adding func(sum float32, z float64, std, step float32) float32

// fusedInFloats adds float32 noise by a fused multiply-add, as processors and GPUs have it: float64 holds the product,
// and of the sum enough digits that rounding it once more changes nothing in all but one of 2²⁸.
func fusedInFloats(sum float32, z float64, std, _ float32) float32 {
	return float32(math.FMA(float64(float32(z)), float64(std), float64(sum)))
}

// addedInFloats rounds the noise, too.
func addedInFloats(sum float32, z float64, std, _ float32) float32 {
	return float32(float32(z)*std) + sum
}

// addedOnAGrid rounds the sum to a grid and adds noise in whole steps of it, as is right.
func addedOnAGrid(sum float32, z float64, std, step float32) float32 {
	gamma := float64(step)
	return float32((math.RoundToEven(float64(sum)/gamma) + math.RoundToEven(z*float64(std)/gamma)) * gamma)
}

// addedBesideAGrid forgets to round the sum.
func addedBesideAGrid(sum float32, z float64, std, step float32) float32 {
	gamma := float64(step)
	return float32(float64(sum) + math.RoundToEven(z*float64(std)/gamma)*gamma)
}

// normals draws in float64, by Box and Muller's transform.
func normals(r *stream.Reader, n int) []float64 {
	uniform := func() float64 { return (float64(r.Uint64()>>12) + 0.5) * 0x1p-52 }
	z := make([]float64, n+n%2)
	for i := 0; i < n; i += 2 {
		radius := math.Sqrt(-2 * math.Log(uniform()))
		sin, cos := math.Sincos(2 * math.Pi * uniform())
		z[i], z[i+1] = radius*cos, radius*sin
	}
	return z[:n]
}

// shared draws normals of which every two neighbours are one, and what is left of each is independent.
func shared(alone float64) func(r *stream.Reader, n int) []float64 {
	return func(r *stream.Reader, n int) []float64 {
		z, same, own := make([]float64, n), normals(r, (n+1)/2), normals(r, n)
		for i := range z {
			z[i] = math.Sqrt(1-alone*alone)*same[i/2] + alone*own[i]
		}
		return z
	}
}

// halved draws normals whose second half is the first, with the other sign.
func halved(r *stream.Reader, n int) []float64 {
	z := normals(r, n)
	for i := n / 2; i < n; i++ {
		z[i] = -z[i-n/2]
	}
	return z
}

// addingDevice sums gradients by the device that it is made of, and adds noise in a way of its own.
type addingDevice struct {
	device.Device
	add  adding
	draw func(*stream.Reader, int) []float64
}

func (d addingDevice) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return addingNet{n, d.add, d.draw, s.Program.NumParams(), map[device.Vector]int{}}, err
}

type addingNet struct {
	device.Net
	add     adding
	draw    func(*stream.Reader, int) []float64
	params  int
	scalars map[device.Vector]int // sizes of vectors that belong to no parameter
}

func (n addingNet) NewScalars(size int) (device.Vector, error) {
	v, err := n.Net.NewScalars(size)
	n.scalars[v] = size
	return v, err
}

// Record cuts a step after its releases: the net releases the sums alone, and what follows runs on what was added to
// them.
func (n addingNet) Record(body func(device.Queue)) (device.Step, error) {
	q := &addingQueue{net: n}
	body(q)
	q.cut()
	return q.step, q.err
}

type addingQueue struct {
	device.Queue // nil: no step of these tests asks for more than what follows
	net          addingNet
	step         addingStep
	ops          []func(device.Queue)
	adds         []func(*device.Inputs) error // what the releases among them leave out
	err          error
}

// op is done after what the releases before it leave out.
func (q *addingQueue) op(f func(device.Queue)) {
	if len(q.adds) > 0 {
		q.cut()
	}
	q.ops = append(q.ops, f)
}

func (q *addingQueue) ClippedSum(dst device.Sum, from device.Data) {
	q.op(func(q device.Queue) { q.ClippedSum(dst, from) })
}

func (q *addingQueue) CountedSum(dst, count device.Sum, from device.Data) {
	q.op(func(q device.Queue) { q.CountedSum(dst, count, from) })
}

func (q *addingQueue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	q.op(func(q device.Queue) { q.Losses(dst, from, ask) })
}

func (q *addingQueue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	q.op(func(q device.Queue) { q.Update(r, p, g, state...) })
}

func (q *addingQueue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	if len(q.ops) > 0 && len(q.adds) == 0 {
		q.cut() // what comes before a release is told more than it is
	}
	q.ops = append(q.ops, func(q device.Queue) { q.Release(dst, src, noise) })
	q.adds = append(q.adds, func(in *device.Inputs) error {
		std := in.Scalars[noise.Std()]
		if std == 0 {
			return nil
		}
		size, ok := q.net.scalars[dst]
		if !ok {
			size = q.net.params
		}
		y, z := make([]float32, size), q.net.draw(noise.Stream().Reader(in.Draw, noise.Tensor()), size)
		if err := q.net.Read(dst, y); err != nil {
			return err
		}
		for i := range y {
			y[i] = q.net.add(y[i], z[i], std, in.Scalars[noise.Step()])
		}
		return q.net.Write(dst, y)
	})
}

// cut ends a part of the step.
func (q *addingQueue) cut() {
	p := part{adds: q.adds}
	ops := q.ops
	q.ops, q.adds = nil, nil
	if q.err == nil && len(ops) > 0 {
		p.Step, q.err = q.net.Net.Record(func(q device.Queue) {
			for _, op := range ops {
				op(q)
			}
		})
		q.step = append(q.step, p)
	}
}

// addingStep is a step in parts, each of releases or of other work.
type addingStep []part

type part struct {
	device.Step
	adds []func(*device.Inputs) error // after releases
}

func (s addingStep) Run(in *device.Inputs) error {
	for _, p := range s {
		told := *in
		if p.adds != nil { // the sums are released as they are
			told.Scalars = [device.Slots]float32{device.Clip: in.Scalars[device.Clip]}
		}
		err := p.Step.Run(&told)
		for _, add := range p.adds {
			if err == nil {
				err = add(in)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s addingStep) Wait() (device.Outputs, error) { return s[len(s)-1].Wait() }
