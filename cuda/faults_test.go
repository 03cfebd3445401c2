package cuda_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// everything is a short life of a device: it uses every call of the driver, and with
// more those of cuBLAS and of clocks, too.
func everything(t testing.TB, f *fake.Driver, more bool) (err error) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	g, err := cuda.Open(f, 0)
	if err != nil {
		return err
	}
	defer func() {
		if closing := g.Close(); err == nil {
			err = closing
		}
	}()
	s := noise(t, stream.ChaCha20)
	var d device.Device = g
	if more {
		d = library{g}
	}
	x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, s)
	if err != nil {
		return err
	}
	if more {
		x.net.(device.Profiler).Profile()
	}
	score, err := x.net.Record(func(q device.Queue) { q.Score(x.net.Params(), x.data) })
	if err != nil {
		return err
	}
	for k := range 10 {
		if err := x.step(c.All(), k, 1, 1); err != nil {
			return err
		}
	}
	if err := searched(x, s); err != nil {
		return err
	}
	if err := score.Run(&device.Inputs{}); err != nil {
		return err
	}
	if _, err := score.Wait(); err != nil {
		return err
	}
	if _, err := x.params(len(c.Params)); err != nil {
		return err
	}
	if err := x.data.Close(); err != nil {
		return err
	}
	return x.net.Close()
}

// searched runs a search of two groups and an inner product.
func searched(x *training, s *stream.Stream) error {
	sum, err := x.net.NewScalarSum(2)
	if err != nil {
		return err
	}
	step, err := x.net.Record(func(q device.Queue) {
		q.AboveThreshold(sum, device.NewSearch(s, 11, device.GaussianLaw, false, 0))
		q.Dot(x.net.Params(), x.net.Params())
	})
	if err != nil {
		return err
	}
	in := &device.Inputs{Draw: 1000}
	in.Biases = [device.MaxCandidates]float64{1e9, 1e9}
	for in.First = 0; in.First < 4; in.First += 2 {
		if err := step.Run(in); err != nil {
			return err
		}
	}
	_, err = step.Wait()
	return err
}

// TestEveryCallFails fails each of the driver's calls once, with an error that passes
// and with one that takes the context with it. Every failure is told, and nothing is left behind.
func TestEveryCallFails(t *testing.T) {
	everyCallFails(t, false, 17, func(string, int) bool { return true })
}

// TestLongEveryCallFails takes more of the calls.
func TestLongEveryCallFails(t *testing.T) {
	everyCallFails(t, false, 6, func(string, int) bool { return true })
}

// TestEveryLibraryCallFails is TestEveryCallFails for the calls of cuBLAS and of clocks; of many alike one is enough.
func TestEveryLibraryCallFails(t *testing.T) {
	everyCallFails(t, true, 1, func(call string, n int) bool { return n == 1 && libraryCall(call) })
}

// TestLongEveryLibraryCallFails takes a later one.
func TestLongEveryLibraryCallFails(t *testing.T) {
	everyCallFails(t, true, 1, func(call string, n int) bool { return n == 7 && libraryCall(call) })
}

func libraryCall(call string) bool {
	return strings.HasPrefix(call, "cublas") || call == "cuEventCreate" || call == "cuEventRecordWithFlags" || call == "cuEventElapsedTime"
}

func everyCallFails(t *testing.T, more bool, every int, which func(call string, n int) bool) {
	type at struct {
		call string
		n    int
	}
	var calls []at
	f := fake.New(fake.Options{Fail: func(call string, n int) int {
		calls = append(calls, at{call, n})
		return 0
	}})
	must(t, everything(t, f, more))
	if n := f.Live(); n != 0 {
		t.Fatalf("%d things of the driver are left", n)
	}
	// Of work on a stream, which fails where it is waited for, and of changes of threads a few are enough.
	calls = slices.DeleteFunc(calls, func(a at) bool {
		often := a.call == "run" || a.call == "cuCtxSetCurrent"
		return often && a.n%25 != 1 || !which(a.call, a.n)
	})
	for i, fail := range calls {
		for _, code := range []int{driver.OutOfMemory, driver.Lost} {
			if (i+code)%every != 0 || fail.call == "run" && code != driver.Lost {
				continue // work that fails on a GPU takes the context with it
			}
			t.Run(fmt.Sprintf("%s %d code %d", fail.call, fail.n, code), func(t *testing.T) {
				f := fake.New(fake.Options{Fail: func(call string, n int) int {
					if call == fail.call && n == fail.n {
						return code
					}
					return 0
				}})
				if err := everything(t, f, more); err == nil {
					t.Error("nobody was told")
				}
				if n := f.Live(); n != 0 {
					t.Errorf("%d things of the driver are left", n)
				}
			})
		}
	}
}

