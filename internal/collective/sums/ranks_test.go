package sums

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

const (
	records = 60
	inputs  = 20
	clip    = 0.75
)

// A job is what each rank does with its rows.
type job struct {
	schedule *ir.Schedule
	params   []float32
	features device.Floats
	targets  []float32
	exact    bool
}

func newJob(t *testing.T, exact bool) *job {
	t.Helper()
	b := devicetest.NewBuilder("two layers", ir.SoftmaxCrossEntropy, inputs)
	b.Dense(b.Act(ir.Tanh, b.Dense(ir.Input, 9, true)), 4, true)
	p := b.Program()
	s, err := perexample.Private(p, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat, Batch: records})
	if err != nil {
		t.Fatal(err)
	}
	j := &job{schedule: s, exact: exact}
	random := rand.New(rand.NewPCG(1, 2))
	for range p.NumParams() {
		j.params = append(j.params, float32(random.NormFloat64()/3))
	}
	for range records {
		for range inputs {
			j.features = append(j.features, float32(random.NormFloat64()))
		}
		j.targets = append(j.targets, float32(random.IntN(4)))
	}
	return j
}

// found is what leaves a rank.
type found struct {
	params, norm, losses []float32
	index                int
}

// run makes three steps, each with a sum, its norm, and questions about losses, on the rows that a rank has.
func (j *job) run(d device.Device, rows []int32) (f found, err error) {
	catch := func(e error) {
		if err == nil {
			err = e
		}
	}
	n, err := d.Compile(j.schedule, device.Options{Capacity: 7, Exact: j.exact})
	if err != nil {
		return f, err
	}
	defer n.Close()
	data, err := d.Load(device.Rows{Count: records, Width: inputs, Targets: j.targets}, j.features)
	if err != nil {
		return f, err
	}
	catch(n.Write(n.Params(), j.params))
	key := stream.KeyFromSeed(3, "sums")
	noise, e := stream.New(stream.ChaCha20, key)
	catch(e)
	sum, e := n.NewSum()
	catch(e)
	g, e := n.NewVector(1)
	catch(e)
	scalars, e := n.NewScalarSum(3)
	catch(e)
	norm, e := n.NewScalarSum(1)
	catch(e)
	normOut, e := n.NewScalars(1)
	catch(e)
	lossOut, e := n.NewScalars(3)
	catch(e)
	record := func(body func(device.Queue)) device.Step {
		s, e := n.Record(body)
		catch(e)
		return s
	}
	add := record(func(q device.Queue) { q.ClippedSum(sum, data) })
	right := device.NewNoise(noise, 0)
	if j.exact {
		right = device.NewExactNoise(noise, 0)
	}
	step := record(func(q device.Queue) {
		if !j.exact {
			q.Norm(norm, sum)
			q.Release(normOut, norm, device.NewNoise(noise, 1).WithSlots(device.NormStd, device.NormStep))
		}
		q.Release(g, sum, right)
		q.Update(device.SGD, n.Params(), g)
	})
	query := device.LossQuery{At: n.Params(), Dir: g, K: 3, Form: device.LossSum}
	ask := record(func(q device.Queue) { q.Losses(scalars, data, query) })
	release := record(func(q device.Queue) {
		q.Release(lossOut, scalars, device.NewNoise(noise, 2).WithSlots(device.NoiseStd, device.NoiseStep))
	})
	search := record(func(q device.Queue) {
		q.AboveThreshold(scalars, device.NewSearch(noise, 3, device.LaplaceLaw, false, 3))
	})
	least := record(func(q device.Queue) { q.ArgMin(scalars, device.NewMinimum(noise, 4)) })
	if err != nil {
		return f, err
	}
	gamma := float32(device.NewGrid(clip).Step)
	for draw := range uint64(3) {
		in := &device.Inputs{}
		in.Scalars[device.Clip], in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = clip, 1, gamma
		in.Scalars[device.NormStd], in.Scalars[device.NormStep] = 0.5, 0x1p-20
		in.Scalars[device.Scale], in.Scalars[device.Rate] = 1.0/records, 0.5
		in.Candidates = [device.MaxCandidates]float32{0, 0.1, -0.2}
		in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd] = 0.5, 1
		in.Biases = [device.MaxCandidates]float64{90, 40, 30}
		summed := func(sum, then device.Step, draw uint64) {
			in.Draw = draw
			for part := range slices.Chunk(rows, 7) {
				in.Rows = part
				catch(sum.Run(in))
			}
			in.Rows = nil
			catch(then.Run(in))
			out, e := then.Wait()
			if catch(e); len(out.Found) > 0 {
				f.index = 10*f.index + out.Found[0] + 1
			}
		}
		summed(add, step, 10*draw+1)
		summed(ask, release, 10*draw+2)
		summed(ask, search, 10*draw+3)
		summed(ask, least, 10*draw+4)
	}
	f.params, f.norm, f.losses = make([]float32, len(j.params)), make([]float32, 1), make([]float32, 3)
	catch(n.Read(n.Params(), f.params))
	catch(n.Read(normOut, f.norm))
	catch(n.Read(lossOut, f.losses))
	return f, err
}

