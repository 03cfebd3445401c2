package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// viewed is a schedule of three views, moved and mirrored.
func viewed(t testing.TB, p *ir.Program, s perexample.Strategy) *ir.Schedule {
	t.Helper()
	schedule, err := perexample.Private(p, perexample.Options{
		Strategy: s, Clipping: ir.Flat, Views: 3, Augment: ir.Gather{{Kind: ir.Crop, Margin: 1}, {Kind: ir.Flip}},
	})
	must(t, err)
	return schedule
}

// viewsRun trains on batches of different sizes, the empty one among them.
func viewsRun(t testing.TB, d device.Device, between func(*training) error) []float32 {
	t.Helper()
	c := devicetest.NewCase(t, program(t, "wrn"), 5, 1)
	x, err := train(d, viewed(t, c.Program, perexample.Materialise), c, 3, noise(t, stream.ChaCha20))
	must(t, err)
	defer x.net.Close()
	random := rand.New(rand.NewPCG(3, 0))
	for k := range 2*cuda.Together + 1 {
		in := &device.Inputs{Draw: uint64(k + 1)}
		in.Scalars = [device.Slots]float32{
			device.Clip: 1, device.NoiseStd: 0.1, device.NoiseStep: 0x1p-24, device.Scale: 0.25, device.Rate: 1e-2,
			device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-3, device.Bias1: 0.5, device.Bias2: 0.5,
		}
		for range k % 4 {
			in.Rows = append(in.Rows, random.Int32N(5))
			in.Words = append(in.Words, random.Uint32(), random.Uint32(), random.Uint32())
		}
		must(t, x.sum.Run(in))
		in.Rows, in.Words = nil, nil
		must(t, x.update.Run(in))
		must(t, between(x))
	}
	p, err := x.params(len(c.Params))
	must(t, err)
	return p
}

// TestViewsTogether: held runs keep the words of their views.
func TestViewsTogether(t *testing.T) {
	want := viewsRun(t, open(t, fake.Options{}), func(x *training) error {
		_, err := x.update.Wait()
		return err
	})
	if got := viewsRun(t, open(t, fake.Options{}), func(*training) error { return nil }); !slices.Equal(got, want) {
		t.Error("eight steps that are one graph give other parameters than one at a time")
	}
}

// TestViewsByCuBLAS: the products of whole rows are those of all views, and dead ones of records that a query gathers once.
func TestViewsByCuBLAS(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mnist-tf"), 4, 1)
	d := open(t, fake.Options{Seed: 3})
	of := func(o device.Options) []float32 {
		net, err := d.Compile(viewed(t, c.Program, perexample.Auto), o)
		must(t, err)
		defer net.Close()
		data, err := d.Load(c.Rows, c.Features)
		must(t, err)
		must(t, net.Write(net.Params(), c.Params))
		sum, err := net.NewSum()
		must(t, err)
		out, err := net.NewVector(1)
		must(t, err)
		loss, err := net.NewScalarSum(1)
		must(t, err)
		z := device.NewNoise(noise(t, stream.ChaCha20), 3)
		step, err := net.Record(func(q device.Queue) {
			q.Losses(loss, data, device.LossQuery{At: net.Params(), Dir: net.Params(), K: 1, Form: device.LossSum})
			q.ClippedSum(sum, data)
			q.Release(out, sum, z)
		})
		must(t, err)
		in := &device.Inputs{Rows: []int32{3, 0, 2}, Words: []uint32{1, 1 << 31, 7, 1 << 14, 9, 0, 5, 4, 1 << 30}, Draw: 1}
		in.Scalars[device.Clip], in.Scalars[device.NoiseStep] = 1, 0
		must(t, step.Run(in))
		got := make([]float32, len(c.Params))
		must(t, net.Read(out, got))
		return got
	}
	want, got := of(device.Options{Capacity: 4}), of(device.Options{Capacity: 4, CuBLAS: true})
	// Norms are at most 3·1. A library adds at most some hundred products in another order, in each of a few layers.
	off := 0.0
	for i := range got {
		off = max(off, math.Abs(float64(got[i]-want[i])))
	}
	if !(off <= 1e-5) || slices.Equal(want, make([]float32, len(want))) {
		t.Errorf("with cuBLAS a sum is off by %g", off)
	}
}

// TestViewsCount: what is too much for a kernel counts by views.
func TestViewsCount(t *testing.T) {
	p := program(t, "wrn")
	size := 0
	for v := range len(p.Ops) + 1 {
		size = max(size, p.ValueSize(ir.Value(v)))
	}
	_, err := open(t, fake.Options{}).Compile(viewed(t, p, perexample.Materialise), device.Options{Capacity: kernels.MaxElements/size/3 + 1})
	if err == nil || !strings.Contains(err.Error(), "more than a kernel takes at once") {
		t.Errorf("three views of so many records give %v", err)
	}
}
