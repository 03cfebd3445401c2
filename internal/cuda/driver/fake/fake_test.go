package fake_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/ptx"
)

func TestDriver(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2} {
		d := fake.New(fake.Options{Seed: seed})
		drivertest.Run(t, d)
		if n := d.Live(); n != 0 {
			t.Errorf("%d objects live after all contexts are closed", n)
		}
	}
}

func rig(t *testing.T, o fake.Options) (*drivertest.Rig, *fake.Driver) {
	d := fake.New(o)
	return drivertest.NewRig(t, d), d
}

// Nothing is done when it is put on a stream, and CopyOut does not wait for it.
func TestWorkIsDoneLate(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	p := r.Floats(1)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(r.Stream.Set(p+0, 0, 0))
	r.Holds(p, 1)
	r.OK(r.Stream.Sync())
	r.Holds(p, 2)
}

// Kernels read pinned memory when they run.
func TestHostMemoryIsReadLate(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	h := drivertest.Got(r.Context.AllocHost(4))(t)
	q := r.Floats(0)
	copy(h.Bytes(), []byte{0, 0, 128, 63}) // 1
	r.OK(r.Stream.Launch(driver.Launch{
		Function: r.Turn, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}, Shared: 4, Args: []uint64{uint64(q), uint64(h.Address())},
	}))
	copy(h.Bytes(), []byte{0, 0, 0, 64}) // 2, too early
	r.OK(r.Stream.Sync())
	r.Holds(q, 2)
}

// Two streams that write the same word: over 40 seeds each order is seen, with a
// false reject in 2·2⁻⁴⁰ of all choices of seeds.
func TestOrderBetweenStreams(t *testing.T) {
	seen := map[float32]int{}
	for seed := range uint64(40) {
		r, _ := rig(t, fake.Options{Seed: seed})
		other := drivertest.Got(r.Context.NewStream())(t)
		p := r.Floats(0)
		r.OK(r.Stream.Set(p, math.Float32bits(1), 1))
		r.OK(other.Set(p, math.Float32bits(2), 1))
		r.OK(r.Stream.Sync())
		r.OK(other.Sync())
		seen[r.Read(p, 1)[0]]++
		r.OK(r.Context.Close())
	}
	if seen[1] == 0 || seen[2] == 0 || seen[1]+seen[2] != 40 {
		t.Errorf("last writes %v", seen)
	}
}

// Waiting for an event does not wait for what follows it.
func TestEventsMarkAPoint(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	p := r.Floats(0)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	e := drivertest.Got(r.Context.NewEvent())(t)
	r.OK(r.Stream.Record(e))
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(e.Wait())
	r.Holds(p, 1)
	if done := drivertest.Got(r.Stream.Query())(t); !done { // does the second launch
		t.Error("Query does no work")
	}
	r.Holds(p, 2)
}

func TestContextIsCurrentOnOneGoroutine(t *testing.T) {
	r, d := rig(t, fake.Options{})
	done := make(chan error)
	for name, call := range map[string]func() error{
		"Alloc": func() error { _, err := r.Context.Alloc(4); return err },
		"Sync":  r.Stream.Sync,
		"Close": r.Context.Close,
	} {
		go func() { done <- call() }()
		if e := r.Fails(<-done, driver.InvalidContext); !strings.Contains(e.Log, "goroutine") {
			t.Errorf("%s: %v", name, e)
		}
	}
	_, err := d.Open(0)
	r.Fails(err, 216)
	r.OK(r.Context.Close())
	again := drivertest.Got(d.Open(0))(t)
	r.OK(again.Close())
}

