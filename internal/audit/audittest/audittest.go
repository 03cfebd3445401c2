// Package audittest reads from a run directory whether a record was in the training set: from the floats of a model or
// of a checkpoint after one step. Whoever has the directory can do the same who knows the program, the settings and
// every other record.
package audittest

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/privgrad/privgrad/internal/audit/reach"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/train"
)

// World is a training set by the settings that lead to it.
type World struct {
	Config  train.Config
	Options train.Options
}

// resolve makes the plan of a world.
func (w World) resolve(t testing.TB) *plan.Plan {
	t.Helper()
	o := &w.Options
	p, err := plan.Resolve(w.Config, plan.Options{Sources: o.Sources, Network: o.Network, Method: o.Method, Device: o.Device})
	fatal(t, err)
	return p
}

// Released values that a run directory holds after its first step.
const (
	Model        = "model.safetensors"
	Parameters   = "parameters" // of the checkpoint
	FirstMoment  = "optimizer.0"
	SecondMoment = "optimizer.1"
)

// Adversary knows two worlds, which of them a run was of being all that it does not know.
type Adversary struct {
	program *ir.Program
	initial []float32
	sums    [2][]float32 // before the noise
	noise   reach.Noise
	update  func(dst, gradient []float32, tensor string) error
}

// New works out the first step's sums in both worlds, whose settings must be of one step that every record takes
// part in, and what the update makes of a released sum.
func New(t testing.TB, worlds [2]World) *Adversary {
	t.Helper()
	a := &Adversary{}
	for w, world := range worlds {
		p := world.resolve(t)
		if p.Steps != 1 || p.SamplingRate != 1 {
			t.Fatalf("%d steps at sampling rate %v: the adversary knows the sum of one step at rate 1", p.Steps, p.SamplingRate)
		}
		a.program, a.initial = p.Network.Program, p.Network.Params()
		if w == 0 {
			a.learn(t, p, world.Options.Device)
		}
		p.Sigma = 0
		a.sums[w] = make([]float32, len(a.initial))
		step(t, p, world.Options.Device, func(e *engine.Engine) { fatal(t, e.Released(a.sums[w])) })
	}
	return a
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// step does the first step of a plan with noise of its own.
func step(t testing.TB, p *plan.Plan, d device.Device, then func(*engine.Engine)) {
	t.Helper()
	d, data, rows := load(t, p, d)
	var supply engine.Given
	e, err := p.Engine(d, tables.Records{Data: data}, noise(t, p), nil, &supply)
	fatal(t, err)
	defer e.Close()
	fatal(t, e.SetParams(p.Network.Params()))
	fatal(t, supply.Step(e, rows))
	fatal(t, e.Wait())
	then(e)
}

// load puts a plan's data on a device, its own where there is none, and lists all rows.
func load(t testing.TB, p *plan.Plan, d device.Device) (device.Device, device.Data, []int32) {
	t.Helper()
	d = opened(t, p, d)
	data, err := p.Reader().Load(d, p.Set.Train)
	fatal(t, err)
	t.Cleanup(func() { data.Close() })
	rows := make([]int32, p.Set.Train.Len())
	for i := range rows {
		rows[i] = int32(i)
	}
	return d, data, rows
}

// opened is the device, or the plan's where there is none.
func opened(t testing.TB, p *plan.Plan, d device.Device) device.Device {
	t.Helper()
	if d == nil {
		var err error
		d, err = devices.Open(p.Config.Device, 1)
		fatal(t, err)
		t.Cleanup(func() { d.Close() })
	}
	return d
}

// noise is a stream that nothing else draws from.
func noise(t testing.TB, p *plan.Plan) *stream.Stream {
	t.Helper()
	key, err := stream.NewKey()
	fatal(t, err)
	s, err := p.Stream(key)
	fatal(t, err)
	return s
}

// learn takes a step to see what is public of it, and records the update alone.
func (a *Adversary) learn(t testing.TB, p *plan.Plan, d device.Device) {
	t.Helper()
	d = opened(t, p, d)
	var in device.Inputs
	step(t, p, reach.Listen(d, &in.Scalars), func(*engine.Engine) {})
	a.noise = reach.NoiseOf(&in.Scalars)
	in.Scalars[device.Rate] = float32(p.Facts.Rate.At(1))

	rule := device.SGD
	switch {
	case p.Config.Optimizer == "dp-adam":
		rule = device.Adam
	case p.Config.Optimizer == "dp-adamw":
		rule = device.AdamW
	case p.Config.Momentum > 0:
		rule = device.HeavyBall
	}
	net, err := d.Compile(p.Schedule, device.Options{Capacity: p.Capacity})
	fatal(t, err)
	t.Cleanup(func() { net.Close() })
	gradient, err := net.NewVector(1)
	fatal(t, err)
	kept := map[string]device.Vector{Model: net.Params(), Parameters: net.Params()}
	var states []device.Vector
	for _, name := range []string{FirstMoment, SecondMoment}[:rule.States()] {
		kept[name], err = net.NewVector(1)
		fatal(t, err)
		states = append(states, kept[name])
	}
	update, err := net.Record(func(q device.Queue) { q.Update(rule, net.Params(), gradient, states...) })
	fatal(t, err)
	zero := make([]float32, len(a.initial))
	a.update = func(dst, y []float32, tensor string) error {
		for _, v := range states {
			if err := net.Write(v, zero); err != nil {
				return err
			}
		}
		if err := errors.Join(net.Write(net.Params(), a.initial), net.Write(gradient, y), update.Run(&in)); err != nil {
			return err
		}
		return net.Read(kept[tensor], dst)
	}
}

// LogRatio is how much a run directory's values speak for the second world: the log of their probability there over
// that in the first.
func (a *Adversary) LogRatio(t testing.TB, dir, tensor string) float64 {
	t.Helper()
	seen, params := a.read(t, dir, tensor), a.read(t, dir, Parameters)
	// The parameters fall where the gradient grows. Of a square they tell the sign.
	turn := func(y, value float32) float32 { return value }
	switch tensor {
	case Model, Parameters:
		turn = func(_, value float32) float32 { return -value }
	case SecondMoment:
		turn = func(y, value float32) float32 { return float32(math.Copysign(float64(value), float64(y))) }
	}
	for i, x := range seen {
		seen[i] = turn(a.initial[i]-params[i], x)
	}
	ranges, err := reach.Invert(func(dst, y []float32) error {
		err := a.update(dst, y, tensor)
		for i, x := range dst {
			dst[i] = turn(y[i], x)
		}
		return err
	}, seen)
	fatal(t, err)
	for _, r := range ranges {
		if r.Low > r.High {
			t.Fatalf("%s holds a value that no gradient leads to: the adversary does not know the update", tensor)
		}
	}
	return a.noise.LogRatio(ranges, a.sums)
}

// read gives a tensor of the checkpoint, or the parameters as the model's file has them.
func (a *Adversary) read(t testing.TB, dir, tensor string) []float32 {
	t.Helper()
	path := filepath.Join(dir, "checkpoint", "state.safetensors")
	if tensor == Model {
		path = filepath.Join(dir, Model)
	}
	f, err := os.Open(path)
	fatal(t, err)
	defer f.Close()
	tensors, _, err := safetensors.Read(f, 1<<30)
	fatal(t, err)
	values := make([]float32, len(a.initial))
	read := 0
	for _, x := range tensors {
		if tensor == x.Name {
			read += copy(values, x.Data)
		}
		for _, p := range a.program.Params {
			if tensor == Model && p.Name == x.Name {
				read += copy(values[p.Offset:], x.Data)
			}
		}
	}
	if read != len(values) {
		t.Fatalf("%s holds %d of %d values of %s", path, read, len(values), tensor)
	}
	return values
}
