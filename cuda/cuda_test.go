package cuda_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open gives a GPU in host memory. Whatever the test does, nothing is left behind. Where the tests are to
// use a real one, and nothing is asked that only the fake can do, it gives that.
func open(t testing.TB, o fake.Options) *cuda.Device {
	t.Helper()
	if gputest.On() && reflect.ValueOf(o).IsZero() {
		d, err := cuda.Open(gputest.Driver(t), 0)
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return d
	}
	f := fake.New(o)
	d, err := cuda.Open(f, 0)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
		if n := f.Live(); n != 0 {
			t.Errorf("%d things of the driver are left after Close", n)
		}
	})
	return d
}

func program(t testing.TB, name string) *ir.Program {
	t.Helper()
	for _, p := range devicetest.ProgramsIn(device.TF32) {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no program %s", name)
	return nil
}

func private(t testing.TB, p *ir.Program, s perexample.Strategy) *ir.Schedule {
	t.Helper()
	schedule, err := perexample.Private(p, perexample.Options{Strategy: s, Clipping: ir.Flat})
	must(t, err)
	return schedule
}

func noise(t testing.TB, c stream.Cipher) *stream.Stream {
	t.Helper()
	s, err := stream.New(c, stream.KeyFromSeed(5, "cuda test"))
	must(t, err)
	return s
}

// training is a network with the two steps of training.
type training struct {
	net         device.Net
	data        device.Data
	sum, update device.Step
}

func train(d device.Device, s *ir.Schedule, c *devicetest.Case, capacity int, n *stream.Stream) (*training, error) {
	net, err := d.Compile(s, device.Options{Capacity: capacity})
	if err != nil {
		return nil, err
	}
	x := &training{net: net}
	if x.data, err = d.Load(c.Rows, c.Features); err != nil {
		return x, err
	}
	if err := net.Write(net.Params(), c.Params); err != nil {
		return x, err
	}
	sum, err := net.NewSum()
	if err != nil {
		return x, err
	}
	var v [3]device.Vector
	for i := range v {
		if v[i], err = net.NewVector(1); err != nil {
			return x, err
		}
	}
	if x.sum, err = net.Record(func(q device.Queue) { q.ClippedSum(sum, x.data) }); err != nil {
		return x, err
	}
	x.update, err = net.Record(func(q device.Queue) {
		q.Release(v[0], sum, device.NewNoise(n, 3))
		q.Update(device.Adam, net.Params(), v[0], v[1], v[2])
	})
	return x, err
}

// step trains once.
func (x *training) step(rows []int32, k int, clip, std float32) error {
	in := &device.Inputs{Rows: rows, Draw: uint64(k + 1)}
	in.Scalars = [device.Slots]float32{
		device.Clip: clip, device.NoiseStd: std, device.NoiseStep: 0x1p-24, device.Scale: 1 / float32(len(rows)), device.Rate: 1e-2,
		device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-3,
		device.Bias1: float32(1 - math.Pow(0.9, float64(k+1))), device.Bias2: float32(1 - math.Pow(0.999, float64(k+1))),
	}
	if err := x.sum.Run(in); err != nil {
		return err
	}
	return x.update.Run(in)
}

func (x *training) params(size int) ([]float32, error) {
	p := make([]float32, size)
	return p, x.net.Read(x.net.Params(), p)
}

// TestTrainsLikeTheCPU trains a small cnn-mnist on both devices with the same noise.
func TestTrainsLikeTheCPU(t *testing.T) {
	trainsLikeTheCPU(t, devicetest.LeNet("cnn-mnist", 16, 3, 4, 12, 8), 6)
}

// TestLongTrainsLikeTheCPU trains one of full size.
func TestLongTrainsLikeTheCPU(t *testing.T) {
	trainsLikeTheCPU(t, devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128), 12)
}

