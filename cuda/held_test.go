package cuda_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// heldSteps take the ring round.
const heldSteps = 5*cuda.Together + 3

// heldRun trains on batches that all differ: some are empty, some take two runs, and in some steps the update has other
// scalars than the sum. Between runs it does what between says, which may stop it.
func heldRun(t testing.TB, d device.Device, seed uint64, between func(x *training, k int, half bool) error) ([]float32, error) {
	t.Helper()
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 9, 1)
	x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
	if err != nil {
		return nil, err
	}
	defer x.net.Close()
	random := rand.New(rand.NewPCG(seed, 0))
	for k := range heldSteps {
		batches := [][]int32{nil}
		for range k % 5 {
			batches[0] = append(batches[0], random.Int32N(9))
		}
		if k%19 == 18 { // above the capacity
			batches = append(batches, []int32{int32(k % 9)})
		}
		in := &device.Inputs{Draw: uint64(k + 1)}
		in.Scalars = [device.Slots]float32{
			device.Clip: 1 + float32(k), device.NoiseStd: 0.1, device.NoiseStep: 0x1p-24, device.Scale: 0.25, device.Rate: 1e-2,
			device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-3, device.Bias1: 0.5, device.Bias2: 0.5,
		}
		for _, rows := range batches {
			in.Rows = rows
			if err := x.sum.Run(in); err != nil {
				return nil, err
			}
		}
		if err := between(x, k, true); err != nil {
			return nil, err
		}
		in.Rows = nil
		if k%23 == 22 {
			in.Scalars[device.Rate] = 0.5
		}
		if err := x.update.Run(in); err != nil {
			return nil, err
		}
		if err := between(x, k, false); err != nil {
			return nil, err
		}
	}
	return x.params(len(c.Params))
}

func nothing(*training, int, bool) error { return nil }

func waits(x *training, _ int, _ bool) error {
	_, err := x.update.Wait()
	return err
}

// TestTogether: whether runs are graphs of their own, training steps, or eight of these at once, and wherever others come between, bits are the same.
func TestTogether(t *testing.T) {
	want, err := heldRun(t, open(t, fake.Options{}), 1, waits)
	must(t, err)
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 2))
		for name, between := range map[string]func(*training, int, bool) error{
			"one graph a step": func(x *training, k int, half bool) error {
				if half {
					return nil
				}
				return waits(x, k, half)
			},
			"eight steps a graph": nothing,
			"anything between": func(x *training, k int, half bool) error {
				if random.IntN(6) == 0 {
					return waits(x, k, half)
				}
				if random.IntN(12) == 0 {
					_, err := x.params(len(want))
					return err
				}
				if random.IntN(12) == 0 { // the same values again
					p, err := x.params(len(want))
					return errors.Join(err, x.net.Write(x.net.Params(), p))
				}
				if random.IntN(30) == 0 {
					x.net.(device.Profiler).Profile()
				}
				return nil
			},
			"other goroutines": func(x *training, k int, half bool) error {
				if k%3 != 0 {
					return nil
				}
				done := make(chan error)
				go func() { done <- waits(x, k, half) }()
				return <-done
			},
		} {
			if got, err := heldRun(t, open(t, fake.Options{Seed: seed}), 1, between); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: the parameters differ, or fail: %v", name, err)
			}
		}
	}
}