// shares puts every record onto one rank, uneven, and one rank without any.
func shares(n int, seed uint64) [][]int32 {
	random := rand.New(rand.NewPCG(seed, 9))
	all := make([][]int32, n)
	for i := range int32(records) {
		r := int(float64(n) * math.Pow(random.Float64(), 2))
		if n > 2 && r == n-1 {
			r = 0
		}
		all[r] = append(all[r], i)
	}
	return all
}

func host() (device.Device, error) { return cpu.Open(1) }

// gpu is a fake driver's.
func gpu() (device.Device, error) { return cuda.Open(fake.New(fake.Options{}), 0) }

func (j *job) ranks(t *testing.T, open func() (device.Device, error), rows [][]int32) []found {
	t.Helper()
	all := make([]found, len(rows))
	errs := make([]error, len(rows))
	var w sync.WaitGroup
	for i, g := range local.New(len(rows), local.Options{}) {
		w.Go(func() {
			d, err := open()
			if err == nil {
				defer d.Close()
				all[i], err = j.run(Wrap(d, g), rows[i])
			}
			if errs[i] = err; err != nil {
				g.Abort(err)
			}
		})
	}
	w.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	return all
}

// Exact sums have the bits of one device, with any number of ranks. Other sums are within rounding of it, and the same on
// all ranks.
func TestRanksAreOneDevice(t *testing.T) {
	for _, exact := range []bool{true, false} {
		ranksAreOne(t, host, exact, 4, 2)
		ranksAreOne(t, gpu, exact, 2, 1)
	}
}

func TestLongRanksAreOneGPU(t *testing.T) {
	for _, exact := range []bool{true, false} {
		ranksAreOne(t, gpu, exact, 4, 3)
	}
}

func ranksAreOne(t *testing.T, open func() (device.Device, error), exact bool, most int, seeds uint64) {
	t.Helper()
	j := newJob(t, exact)
	d, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	every := make([]int32, records)
	for i := range every {
		every[i] = int32(i)
	}
	want, err := j.run(d, every)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(want.params, j.params) || want.losses[0] == 0 || want.index == 0 || !exact && want.norm[0] == 0 {
		t.Fatalf("nothing was asked: %+v", want)
	}
	for n := 1; n <= most; n++ {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s, exact %v, %d ranks, %d", d.Info().Name, exact, n, seed), func(t *testing.T) {
				all := j.ranks(t, open, shares(n, seed))
				for r, got := range all {
					if !slices.Equal(got.params, all[0].params) || !slices.Equal(got.norm, all[0].norm) || !slices.Equal(got.losses, all[0].losses) || got.index != all[0].index {
						t.Errorf("rank %d has other values than rank 0", r)
					}
				}
				got := all[0]
				if exact {
					if !slices.Equal(got.params, want.params) || !slices.Equal(got.losses, want.losses) || got.index != want.index {
						t.Errorf("index %d, want %d; losses %v, want %v", got.index, want.index, got.losses, want.losses)
					}
					return
				}
				far := 0.0
				for i, x := range got.params {
					far = max(far, math.Abs(float64(x-want.params[i])))
				}
				if far > 1e-6 || math.Abs(float64(got.norm[0]-want.norm[0])) > 1e-4 || got.index != want.index {
					t.Errorf("parameters are %v off, the norm is %v and not %v, the index %d and not %d", far, got.norm[0], want.norm[0], got.index, want.index)
				}
			})
		}
	}
}

var _ collective.Group = alone{}