func trainsLikeTheCPU(t *testing.T, p *ir.Program, rows int) {
	const steps = 3
	c := devicetest.NewCase(t, p, rows, 1)
	s := private(t, p, perexample.Auto)
	host, err := cpu.Open(1)
	must(t, err)
	var results [][]float32
	for _, d := range []device.Device{host, open(t, fake.Options{})} {
		x, err := train(d, s, c, rows, noise(t, stream.ChaCha20))
		must(t, err)
		for k := range steps {
			// Batches of different sizes, none of them empty.
			must(t, x.step(c.All()[k:rows-k], k, 0.5, 0.05))
		}
		got, err := x.params(len(c.Params))
		must(t, err)
		results = append(results, got)
		must(t, x.net.Close())
	}
	devicetest.Near(t, results[1], results[0], 1e-5)
	moved := 0.0
	for i, x := range results[0] {
		moved += math.Abs(float64(x - c.Params[i]))
	}
	if moved/float64(len(c.Params)) < 1e-3 {
		t.Errorf("parameters moved by %v on average: the comparison is empty", moved/float64(len(c.Params)))
	}
}

// TestRunsDoNotWait enqueues runs beyond the ring without looking at results; then
// each must have seen its own inputs.
func TestRunsDoNotWait(t *testing.T) {
	runs(t, open(t, fake.Options{}), func(got, want []float32) { devicetest.Near(t, got, want, devicetest.Tolerance) })
}

// runs sums over batches that all differ, more of them without a wait than the ring has slots.
func runs(t testing.TB, d device.Device, check func(got, want []float32)) {
	p := program(t, "mlp-fmnist")
	c := devicetest.NewCase(t, p, 20, 7)
	s := private(t, p, perexample.Ghost)
	host, err := cpu.Open(1)
	must(t, err)
	var sums [][]float32
	for _, d := range []device.Device{host, d} {
		x := devicetest.Open(t, d, s, c, 4)
		for i := range int32(5 * cuda.Together) {
			in := &device.Inputs{Rows: []int32{i % 20, (i * 7) % 20, (i * 3) % 20}[:1+i%3]}
			in.Scalars[device.Clip] = 1 + float32(i)
			must(t, x.Clipped.Run(in))
		}
		sums = append(sums, x.Release(t, 0))
	}
	check(sums[1], sums[0])
}

// TestClosing closes a device before its network and table.
func TestClosing(t *testing.T) {
	f := fake.New(fake.Options{})
	d, err := cuda.Open(f, 0)
	must(t, err)
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
	must(t, err)
	must(t, x.step(c.All(), 0, 1, 1)) // under way
	must(t, d.Close())
	if n := f.Live(); n != 0 {
		t.Errorf("%d things of the driver are left", n)
	}
	if err := x.sum.Run(&device.Inputs{}); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a run on a closed device gives %v", err)
	}
	if _, err := d.Load(c.Rows, c.Features); err == nil {
		t.Error("a closed device loads a table")
	}
	must(t, x.net.Close())
	must(t, x.data.Close())
	must(t, d.Close())
}

// TestTableFreedUnderRuns closes a table while runs that read it are under way, also of a
// network that has refused one since.
func TestTableFreedUnderRuns(t *testing.T) {
	for _, refused := range []bool{false, true} {
		d := open(t, fake.Options{})
		c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
		x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
		must(t, err)
		must(t, x.step(c.All(), 0, 1, 1))
		if refused && x.step(c.All(), 1, -1, 1) == nil {
			t.Error("a negative clip norm is accepted")
		}
		must(t, x.data.Close())
		must(t, x.net.Close())
	}
}