// Two networks on one GPU hold their runs apart, in whatever order the GPU takes their streams.
func TestTogetherBesideAnother(t *testing.T) {
	want, err := heldRun(t, open(t, fake.Options{}), 1, waits)
	must(t, err)
	for seed := range uint64(2) {
		d := open(t, fake.Options{Seed: seed})
		c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
		other, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
		must(t, err)
		got, err := heldRun(t, d, 1, func(_ *training, k int, half bool) error {
			if half {
				return nil
			}
			return other.step(c.All(), k, 1, 1)
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("beside another network the parameters differ, or fail: %v", err)
		}
	}
}

// TestGraphsOfSteps counts what the driver is asked for.
func TestGraphsOfSteps(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	for _, a := range []struct {
		name   string
		graphs int
		after  func(x *training, k int) error
	}{
		{"no waits", 2, func(*training, int) error { return nil }},
		{"a wait behind every step", 2 * cuda.Together, func(x *training, k int) error { return waits(x, k, false) }},
		{"a wait behind the twelfth", 1 + 4 + 4, func(x *training, k int) error {
			if k != 11 {
				return nil
			}
			return waits(x, k, false)
		}},
	} {
		f := fake.New(fake.Options{})
		d, err := cuda.Open(f, 0)
		must(t, err)
		x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
		must(t, err)
		events := f.Calls("cuEventCreate")
		for k := range 2 * cuda.Together {
			must(t, x.step(c.All(), k, 1, 1))
			must(t, a.after(x, k))
		}
		_, err = x.update.Wait()
		must(t, err)
		if n := f.Calls("cuGraphLaunch"); n != a.graphs {
			t.Errorf("%s: %d graphs, want %d", a.name, n, a.graphs)
		}
		if n := f.Calls("cuEventCreate") - events; n != 0 || f.Calls("cuEventDestroy") != 0 {
			t.Errorf("%s: runs made %d events", a.name, n)
		}
		must(t, d.Close())
		if f.Live() != 0 {
			t.Errorf("%s: %d things of the driver are left", a.name, f.Live())
		}
	}
}

// A step that counts norms is one graph with its release, and bits are those of two.
func TestCountedPair(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 9, 1)
	var results [2][]float32
	for apart := range 2 {
		f := fake.New(fake.Options{})
		d, err := cuda.Open(f, 0)
		must(t, err)
		x, err := train(d, private(t, c.Program, perexample.Ghost), c, 9, noise(t, stream.ChaCha20))
		must(t, err)
		sum, err := x.net.NewSum()
		must(t, err)
		count, err := x.net.NewScalarSum(1)
		must(t, err)
		gradient, err := x.net.NewVector(1)
		must(t, err)
		counted, err := x.net.NewScalars(1)
		must(t, err)
		x.sum, err = x.net.Record(func(q device.Queue) { q.CountedSum(sum, count, x.data) })
		must(t, err)
		s := noise(t, stream.ChaCha20)
		x.update, err = x.net.Record(func(q device.Queue) {
			q.Release(gradient, sum, device.NewNoise(s, 5))
			q.Release(counted, count, device.NewNoise(s, 6))
			q.Update(device.SGD, x.net.Params(), gradient)
		})
		must(t, err)
		var read [1]float32
		const steps = 5
		for k := range steps {
			in := &device.Inputs{Rows: c.All()[k:], Draw: uint64(k + 1)}
			in.Scalars[device.Clip], in.Scalars[device.Scale], in.Scalars[device.Rate] = 0.5, 0.1, 0.1
			must(t, x.sum.Run(in))
			if apart == 1 {
				must(t, waits(x, k, true))
			}
			must(t, x.update.Run(in))
			must(t, x.net.Read(counted, read[:]))
			results[apart] = append(results[apart], read[0])
		}
		p, err := x.params(len(c.Params))
		must(t, err)
		results[apart] = append(results[apart], p...)
		if n := f.Calls("cuGraphLaunch"); n != steps*(1+apart) {
			t.Errorf("%d steps are %d graphs", steps, n)
		}
		must(t, d.Close())
	}
	if !slices.Equal(results[0], results[1]) {
		t.Errorf("one graph gives %v, two give %v", results[0], results[1])
	}
}