func TestArgumentsMustFitTheParameters(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	p := uint64(r.Floats(0))
	one := uint64(math.Float32bits(1))
	for _, c := range []struct {
		args []uint64
		ok   bool
	}{
		{[]uint64{p, 1, one}, true},
		{[]uint64{p, 0xffffffff, one}, true},
		{[]uint64{p, 0xffffffffffffffff, one}, true}, // -1
		{[]uint64{p, 0xffffffff80000000, one}, true},
		{[]uint64{p, 0xffffffff7fffffff, one}, false},
		{[]uint64{p, 1 << 32, one}, false},
		{[]uint64{p, 1}, false},
		{[]uint64{p, 1, one, 0}, false},
		{[]uint64{1, p, one}, false},
		{[]uint64{p, 1, math.Float64bits(1)}, false},
	} {
		l := r.AddLaunch(0, 1, 0)
		l.Args = c.args
		if err := r.Stream.Launch(l); c.ok {
			r.OK(err)
		} else {
			r.Fails(err, 1)
		}
	}
	l := r.AddLaunch(0, 1, 0)
	l.Args = []uint64{p, 1, one}
	for _, g := range [][3]int{{1, 1 << 16, 1}, {1, 1, 1 << 16}, {1, 0, 1}, {-1, 1, 1}} {
		l.Grid = g
		r.Fails(r.Stream.Launch(l), 1)
	}
	l.Grid = [3]int{1, 1, 1}
	for _, b := range [][3]int{{32, 33, 1}, {1, 1, 65}, {1, 0, 1}} {
		l.Block = b
		r.Fails(r.Stream.Launch(l), 1)
	}
	other, _ := rig(t, fake.Options{})
	r.Fails(r.Stream.Launch(other.AddLaunch(0, 1, 0)), 400)
}

func TestMemoryIsLimited(t *testing.T) {
	r, _ := rig(t, fake.Options{Device: driver.Info{Memory: 1 << 20}})
	a := drivertest.Got(r.Context.Alloc(1 << 19))(t)
	drivertest.Got(r.Context.Alloc(1 << 19))(t)
	_, err := r.Context.Alloc(1)
	r.Fails(err, driver.OutOfMemory)
	r.OK(r.Context.Free(a))
	drivertest.Got(r.Context.Alloc(1 << 19))(t)
	drivertest.Got(r.Context.AllocHost(1 << 20))(t) // the host's
}

func TestMemoryIsPoisoned(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	p := drivertest.Got(r.Context.Alloc(8))(t)
	if x := r.Read(p, 2); x[0] == x[0] || x[1] == x[1] {
		t.Errorf("new memory holds %v, want NaN", x)
	}
	h := drivertest.Got(r.Context.AllocHost(8))(t)
	b := h.Bytes()
	if !slices.Equal(b, slices.Repeat([]byte{0xff}, 8)) {
		t.Errorf("new pinned memory holds %x", b)
	}
	clear(b)
	r.OK(h.Free())
	if b[0] != 0xff || h.Bytes() != nil || h.Address() != 0 {
		t.Errorf("freed pinned memory holds %x", b)
	}
	// A word past the end belongs to nobody.
	r.Fails(r.Context.CopyOut(make([]byte, 4), p+8), 1)
	r.Fails(r.Context.CopyOut(make([]byte, 12), p), 1)
	r.Fails(r.Stream.Set(p, 0, 3), 1)
	r.Fails(r.Stream.Set(p+2, 0, 1), 1)
	r.OK(r.Context.Free(p))
	if q := drivertest.Got(r.Context.Alloc(8))(t); q == p {
		t.Error("an address is used again")
	}
	// The pinned memory of one kind cannot be freed as the other.
	again := drivertest.Got(r.Context.AllocHost(8))(t)
	r.Fails(r.Context.Free(again.Address()), 1)
}

