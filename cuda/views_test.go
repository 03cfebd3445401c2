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
	"github.com/privgrad/privgrad/internal/device/reference"
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

// viewSum is a sum of three records' views behind a query of losses.
func viewSum(t *testing.T, d device.Device, c *devicetest.Case, o device.Options) []float32 {
	t.Helper()
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
	z := device.NewNoise(noise(t, d.Info().Cipher), 3)
	step, err := net.Record(func(q device.Queue) {
		q.Losses(loss, data, device.LossQuery{At: net.Params(), Dir: net.Params(), K: 1, Form: device.LossSum})
		q.ClippedSum(sum, data)
		q.Release(out, sum, z)
	})
	must(t, err)
	in := &device.Inputs{Rows: []int32{3, 0, 2}, Words: []uint32{1, 1 << 31, 7, 1 << 14, 9, 0, 5, 4, 1 << 30}, Draw: 1}
	in.Scalars[device.Clip] = 1
	must(t, step.Run(in))
	got := make([]float32, len(c.Params))
	must(t, net.Read(out, got))
	return got
}

// near fails unless got differs from want by at most relative·‖want‖.
func near(t *testing.T, what string, got, want []float32, relative float64) {
	t.Helper()
	norm, off := 0.0, 0.0
	for i, w := range want {
		norm += float64(w) * float64(w)
		off += math.Pow(float64(got[i])-float64(w), 2)
	}
	if !(math.Sqrt(off) <= relative*math.Sqrt(norm)) || norm == 0 {
		t.Errorf("%s a sum of norm %g is off by %g", what, math.Sqrt(norm), math.Sqrt(off))
	}
}

// TestViewsByCuBLAS: the products of whole rows are those of all views; fewer are live where a query gathers records as they are. A
// library adds in another order: the tolerance is the suite's.
func TestViewsByCuBLAS(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mnist-tf"), 4, 1)
	d := open(t, fake.Options{Seed: 3})
	near(t, "by cuBLAS", viewSum(t, d, c, device.Options{Capacity: 4, CuBLAS: true}), viewSum(t, d, c, device.Options{Capacity: 4}), devicetest.Tolerance)
}

// TestViewsOnTensorCores: gradients have two factors cut off, as the suite's tolerance says. No view of these records lies so near a kink
// that a rounding moves it across.
func TestViewsOnTensorCores(t *testing.T) {
	for _, name := range []string{"wrn", "mnist-tf"} {
		c := devicetest.NewCase(t, program(t, name), 5, 1)
		for p, relative := range map[device.Precision]float64{device.TF32: 4 * 0x1p-10, device.BF16: 4 * 0x1p-7} {
			o := device.Options{Capacity: 4, Precision: p}
			near(t, name+" in "+p.String(), viewSum(t, open(t, fake.Options{}), c, o), viewSum(t, reference.Open(), c, o), relative)
		}
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
