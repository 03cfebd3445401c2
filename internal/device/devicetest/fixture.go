package devicetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// Fixture is a net with a case's parameters and table, a sum, and the two
// steps of training: one adds to the sum, the other releases it.
type Fixture struct {
	Net           device.Net
	Data          device.Data
	Sum           device.Sum
	Out           device.Vector
	Noise         device.Noise
	Clipped, Free device.Step // add a run's rows to Sum; release Sum into Out
	size          int         // of the parameters
	capacity      int
	draw          uint64
}

// Stream gives noise of a device's choice that a test can draw again.
func Stream(t testing.TB, d device.Device) *stream.Stream {
	return made(stream.New(d.Info().Cipher, stream.KeyFromSeed(1, "devicetest")))(t)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// made is a value that came without an error.
func made[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// Open compiles a schedule for a case's program and records both steps.
func Open(t testing.TB, d device.Device, s *ir.Schedule, c *Case, capacity int) *Fixture {
	t.Helper()
	return open(t, d, s, c, device.Options{Capacity: capacity}, device.NewNoise(Stream(t, d), 7))
}

func open(t testing.TB, d device.Device, s *ir.Schedule, c *Case, o device.Options, noise device.Noise) *Fixture {
	t.Helper()
	return openOn(t, d, s, c, o, noise, made(d.Load(c.Rows, c.table()))(t))
}

// openOn is open on a table in the place of the case's.
func openOn(t testing.TB, d device.Device, s *ir.Schedule, c *Case, o device.Options, noise device.Noise, data device.Data) *Fixture {
	t.Helper()
	t.Cleanup(func() { must(t, data.Close()) })
	if !o.Exact {
		o.Precision = c.precision
	}
	n := made(d.Compile(s, o))(t)
	t.Cleanup(func() { must(t, n.Close()) })
	must(t, n.Write(n.Params(), c.Params))
	x := &Fixture{Net: n, Data: data, Noise: noise, size: len(c.Params), capacity: o.Capacity}
	x.Sum, x.Out = x.sum(t), x.vector(t, 1)
	x.Clipped = x.record(t, func(q device.Queue) { q.ClippedSum(x.Sum, data) })
	x.Free = x.record(t, func(q device.Queue) { q.Release(x.Out, x.Sum, x.Noise) })
	return x
}

func (s *Fixture) record(t testing.TB, body func(device.Queue)) device.Step {
	return made(s.Net.Record(body))(t)
}

// vector makes one of so many values a parameter.
func (s *Fixture) vector(t testing.TB, width int) device.Vector {
	return made(s.Net.NewVector(width))(t)
}
func (s *Fixture) scalars(t testing.TB, n int) device.Vector { return made(s.Net.NewScalars(n))(t) }
func (s *Fixture) sum(t testing.TB) device.Sum               { return made(s.Net.NewSum())(t) }
func (s *Fixture) scalarSum(t testing.TB, n int) device.Sum  { return made(s.Net.NewScalarSum(n))(t) }

// written makes a vector of values, one a parameter.
func (s *Fixture) written(t testing.TB, values []float32) device.Vector {
	t.Helper()
	v := s.vector(t, 1)
	must(t, s.Net.Write(v, values))
	return v
}

// params writes the parameters.
func (s *Fixture) params(t testing.TB, values []float32) {
	t.Helper()
	must(t, s.Net.Write(s.Net.Params(), values))
}

// setNoise gives a run a release's noise of a standard deviation, on a grid of some 2²⁶ steps
// of it.
func setNoise(in *device.Inputs, n device.Noise, std float64) {
	in.Scalars[n.Std()], in.Scalars[n.Step()] = float32(std), powerOfTwo(float32(std)*0x1p-26)
}

// powerOfTwo is the least one that is at least x, and 1 for what has none.
func powerOfTwo(x float32) float32 {
	fraction, exponent := math.Frexp(float64(x))
	if !(x > 0) || math.IsInf(float64(x), 0) {
		return 1
	}
	if fraction == 0.5 {
		exponent--
	}
	return float32(math.Ldexp(1, exponent))
}

// Drawn is the noise that a release with setNoise draws at a position.
func Drawn(t testing.TB, n device.Noise, draw uint64, std float64, size int) []float64 {
	t.Helper()
	step := float64(powerOfTwo(float32(std) * 0x1p-26))
	g, err := exact.New(float64(float32(std))/step, n.Stream(), n.Tensor())
	must(t, err)
	return steppedBy(g, draw, size, step)
}

// steppedBy is what a sampler draws at a position, times a step.
func steppedBy(g *exact.Sampler, draw uint64, size int, step float64) []float64 {
	k, z := make([]int64, size), make([]float64, size)
	g.Add(k, draw, 0)
	for i, k := range k {
		z[i] = float64(k) * step
	}
	return z
}

// Add adds rows to the sum, in as many runs as the capacity asks for; no rows
// are one empty run.
func (s *Fixture) Add(t testing.TB, rows []int32, clip float64) {
	t.Helper()
	s.addBy(t, s.Clipped, rows, clip)
}

// runs cuts rows to what the capacity takes at once.
func (s *Fixture) runs(rows []int32) [][]int32 {
	if len(rows) == 0 {
		return [][]int32{nil}
	}
	return slices.Collect(slices.Chunk(rows, s.capacity))
}

// addBy adds rows by a step of a test's own.
func (s *Fixture) addBy(t testing.TB, step device.Step, rows []int32, clip float64) {
	t.Helper()
	for _, part := range s.runs(rows) {
		must(t, step.Run(clipAt(clip, part...)))
	}
}

// clipAt is a run of rows at a clip norm.
func clipAt(clip float64, rows ...int32) *device.Inputs {
	in := &device.Inputs{Rows: rows}
	in.Scalars[device.Clip] = float32(clip)
	return in
}

// ran is what a run of a step gives.
func ran(t testing.TB, s device.Step, in *device.Inputs) device.Outputs {
	t.Helper()
	must(t, s.Run(in))
	return made(s.Wait())(t)
}

// next is a run at the next position of the noise.
func (s *Fixture) next() *device.Inputs {
	s.draw++
	return &device.Inputs{Draw: s.draw}
}

// Release reads the sum out with noise of a standard deviation, and ends it.
func (s *Fixture) Release(t testing.TB, std float64) []float32 {
	t.Helper()
	in := s.next()
	setNoise(in, s.Noise, std)
	ran(t, s.Free, in)
	return s.read(t, s.Out)
}

// read gives a vector of values, one a parameter.
func (s *Fixture) read(t testing.TB, v device.Vector) []float32 {
	t.Helper()
	return s.values(t, v, s.size)
}

func (s *Fixture) values(t testing.TB, v device.Vector, n int) []float32 {
	t.Helper()
	x := make([]float32, n)
	must(t, s.Net.Read(v, x))
	return x
}

// Of is the sum of a batch alone, without noise.
func (s *Fixture) Of(t testing.TB, rows []int32, clip float64) []float32 {
	t.Helper()
	s.Add(t, rows, clip)
	return s.Release(t, 0)
}

// site is a case on a device: what the claims of a group open nets for.
type site struct {
	*Case
	d        device.Device
	schedule *ir.Schedule
	capacity int
}

// on is a case under the first of the private schedules.
func (c *Case) on(t testing.TB, d device.Device, capacity int) site {
	return site{c, d, strategies(t, c.Program)[0].Schedule, capacity}
}

func (s site) open(t testing.TB) *Fixture { return Open(t, s.d, s.schedule, s.Case, s.capacity) }

// on tests claims on a case of a program, below float32 on one that fills tiles of tensor cores.
func on(list claims[site], name string, rows int, seed uint64, capacity int) func(*testing.T, device.Device) {
	return func(t *testing.T, d device.Device) {
		name := name
		if precision(d) != device.Float32 {
			name = "tensor-plain"
		}
		list.run(t, newCase(t, d, program(name), rows, seed).on(t, d, capacity))
	}
}

// eachProgram tests some of a list of programs.
func eachProgram(t *testing.T, d device.Device, programs []*ir.Program, test func(*testing.T, *ir.Program)) {
	for _, p := range some(d, programs) {
		t.Run(p.Name, func(t *testing.T) { test(t, p) })
	}
}

// eachCase tests a case of each of them.
func eachCase(t *testing.T, d device.Device, programs []*ir.Program, rows int, seed uint64, test func(*testing.T, *Case)) {
	eachProgram(t, d, programs, func(t *testing.T, p *ir.Program) { test(t, newCase(t, d, p, rows, seed)) })
}

// each tests some of a list of schedules.
func each(t *testing.T, d device.Device, list []named, test func(*testing.T, named)) {
	for _, s := range some(d, list) {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

// eachNet tests a net of each of them.
func eachNet(t *testing.T, d device.Device, c *Case, list []named, capacity int, test func(*testing.T, *Fixture)) {
	each(t, d, list, func(t *testing.T, s named) { test(t, Open(t, d, s.Schedule, c, capacity)) })
}

// named is a schedule with a name for its subtest.
type named struct {
	name string
	*ir.Schedule
}

// private lists every schedule that clips flat: all strategies, every choice for all
// convolutions, and two that no strategy makes but every device must run.
func private(t testing.TB, p *ir.Program) []named { return clipped(t, p, ir.Flat) }

// clipped is private with another clipping.
func clipped(t testing.TB, p *ir.Program, c ir.Clipping) []named {
	t.Helper()
	var list []named
	for _, strategy := range perexample.Strategies() {
		list = append(list, named{string(strategy), schedule(t, p, strategy, c)})
	}
	for _, choice := range []perexample.Choice{perexample.Gram, perexample.Recompute} {
		strategy := perexample.Bookkeeping
		for i, op := range p.Ops {
			if op.Kind == ir.Conv && (choice != perexample.Gram || op.Has(ir.NormGram)) {
				strategy += perexample.Strategy(fmt.Sprintf(",%s=%s", strings.TrimSuffix(p.Params[p.Ops[i].Weight].Name, ".weight"), choice))
			}
		}
		list = append(list, named{string(choice), schedule(t, p, strategy, c)})
	}
	chunked, again := schedule(t, p, perexample.Ghost, c), schedule(t, p, perexample.Materialise, c)
	chunked.Chunk = 4
	for i, st := range again.Steps {
		if st.Kind == ir.Combine && p.Ops[st.Op].Kind == ir.Conv {
			again.Steps[i].Kind = ir.GradSum
		}
	}
	return append(list, named{"ghost in chunks of 4", chunked}, named{"stored and computed again", again})
}

func schedule(t testing.TB, p *ir.Program, strategy perexample.Strategy, c ir.Clipping) *ir.Schedule {
	return made(perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: c}))(t)
}

func plain(t testing.TB, p *ir.Program) named { return named{"plain", made(perexample.Plain(p))(t)} }

// oracle is what the reference's microbatch schedule makes of some rows; clip 0
// asks for the plain sum.
func oracle(t testing.TB, c *Case, rows []int32, clip float64) []float32 {
	t.Helper()
	s := plain(t, c.Program).Schedule
	if clip > 0 {
		s = schedule(t, c.Program, perexample.Microbatch, ir.Flat)
	}
	return Open(t, reference.Open(), s, c, max(len(rows), 1)).Of(t, rows, clip)
}

// gradients is each row's own gradient.
func gradients(t testing.TB, c *Case) [][]float32 {
	t.Helper()
	s := Open(t, reference.Open(), plain(t, c.Program).Schedule, c, 1)
	var list [][]float32
	for _, row := range c.All() {
		list = append(list, s.Of(t, []int32{row}, 0))
	}
	return list
}