// TestErrorsSay checks what people are told.
func TestErrorsSay(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-fmnist"), 4, 1)
	s := private(t, c.Program, perexample.Ghost)
	said := func(what string, err error, words ...string) {
		t.Helper()
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error is %v, without %q", what, err, w)
			}
		}
	}
	small := open(t, fake.Options{Device: driver.Info{Memory: 4096}})
	_, err := small.Compile(s, device.Options{Capacity: 4})
	said("an arena beyond the memory", err, "bytes of GPU memory", "4096", "max_physical_batch", "mlp-fmnist")
	// The number of rows is private: no message follows from it.
	var told []string
	for _, n := range []int{8, 9, 1000} {
		_, err = small.Load(device.Rows{Count: n, Width: 1000, Targets: make([]float32, n)}, make(device.Bytes, 1000*n))
		said("a table beyond the memory", err, "4096 bytes of GPU memory", "--device cpu")
		told = append(told, err.Error())
	}
	if told = slices.Compact(told); len(told) != 1 {
		t.Errorf("what is said of tables depends on their rows: %q", told)
	}
	_, err = small.Compile(s, device.Options{Capacity: 1 << 30})
	said("a chunk beyond what kernels count", err, "max_physical_batch", "mlp-fmnist")
	_, err = cuda.Open(fake.New(fake.Options{}), 3)
	said("another GPU than there is", err, "cuda:3", "1")
	_, err = cuda.Open(fake.New(fake.Options{Device: driver.Info{Capability: 75}}), 0)
	said("an old GPU", err, "7.5", "8.0")

	x, err := train(open(t, fake.Options{}), s, c, 4, noise(t, stream.AES256CTR))
	said("noise from AES", err, "ChaCha20", "AES")
	must(t, x.net.Close())

	// The third kernel fails as a kernel does, with a lost context.
	lost := open(t, fake.Options{Fail: func(call string, n int) int {
		if call == "run" && n == 40 {
			return driver.Lost
		}
		return 0
	}})
	x, err = train(lost, s, c, 4, noise(t, stream.ChaCha20))
	must(t, err)
	var first error
	for k := 0; k < 20 && first == nil; k++ {
		if first = x.step(c.All(), k, 1, 1); first == nil {
			_, first = x.update.Wait()
		}
	}
	said("a failing kernel", first, "lost", "mlp-fmnist")
	var e *driver.Error
	if !errors.As(first, &e) || e.Code != driver.Lost {
		t.Errorf("a failing kernel gives %v, which is no driver's error", first)
	}
	for what, err := range map[string]error{
		"a run": x.sum.Run(&device.Inputs{}), "a read": x.net.Read(x.net.Params(), make([]float32, len(c.Params))),
		"a new network": func() error { _, err := lost.Compile(s, device.Options{Capacity: 4}); return err }(),
	} {
		if !errors.As(err, &e) || e.Code != driver.Lost {
			t.Errorf("%s on a lost GPU gives %v", what, err)
		}
	}
	must(t, x.net.Close())
}

// TestTableMemory: a table takes the memory of its form and of its targets, and no more.
func TestTableMemory(t *testing.T) {
	const values = 1000
	for bytes, f := range map[int64]device.Features{1: make(device.Bytes, values), 2: make(device.Halves, values), 4: make(device.Floats, values)} {
		r := device.Rows{Count: 1, Width: values, Targets: []float32{0}}
		data, err := open(t, fake.Options{Device: driver.Info{Memory: bytes*values + 4}}).Load(r, f)
		must(t, err)
		must(t, data.Close())
		if _, err := open(t, fake.Options{Device: driver.Info{Memory: bytes*values + 3}}).Load(r, f); err == nil {
			t.Errorf("a %T takes less than %d bytes a value", f, bytes)
		}
	}
}

// The peak stays what it was when memory is given back, which later memory does not add to.
func TestPeakMemory(t *testing.T) {
	const values = 1000
	g := open(t, fake.Options{})
	for range 2 {
		data, err := g.Load(device.Rows{Count: 1, Width: values, Targets: []float32{0}}, make(device.Bytes, values))
		must(t, err)
		must(t, data.Close())
		if got := g.PeakMemory(); got != values+4 {
			t.Errorf("the peak is %d bytes, not %d", got, values+4)
		}
	}
}