// faulty is a driver with a fault in the code that uses it.
type faulty struct {
	driver.Driver
	early  bool // events are not waited for
	frozen bool // a graph does not read the ring again
	// A graph of several runs reads, and counts, one.
	miscounted bool
}

func (f faulty) Open(ordinal int) (driver.Context, error) {
	c, err := f.Driver.Open(ordinal)
	return faultyContext{c, f}, err
}

type faultyContext struct {
	driver.Context
	fault faulty
}

func (c faultyContext) NewStream() (driver.Stream, error) {
	s, err := c.Context.NewStream()
	return &faultyStream{Stream: s, fault: c.fault}, err
}

type faultyStream struct {
	driver.Stream
	fault    faulty
	capturer bool
	advance  *driver.Launch
	advanced bool
}

// Capture leaves the advance of the ring out of a frozen graph.
func (s *faultyStream) Capture(f func() error) (driver.Graph, error) {
	s.capturer = true
	defer func() { s.capturer = false }()
	return s.Stream.Capture(f)
}

func (s *faultyStream) Launch(l driver.Launch) error {
	if s.fault.frozen && s.capturer && l.Function.Name() == "advance" {
		s.advance = &l
		return nil
	}
	if s.fault.miscounted && l.Function.Name() == "advance" {
		l.Args = slices.Clone(l.Args)
		l.Args[6] = 1
	}
	return s.Stream.Launch(l)
}

// Run of a frozen graph has the inputs of the first run for good.
func (s *faultyStream) Run(g driver.Graph) error {
	if s.advance != nil && !s.advanced {
		s.advanced = true
		if err := s.Stream.Launch(*s.advance); err != nil {
			return err
		}
	}
	return s.Stream.Run(g)
}

func (c faultyContext) NewEvent() (driver.Event, error) {
	e, err := c.Context.NewEvent()
	if c.fault.early && err == nil {
		return careless{e}, nil
	}
	return e, err
}

func (s *faultyStream) Record(e driver.Event) error {
	if c, ok := e.(careless); ok {
		e = c.Event
	}
	return s.Stream.Record(e)
}

type careless struct{ driver.Event }

func (careless) Wait() error { return nil }

// TestPlantedFaults checks that the tests above would see what they are for.
func TestPlantedFaults(t *testing.T) {
	for name, fault := range map[string]faulty{
		"a ring slot is written again too early":  {early: true},
		"the live count is captured, not read":    {frozen: true},
		"nothing is wrong but the driver's cover": {},
	} {
		t.Run(name, func(t *testing.T) {
			fault.Driver = fake.New(fake.Options{})
			d, err := cuda.Open(fault, 0)
			must(t, err)
			t.Cleanup(func() { must(t, d.Close()) })
			runs(t, d, func(got, want []float32) {
				if !fault.early && !fault.frozen {
					devicetest.Near(t, got, want, devicetest.Tolerance)
					return
				}
				diff := make([]float32, len(got))
				for i := range got {
					diff[i] = got[i] - want[i]
				}
				if devicetest.Norm(diff) <= 0.01*devicetest.Norm(want) {
					t.Error("the sums are right all the same: the test sees nothing")
				}
			})
		})
	}
}

// TestReplaysDrawAnew replays one graph of a release: each run's noise is that of its own
// position, and in a frozen graph it would be the first one's.
func TestReplaysDrawAnew(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	replay := func(t *testing.T, fault faulty) (right int) {
		fault.Driver = fake.New(fake.Options{})
		d, err := cuda.Open(fault, 0)
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		x := devicetest.Open(t, d, private(t, c.Program, perexample.Ghost), c, 4)
		for k := range 3 {
			got := x.Release(t, 2) // of an empty sum
			same := true
			for i, z := range devicetest.Drawn(t, x.Noise, uint64(k+1), 2, len(got)) {
				same = same && got[i] == float32(z)
			}
			if same {
				right++
			}
		}
		return right
	}
	if n := replay(t, faulty{}); n != 3 {
		t.Errorf("%d of 3 replays drew the noise of their positions", n)
	}
	if n := replay(t, faulty{frozen: true}); n != 1 {
		t.Errorf("%d of 3 replays of a frozen graph are right; the test sees nothing", n)
	}
}