// A graph that fails among several is told at the latest by what waits, and for good.
func TestHeldRunsFail(t *testing.T) {
	for _, fail := range []struct {
		call string
		n    int
	}{{"cuGraphLaunch", 1}, {"cuGraphLaunch", 3}, {"cuEventRecord", 2}, {"run", 1}, {"run", 40}, {"run", 350}} {
		f := fake.New(fake.Options{Fail: func(call string, n int) int {
			if call == fail.call && n == fail.n {
				return driver.Lost
			}
			return 0
		}})
		d, err := cuda.Open(f, 0)
		must(t, err)
		var x *training
		_, err = heldRun(t, d, 1, func(of *training, _ int, _ bool) error {
			x = of
			return nil
		})
		var e *driver.Error
		if !errors.As(err, &e) || e.Code != driver.Lost {
			t.Errorf("%s %d fails: got %v", fail.call, fail.n, err)
		}
		if x != nil && x.sum.Run(&device.Inputs{}) == nil {
			t.Errorf("%s %d fails, and a later run does not", fail.call, fail.n)
		}
		_ = d.Close()
		if f.Live() != 0 {
			t.Errorf("%s %d fails: %d things of the driver are left", fail.call, fail.n, f.Live())
		}
	}
}

// A noise position is refused twice though its first run is held.
func TestHeldDrawIsUsed(t *testing.T) {
	_, err := heldRun(t, open(t, fake.Options{}), 1, func(x *training, k int, half bool) error {
		if k != 3 || half {
			return nil
		}
		in := &device.Inputs{Draw: uint64(k + 1)}
		in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 1, 0x1p-24
		return x.update.Run(in)
	})
	if !errors.Is(err, device.ErrDrawUsed) {
		t.Errorf("a position that is held is drawn again: %v", err)
	}
}

// TestPlantedInHeldRuns: what the ring and the counters are for shows in the parameters of TestTogether.
func TestPlantedInHeldRuns(t *testing.T) {
	want, err := heldRun(t, open(t, fake.Options{}), 1, waits)
	must(t, err)
	for name, fault := range map[string]faulty{
		"a slot is written again too early": {early: true},
		"eight runs are counted as one":     {miscounted: true},
		"no fault":                          {},
	} {
		fault.Driver = fake.New(fake.Options{})
		d, err := cuda.Open(fault, 0)
		must(t, err)
		got, err := heldRun(t, d, 1, nothing)
		if right := err == nil && slices.Equal(got, want); right != (name == "no fault") {
			t.Errorf("%s: right is %v (%v)", name, right, err)
		}
		_ = d.Close()
	}
}

// No run of the sum, for an empty batch, or up to three come before an update; the table is closed while runs are held.
func TestHeldSumsComeInAnyNumber(t *testing.T) {
	var all [2][]float32
	for apart := range 2 {
		d := open(t, fake.Options{})
		c := devicetest.NewCase(t, program(t, "mlp-hinge"), 9, 1)
		x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
		must(t, err)
		random := rand.New(rand.NewPCG(3, 0))
		for k := range 45 {
			in := &device.Inputs{Draw: uint64(k + 1)}
			in.Scalars = [device.Slots]float32{device.Clip: 1 + float32(k), device.NoiseStd: 0.1, device.NoiseStep: 0x1p-24, device.Scale: 0.25, device.Rate: 1e-2,
				device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-3, device.Bias1: 0.5, device.Bias2: 0.5}
			for n := random.IntN(4); n > 0; n-- {
				in.Rows = append([]int32(nil), random.Int32N(9), random.Int32N(9))
				must(t, x.sum.Run(in))
				if apart == 1 {
					must(t, waits(x, k, true))
				}
			}
			in.Rows = nil
			must(t, x.update.Run(in))
			if apart == 1 {
				must(t, waits(x, k, true))
			}
		}
		must(t, x.data.Close())
		p, err := x.params(len(c.Params))
		must(t, err)
		all[apart] = p
		must(t, x.net.Close())
	}
	if !slices.Equal(all[0], all[1]) {
		t.Error("parameters depend on whether runs were held")
	}
}