// A kernel that touches freed memory fails at the next wait, and everything after it.
func TestFailuresStick(t *testing.T) {
	for name, spoil := range map[string]func(*drivertest.Rig, driver.Ptr) error{
		"use after free": func(r *drivertest.Rig, p driver.Ptr) error {
			return errors.Join(r.Stream.Launch(r.AddLaunch(p, 1, 1)), r.Context.Free(p))
		},
		"past the end": func(r *drivertest.Rig, p driver.Ptr) error { return r.Stream.Launch(r.AddLaunch(p, 2, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, d := rig(t, fake.Options{})
			p := r.Floats(0)
			q := r.Floats(5)
			r.OK(spoil(r, p))
			r.OK(r.Stream.Launch(r.AddLaunch(q, 1, 1)))
			if e := r.Fails(r.Stream.Sync(), 700); !strings.Contains(e.Log, "add") {
				t.Errorf("the error does not name the kernel: %v", e)
			}
			_, err := r.Context.Alloc(4)
			r.Fails(err, 700)
			r.Fails(r.Context.CopyOut(make([]byte, 4), q), 700)
			r.Fails(r.Stream.Close(), 700)
			r.OK(r.Context.Close())
			if d.Live() != 0 {
				t.Errorf("%d objects live", d.Live())
			}
		})
	}
}

// Broken rules have the codes that a GPU gives, where it notices.
func TestFaultsHaveCodes(t *testing.T) {
	turn := func(r *drivertest.Rig, q, p driver.Ptr) error {
		return r.Stream.Launch(driver.Launch{
			Function: r.Turn, Grid: [3]int{1, 1, 1}, Block: [3]int{2, 1, 1}, Shared: 8, Args: []uint64{uint64(q), uint64(p)},
		})
	}
	for _, c := range []struct {
		name string
		code int
		do   func(r *drivertest.Rig) error
	}{
		{"misaligned", 716, func(r *drivertest.Rig) error { return turn(r, r.Floats(0, 0, 0), r.Floats(0, 0, 0)+2) }},
		{"no address", 700, func(r *drivertest.Rig) error { return turn(r, r.Floats(0, 0), 0) }},
		{"an address of the host", 700, func(r *drivertest.Rig) error {
			h := drivertest.Got(r.Context.AllocHost(8))(r.T)
			return turn(r, r.Floats(0, 0), driver.Ptr(uintptr(unsafe.Pointer(&h.Bytes()[0]))))
		}},
		{"never written", driver.Lost, func(r *drivertest.Rig) error {
			return turn(r, r.Floats(0, 0), drivertest.Got(r.Context.Alloc(8))(r.T))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := rig(t, fake.Options{})
			r.OK(c.do(r))
			r.Fails(r.Stream.Sync(), c.code)
		})
	}
	// The interpreter's options pass through.
	r, _ := rig(t, fake.Options{Kernels: ptx.Options{AllowUninitialised: true}})
	r.OK(turn(r, r.Floats(0, 0), drivertest.Got(r.Context.Alloc(8))(t)))
	r.OK(r.Stream.Sync())
}

func TestUnloadedModulesDoNotRun(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	m := drivertest.Got(r.Context.Load("k", drivertest.PTX))(t)
	f := drivertest.Got(m.Function("add"))(t)
	l := r.AddLaunch(r.Floats(0), 1, 1)
	l.Function = f
	r.OK(r.Stream.Launch(l))
	r.OK(m.Unload())
	r.Fails(r.Stream.Launch(l), 400)
	r.Fails(r.Stream.Sync(), 700)
}

// Every call fails when it is told to, once, and leaves the context usable,
// unless the code is one that sticks.
func TestFail(t *testing.T) {
	calls := []string{
		"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuMemGetInfo", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost",
		"cuMemcpyHtoD", "cuMemcpyDtoH", "cuStreamCreate", "cuStreamDestroy", "cuStreamSynchronize", "cuStreamQuery", "cuLaunchKernel",
		"cuMemsetD32Async", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventDestroy", "cuStreamBeginCapture", "cuStreamEndCapture",
		"cuGraphInstantiate", "cuGraphLaunch", "cuGraphExecDestroy", "cuModuleUnload", "cuFuncSetAttribute", "cuDevicePrimaryCtxRelease",
	}
	for _, call := range calls {
		for _, code := range []int{2, 719} {
			d := fake.New(fake.Options{Fail: func(c string, n int) int {
				if c == call && n == 1 {
					return code
				}
				return 0
			}})
			err := drivertest.Everything(d)
			var e *driver.Error
			if !errors.As(err, &e) || e.Code != code || e.Call != call {
				t.Errorf("%s fails with %d: got %v", call, code, err)
			}
			if d.Live() != 0 || d.Calls(call) == 0 {
				t.Errorf("%s fails with %d: %d objects live, %d calls", call, code, d.Live(), d.Calls(call))
			}
		}
	}
	if err := drivertest.Everything(fake.New(fake.Options{})); err != nil {
		t.Error(err)
	}
}

// Work can fail as well as calls.
func TestFailWhileRunning(t *testing.T) {
	r, d := rig(t, fake.Options{Fail: func(call string, n int) int {
		if call == "run" && n == 2 {
			return driver.Lost
		}
		return 0
	}})
	p := r.Floats(0)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(r.Stream.Sync())
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	e := r.Fails(r.Stream.Sync(), driver.Lost)
	if want := "cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)"; !strings.HasPrefix(e.Error(), want) {
		t.Errorf("got %q, want %q", e, want)
	}
	_, err := r.Context.NewEvent()
	r.Fails(err, driver.Lost)
	r.OK(r.Context.Close())
	if d.Live() != 0 {
		t.Errorf("%d objects live", d.Live())
	}
}

func TestLive(t *testing.T) {
	d := fake.New(fake.Options{})
	c := drivertest.Got(d.Open(0))(t)
	steps := []struct {
		what string
		live int
		do   func() error
	}{}
	add := func(what string, live int, do func() error) {
		steps = append(steps, struct {
			what string
			live int
			do   func() error
		}{what, live, do})
	}
	var p driver.Ptr
	var h driver.HostMemory
	var s driver.Stream
	var e driver.Event
	var g driver.Graph
	var m driver.Module
	add("memory", 2, func() (err error) { p, err = c.Alloc(1); return err })
	add("pinned memory", 3, func() (err error) { h, err = c.AllocHost(1); return err })
	add("stream", 4, func() (err error) { s, err = c.NewStream(); return err })
	add("event", 5, func() (err error) { e, err = c.NewEvent(); return err })
	add("graph", 6, func() (err error) { g, err = s.Capture(func() error { return nil }); return err })
	add("module", 7, func() (err error) { m, err = c.Load("kernels", drivertest.PTX); return err })
	add("no module", 6, func() error { return m.Unload() })
	add("no graph", 5, func() error { return g.Close() })
	add("no event", 4, func() error { return e.Close() })
	add("no stream", 3, func() error { return s.Close() })
	add("no pinned memory", 2, func() error { return h.Free() })
	add("no memory", 1, func() error { return c.Free(p) })
	add("no context", 0, c.Close)
	for _, s := range steps {
		if err := s.do(); err != nil || d.Live() != s.live {
			t.Fatalf("%s: %d live, want %d (%v)", s.what, d.Live(), s.live, err)
		}
	}
}

// What captures forbid beyond what drivertest tries.
func TestCapturesForbid(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	p := r.Floats(0)
	h := drivertest.Got(r.Context.AllocHost(8))(t)
	e, inside := drivertest.Got(r.Context.NewEvent())(t), drivertest.Got(r.Context.NewEvent())(t)
	r.OK(r.Stream.Record(e))
	other := drivertest.Got(r.Context.NewStream())(t)
	m := drivertest.Got(r.Context.Load("kernels", drivertest.PTX))(t)
	for i, call := range []func() error{
		func() error { return r.Context.CopyIn(p, []byte{1}) },
		func() error { return r.Context.CopyOut([]byte{1}, p) },
		func() error { return r.Context.Free(p) },
		func() error { _, err := r.Context.AllocHost(4); return err },
		func() error { _, err := r.Context.Load("kernels", drivertest.PTX); return err },
		h.Free, e.Wait, other.Sync, m.Unload,
		func() error { _, err := e.Done(); return err },
	} {
		_, err := r.Stream.Capture(call)
		if e := (*driver.Error)(nil); !errors.As(err, &e) || e.Code != driver.StreamCaptureForbid {
			t.Errorf("call %d in a capture: %v", i, err)
		}
	}
	// After a forbidden call the rest of the capture fails too.
	_, _ = r.Stream.Capture(func() error {
		_ = r.Stream.Sync()
		r.Fails(r.Stream.Launch(r.AddLaunch(p, 1, 1)), 901)
		return nil
	})
	// An event inside a capture is a part of the graph and cannot be waited for.
	g := drivertest.Got(r.Stream.Capture(func() (err error) {
		err = r.Stream.Record(inside)
		r.Fails(func() error { _, err := r.Stream.Capture(nil); return err }(), 401)
		// Graphs nest, and other streams go on.
		return errors.Join(err, other.Launch(r.AddLaunch(p, 1, 1)))
	}))(t)
	r.Fails(inside.Wait(), 907)
	r.OK(other.Sync())
	r.Holds(p, 1)
	nested := drivertest.Got(r.Stream.Capture(func() error {
		return errors.Join(r.Stream.Launch(r.AddLaunch(p, 1, 1)), r.Stream.Run(g))
	}))(t)
	r.OK(g.Close())
	r.Fails(r.Stream.Run(g), 400)
	r.OK(r.Stream.Run(nested))
	r.OK(r.Stream.Sync())
	r.Holds(p, 2)
}

func ExampleOptions() {
	d := fake.New(fake.Options{Fail: func(call string, n int) int {
		if call == "cuMemAlloc" && n == 1 {
			return driver.OutOfMemory
		}
		return 0
	}})
	c, _ := d.Open(0)
	_, err := c.Alloc(4)
	fmt.Println(err)
	_, err = c.Alloc(4)
	fmt.Println(err, c.Close(), d.Live())
	// Output:
	// cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)
	// <nil> <nil> 0
}

// What processes and contexts have taken, others do not get.
func TestRoom(t *testing.T) {
	const all = 1 << 20
	r, d := rig(t, fake.Options{Device: driver.Info{Memory: all}, Taken: all / 4})
	p := drivertest.Got(r.Context.Alloc(all / 2))(t)
	r.OK(r.Context.Leave())
	other := drivertest.Got(d.Open(0))(t)
	if room := drivertest.Got(other.Room())(t); room != all/4 {
		t.Errorf("%d bytes are left of %d", room, all)
	}
	_, err := other.Alloc(all/4 + 1)
	r.Fails(err, driver.OutOfMemory)
	r.OK(other.Close())
	r.OK(r.Context.Enter())
	r.OK(r.Context.Free(p))
	if room := drivertest.Got(r.Context.Room())(t); room != all*3/4 {
		t.Errorf("%d bytes are left of %d", room, all)
	}
}

// A GPU in exclusive mode has one context: the primary one, however often it is opened, or another.
func TestExclusive(t *testing.T) {
	r, d := rig(t, fake.Options{Exclusive: true})
	_, err := d.Create(0)
	r.Fails(err, driver.Unavailable)
	r.OK(r.Context.Leave())
	again := drivertest.Got(d.Open(0))(t)
	r.OK(again.Close())
	r.OK(r.Context.Close())
	other := drivertest.Got(d.Create(0))(t)
	_, err = d.Open(0)
	r.Fails(err, driver.Unavailable)
	r.OK(other.Close())
}

// A GPU of 227 KiB of shared memory a block gives them, and no byte more.
func TestMoreShared(t *testing.T) {
	const most = 227 << 10
	for _, c := range []struct {
		device driver.Info
		ask    int
		ok     bool
	}{{driver.Info{}, 99 << 10, true}, {driver.Info{}, 99<<10 + 4, false}, {driver.Info{SharedOptIn: most}, most, true}, {driver.Info{SharedOptIn: most}, most + 4, false}} {
		r, _ := rig(t, fake.Options{Device: c.device})
		if err := r.Turn.AllowShared(c.ask); (err == nil) != c.ok {
			t.Errorf("%d bytes where there are %d: %v", c.ask, c.device.SharedOptIn, err)
		}
		if carved := r.Turn.(*fake.Function).Carved(); c.ok != (carved == 100) {
			t.Errorf("%d%% of the memory is for blocks of %d bytes", carved, c.ask)
		}
	}
}

// A driver assembles no PTX that is newer than it is.
func TestDriverVersion(t *testing.T) {
	for _, c := range []struct {
		version int
		isa     string
		ok      bool
	}{
		{11040, "7.4", true}, {11040, "7.5", false}, {11080, "7.8", true}, {11080, "8.0", false}, {12000, "8.0", true}, {12040, "8.4", true},
		{12040, "8.5", false}, {12060, "8.5", true}, {12060, "8.6", false}, {12080, "8.7", true}, {13000, "9.0", true}, {13000, "9.1", false},
	} {
		d := fake.New(fake.Options{Version: c.version})
		if v, err := d.Version(); err != nil || v != c.version {
			t.Errorf("the driver is of version %d, %v", v, err)
		}
		x, err := d.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Load("m", []byte(".version "+c.isa+"\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"))
		var e *driver.Error
		if c.ok != (err == nil) || !c.ok && (!errors.As(err, &e) || e.Name != "CUDA_ERROR_UNSUPPORTED_PTX_VERSION") {
			t.Errorf("PTX ISA %s on a driver of version %d: %v", c.isa, c.version, err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Machine code is refused, and the context goes on.
func TestMachineCode(t *testing.T) {
	r, _ := rig(t, fake.Options{})
	_, err := r.Context.Load("m", append([]byte("\x7fELF"), make([]byte, 60)...))
	if e := r.Fails(err, 209); e.Name != "CUDA_ERROR_NO_BINARY_FOR_GPU" {
		t.Errorf("machine code is refused with %s", e.Name)
	}
	r.OK(drivertest.Got(r.Context.Load("kernels", drivertest.PTX))(t).Unload())
}