// TestOpenDrawsAreReleased takes noise of so many grid steps that one draw in thirty is left open by its first digits.
func TestOpenDrawsAreReleased(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	x := devicetest.Open(t, open(t, fake.Options{}), private(t, c.Program, perexample.Ghost), c, 4)
	const step = 0x1p-39
	g, err := exact.New(1/step, x.Noise.Stream(), x.Noise.Tensor())
	must(t, err)
	got, want := make([]float32, len(c.Params)), make([]int64, len(c.Params))
	for draw := uint64(1); draw*uint64(len(want)) < 400; draw++ {
		in := &device.Inputs{Draw: draw}
		in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 1, step
		must(t, x.Free.Run(in))
		must(t, x.Net.Read(x.Out, got))
		clear(want)
		g.Add(want, draw, 0)
		for i, k := range want {
			if got[i] != float32(float64(k)*step) {
				t.Fatalf("draw %d of position %d is %v, want %v", i, draw, got[i], float64(k)*step)
			}
		}
	}
}

// A noise key that did not reach the GPU spoils the network: a second attempt
// must not release with whatever lay in the key's place.
func TestKeyThatDidNotArrive(t *testing.T) {
	armed := false
	f := fake.New(fake.Options{Fail: func(call string, n int) int {
		if !armed || call != "cuMemcpyHtoD" {
			return 0
		}
		armed = false
		return driver.OutOfMemory
	}})
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	d, err := cuda.Open(f, 0)
	must(t, err)
	net, err := d.Compile(private(t, c.Program, perexample.Ghost), device.Options{Capacity: 4})
	must(t, err)
	sum, err := net.NewSum()
	must(t, err)
	v, err := net.NewVector(1)
	must(t, err)
	s := noise(t, stream.ChaCha20)
	release := func(q device.Queue) { q.Release(v, sum, device.NewNoise(s, 3)) }
	armed = true
	for range 2 {
		if _, err := net.Record(release); err == nil {
			t.Error("a release was recorded whose key did not arrive")
		}
	}
	must(t, d.Close())
}

// A score reads its table whenever it runs, so not after the table was closed.
func TestScoreOfAClosedTable(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	d, err := cuda.Open(fake.New(fake.Options{}), 0)
	must(t, err)
	x, err := train(d, private(t, c.Program, perexample.Ghost), c, 4, noise(t, stream.ChaCha20))
	must(t, err)
	score, err := x.net.Record(func(q device.Queue) { q.Score(x.net.Params(), x.data) })
	must(t, err)
	must(t, x.data.Close())
	if err := score.Run(&device.Inputs{}); err == nil {
		t.Error("a closed table was scored")
	}
	must(t, d.Close())
}

// A trunk of full size needs more shared memory than a kernel gets without asking. The fake refuses launches of those that
// did not ask, and what the driver refuses is told.
func TestTrunkAsksForSharedMemory(t *testing.T) {
	p := devicetest.LeNet("wider", 28, 8, 20, 32, 16)
	c := devicetest.NewCase(t, p, 2, 1)
	for _, code := range []int{0, driver.OutOfMemory} {
		asked := 0
		f := fake.New(fake.Options{Fail: func(call string, n int) int {
			if call != "cuFuncSetAttribute" {
				return 0
			}
			asked++
			return code
		}})
		d, err := cuda.Open(f, 0)
		must(t, err)
		_, err = train(d, private(t, p, perexample.Auto), c, 2, noise(t, stream.ChaCha20))
		if (err != nil) != (code != 0) {
			t.Errorf("code %d of the call for shared memory gives %v", code, err)
		}
		if asked == 0 {
			t.Error("no kernel asked for shared memory: the test sees nothing")
		}
		must(t, d.Close())
	}
}

// A fault on the driver's thread is an error of the call, not the end of the process.
func TestFaultOnTheThread(t *testing.T) {
	f := fake.New(fake.Options{Fail: func(call string, n int) int {
		if call == "cuMemcpyHtoD" {
			return []int{0}[n]
		}
		return 0
	}})
	d, err := cuda.Open(f, 0)
	must(t, err)
	_, err = d.Load(device.Rows{Count: 1, Width: 4, Targets: []float32{0}}, make(device.Bytes, 4))
	if err == nil || !strings.Contains(err.Error(), "internal error (at cuda/faults_test.go:") || strings.Contains(err.Error(), "range") {
		t.Errorf("the error is %v", err)
	}
}
