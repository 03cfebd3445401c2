// Package drivertest holds what every driver.Driver must do, on a GPU or
// without one.
package drivertest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// PTX has the kernels add(p, n, x), which adds x to n floats, and turn(q, p), which
// reverses the floats of one block through dynamic shared memory.
//
//go:embed kernels.ptx
var PTX []byte

// A Rig is an open context with the kernels loaded.
type Rig struct {
	T         testing.TB
	Context   driver.Context
	Stream    driver.Stream
	Add, Turn driver.Function
}

// NewRig opens device 0. The context is closed when the test ends.
func NewRig(t testing.TB, d driver.Driver) *Rig {
	t.Helper()
	r := &Rig{T: t}
	var err error
	if r.Context, err = d.Open(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Context.Close() })
	r.Stream = Got(r.Context.NewStream())(t)
	m := Got(r.Context.Load("kernels", PTX))(t)
	r.Add, r.Turn = Got(m.Function("add"))(t), Got(m.Function("turn"))(t)
	return r
}

// Got is for calls that must not fail.
func Got[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// OK wants no error.
func (r *Rig) OK(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// once wants a call that gives something back to work, and then to fail.
func (r *Rig) once(what string, giveBack func() error) {
	r.T.Helper()
	if r.OK(giveBack()); giveBack() == nil {
		r.T.Errorf("%s twice", what)
	}
}

// Fails wants an error with a code.
func (r *Rig) Fails(err error, code int) *driver.Error {
	r.T.Helper()
	var e *driver.Error
	if !errors.As(err, &e) || e.Code != code {
		r.T.Fatalf("got %v, want code %d", err, code)
	}
	if e.Call == "" || !strings.HasPrefix(e.Name, "CUDA_ERROR_") {
		r.T.Errorf("error %+v names no call or no code", e)
	}
	return e
}

// Floats puts values into new memory.
func (r *Rig) Floats(x ...float32) driver.Ptr {
	r.T.Helper()
	p := Got(r.Context.Alloc(int64(4 * len(x))))(r.T)
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	r.OK(r.Context.CopyIn(p, b))
	return p
}

// Read copies n values out.
func (r *Rig) Read(p driver.Ptr, n int) []float32 {
	r.T.Helper()
	b := make([]byte, 4*n)
	r.OK(r.Context.CopyOut(b, p))
	return decode(b)
}

func decode(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// Holds wants values in memory.
func (r *Rig) Holds(p driver.Ptr, want ...float32) {
	r.T.Helper()
	if got := r.Read(p, len(want)); !slices.Equal(got, want) {
		r.T.Fatalf("memory holds %v, want %v", got, want)
	}
}

// AddLaunch adds x to n floats at p.
func (r *Rig) AddLaunch(p driver.Ptr, n int, x float32) driver.Launch {
	return driver.Launch{
		Function: r.Add, Grid: [3]int{(n + 31) / 32, 1, 1}, Block: [3]int{32, 1, 1},
		Args: []uint64{uint64(p), uint64(n), uint64(math.Float32bits(x))},
	}
}

// Run tests a driver.
func Run(t *testing.T, d driver.Driver) {
	for _, c := range []struct {
		name string
		test func(*Rig)
	}{
		{"memory", memory}, {"pinned memory", pinned}, {"launches", launches}, {"arguments are copied", copied}, {"shared memory", shared}, {"modules", modules},
		{"events", events}, {"graphs", graphs}, {"captures refuse", refuses}, {"a failed capture", failedCapture}, {"closing", closing}, {"clocks", clocks}, {"goroutines", goroutines},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(NewRig(t, d)) })
	}
	if b, ok := d.(driver.BLAS); ok {
		if _, err := b.BLAS(); err == nil {
			t.Run("products", func(t *testing.T) { products(NewRig(t, d)) })
		}
	}
	if l, ok := d.(driver.NCCL); ok {
		t.Run("a rank alone", func(t *testing.T) {
			if _, err := l.NCCL(); err != nil {
				t.Skipf("NCCL is not installed: %v", err)
			}
			alone(t, d)
		})
	}
	t.Run("devices", func(t *testing.T) {
		n, err := d.Devices()
		v, verr := d.Version()
		i, ierr := d.Info(0)
		if err != nil || verr != nil || ierr != nil || n < 1 || v < 11040 || i.Name == "" || i.Capability < 80 || i.Memory < 1<<20 ||
			i.Processors < 1 || i.SharedPerBlock != 48<<10 || i.SharedOptIn <= i.SharedPerBlock || i.L2 < 1 {
			t.Errorf("%d devices of version %d, the first is %+v: %v, %v, %v", n, v, i, err, verr, ierr)
		}
		r := NewRig(t, d)
		if r.Context.Info() != i {
			t.Errorf("an open context says %+v, the device %+v", r.Context.Info(), i)
		}
		_, err = d.Info(n)
		r.Fails(err, 101)
		_, err = d.Open(n)
		r.Fails(err, 101)
	})
}

func memory(r *Rig) {
	p := r.Floats(1, 2, 3)
	if p%256 != 0 {
		r.T.Errorf("address %#x is not aligned to 256 bytes", p)
	}
	r.Holds(p, 1, 2, 3)
	r.Holds(p+4, 2, 3)
	r.OK(r.Context.CopyIn(p, nil))
	r.OK(r.Context.CopyOut(nil, p))
	r.OK(r.Stream.Set(p, math.Float32bits(7), 2))
	r.OK(r.Stream.Sync())
	r.Holds(p, 7, 7, 3)
	before := Got(r.Context.Room())(r.T)
	const block = 8 << 20 // drivers give memory out in pages of 2 MiB, and may keep some that were given back
	q := Got(r.Context.Alloc(block))(r.T)
	if after := Got(r.Context.Room())(r.T); before < block || before > r.Context.Info().Memory || after > before {
		r.T.Errorf("%d bytes of %d are free, %d after %d were taken", before, r.Context.Info().Memory, after, block)
	}
	r.OK(r.Context.Free(q))
	_, err := r.Context.Alloc(r.Context.Info().Memory + 1)
	r.Fails(err, driver.OutOfMemory)
	_, err = r.Context.Alloc(0)
	r.Fails(err, 1)
	r.OK(r.Context.Free(p))
	r.Fails(r.Context.CopyOut(make([]byte, 4), p), 1)
	r.Fails(r.Context.Free(p), 1)
}

func pinned(r *Rig) {
	h := Got(r.Context.AllocHost(128))(r.T)
	copy(h.Bytes(), make([]byte, 128))
	if h.Address() == 0 || len(h.Bytes()) != 128 {
		r.T.Fatalf("%d bytes at %#x", len(h.Bytes()), h.Address())
	}
	r.OK(r.Stream.Launch(r.AddLaunch(h.Address(), 32, 2)))
	r.OK(r.Stream.Sync())
	if x := decode(h.Bytes()); x[0] != 2 || x[31] != 2 {
		r.T.Errorf("the host sees %v", x)
	}
	r.once("pinned memory is freed", h.Free)
}

func launches(r *Rig) {
	x := make([]float32, 100)
	p := r.Floats(x...)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 99, 1.5)))
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(r.Stream.Sync())
	if got := r.Read(p, 100); got[0] != 2.5 || got[1] != 1.5 || got[98] != 1.5 || got[99] != 0 {
		r.T.Errorf("got %v", got)
	}
	if ok, err := r.Stream.Query(); !ok || err != nil {
		r.T.Errorf("a stream without work says %v, %v", ok, err)
	}
	l := r.AddLaunch(p, 1, 1)
	l.Block = [3]int{1025, 1, 1}
	r.Fails(r.Stream.Launch(l), 1)
	l.Block, l.Grid = [3]int{32, 1, 1}, [3]int{0, 1, 1}
	r.Fails(r.Stream.Launch(l), 1)
	if r.Add.Name() != "add" {
		r.T.Errorf("add is named %q", r.Add.Name())
	}
}

func copied(r *Rig) {
	p := r.Floats(0)
	l := r.AddLaunch(p, 1, 1)
	r.OK(r.Stream.Launch(l))
	l.Args[2] = uint64(math.Float32bits(100))
	r.OK(r.Stream.Sync())
	r.Holds(p, 1)
}

func shared(r *Rig) {
	p, q := r.Floats(1, 2, 3, 4), r.Floats(0, 0, 0, 0)
	l := driver.Launch{Function: r.Turn, Grid: [3]int{1, 1, 1}, Block: [3]int{4, 1, 1}, Shared: 16, Args: []uint64{uint64(q), uint64(p)}}
	r.OK(r.Stream.Launch(l))
	r.OK(r.Stream.Sync())
	r.Holds(q, 4, 3, 2, 1)
	l.Shared = 48<<10 + 4
	r.Fails(r.Stream.Launch(l), 1)
	r.OK(r.Turn.AllowShared(l.Shared))
	r.OK(r.Stream.Launch(l))
	r.OK(r.Stream.Sync())
	r.Fails(r.Turn.AllowShared(r.Context.Info().SharedOptIn+4), 1)
}

func modules(r *Rig) {
	_, err := r.Context.Load("broken.ptx", []byte(".version 7.4\n.target sm_80\n.address_size 64\n.visible .entry f() { frobnicate.u32 1; }\n"))
	if e := r.Fails(err, 218); !strings.Contains(e.Log, "broken.ptx") || !strings.Contains(e.Log, "frobnicate") {
		r.T.Errorf("the log is %q", e.Log)
	}
	m := Got(r.Context.Load("kernels", PTX))(r.T)
	_, err = m.Function("none")
	r.Fails(err, 500)
	r.once("a module is unloaded", m.Unload)
}

func events(r *Rig) {
	p := r.Floats(0)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	e, later := Got(r.Context.NewEvent())(r.T), Got(r.Context.NewEvent())(r.T)
	r.OK(e.Wait()) // never recorded
	r.OK(r.Stream.Record(e))
	r.OK(e.Wait())
	r.Holds(p, 1)
	if ok, err := e.Done(); !ok || err != nil {
		r.T.Errorf("after Wait: %v, %v", ok, err)
	}
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(r.Stream.Record(later))
	for done := false; !done; {
		done = Got(later.Done())(r.T)
	}
	r.Holds(p, 2)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(r.Stream.Record(e)) // again: the new point counts
	r.OK(e.Wait())
	r.Holds(p, 3)
	r.once("an event is closed", e.Close)
	if r.Stream.Record(e) == nil {
		r.T.Error("a closed event is recorded")
	}
	r.OK(later.Close())
}

func graphs(r *Rig) {
	p := r.Floats(0, 0)
	x := float32(1)
	g := Got(r.Stream.Capture(func() error {
		l := r.AddLaunch(p, 2, x)
		err := errors.Join(r.Stream.Launch(l), r.Stream.Set(p, math.Float32bits(5), 1), r.Stream.Launch(r.AddLaunch(p, 1, x)))
		l.Args[2] = 0
		return err
	}))(r.T)
	r.OK(r.Stream.Sync())
	r.Holds(p, 0, 0) // recorded, not done
	for range 3 {
		r.OK(r.Stream.Run(g))
	}
	r.OK(r.Stream.Sync())
	r.Holds(p, 6, 3)
	r.once("a graph is closed", g.Close)
}

func refuses(r *Rig) {
	p := r.Floats(0)
	h := Got(r.Context.AllocHost(8))(r.T)
	for name, call := range map[string]func() error{
		"Sync":  r.Stream.Sync,
		"Query": func() error { _, err := r.Stream.Query(); return err },
		"Alloc": func() error { _, err := r.Context.Alloc(4); return err },
	} {
		var inside error
		_, err := r.Stream.Capture(func() error {
			r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
			inside = call()
			return inside
		})
		if inside == nil {
			r.T.Errorf("%s is allowed in a capture", name)
		}
		r.Fails(err, driver.StreamCaptureForbid)
		// The capture is spoiled whatever f says.
		_, err = r.Stream.Capture(func() error { _ = call(); return nil })
		r.Fails(err, 901)
		r.OK(r.Stream.Sync())
	}
	r.Holds(p, 0)
	r.OK(h.Free())
}

func failedCapture(r *Rig) {
	p := r.Floats(0)
	wrong := errors.New("the caller's")
	if _, err := r.Stream.Capture(func() error {
		r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
		return wrong
	}); err != wrong {
		r.T.Errorf("got %v", err)
	}
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 2)))
	r.OK(r.Stream.Sync())
	r.Holds(p, 2)
}

// goroutines hands the context from one to the next.
func goroutines(r *Rig) {
	p := r.Floats(0)
	for range 3 {
		r.OK(r.Context.Leave())
		if r.Stream.Sync() == nil || r.Context.Leave() == nil {
			r.T.Error("a call without a context")
		}
		done := make(chan error)
		go func() {
			err := r.Context.Enter()
			if err == nil {
				err = errors.Join(r.Stream.Launch(r.AddLaunch(p, 1, 1)), r.Stream.Sync(), r.Context.Leave())
			}
			done <- err
		}()
		r.OK(<-done)
		r.OK(r.Context.Enter())
		if r.Context.Enter() == nil {
			r.T.Error("a context is entered twice")
		}
	}
	r.Holds(p, 3)
	r.OK(r.Context.Leave())
	r.OK(r.Context.Close()) // current nowhere
}

func closing(r *Rig) {
	p := r.Floats(0)
	r.OK(r.Stream.Launch(r.AddLaunch(p, 1, 1)))
	r.OK(r.Context.Close())
	r.OK(r.Context.Close())
	r.Fails(r.Stream.Sync(), driver.InvalidContext)
	_, err := r.Context.Alloc(4)
	r.Fails(err, driver.InvalidContext)
}

// Everything makes each call once, to the first error, and closes the context.
func Everything(d driver.Driver) (err error) {
	if _, err := d.Version(); err != nil {
		return err
	}
	if _, err := d.Devices(); err != nil {
		return err
	}
	if err := everyRank(d); err != nil {
		return err
	}
	c, err := d.Open(0)
	if err != nil {
		return err
	}
	defer func() {
		if closed := c.Close(); err == nil {
			err = closed
		}
	}()
	var m driver.Module
	var f driver.Function
	var p driver.Ptr
	var h driver.HostMemory
	var s driver.Stream
	var e driver.Event
	var g driver.Graph
	var k [2]driver.Clock
	marks := func() error { return errors.Join(s.Mark(k[0]), s.Mark(k[1])) }
	for _, call := range []func() error{
		func() (err error) { m, err = c.Load("kernels", PTX); return err },
		func() (err error) { f, err = m.Function("add"); return err },
		func() error { _, err := c.Room(); return err },
		func() (err error) { p, err = c.Alloc(4); return err },
		func() (err error) { h, err = c.AllocHost(4); return err },
		func() (err error) { s, err = c.NewStream(); return err },
		func() error { return c.CopyIn(p, make([]byte, 4)) },
		func() error { return c.CopyOut(make([]byte, 4), p) },
		func() error { return f.AllowShared(1 << 10) },
		c.Leave,
		c.Enter,
		func() error { return s.Set(p, 0, 1) },
		func() error {
			return s.Launch(driver.Launch{Function: f, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}, Args: []uint64{uint64(p), 1, 0}})
		},
		func() (err error) { e, err = c.NewEvent(); return err },
		func() error { return s.Record(e) },
		func() (err error) { k[0], err = c.NewClock(); return err },
		func() (err error) { k[1], err = c.NewClock(); return err },
		marks,
		func() (err error) { g, err = s.Capture(marks); return err },
		func() error { _, err := e.Done(); return err },
		func() error { return e.Wait() },
		func() error { return e.Close() },
		func() error { return s.Run(g) },
		func() error { _, err := s.Query(); return err },
		func() error { return s.Sync() },
		func() error { _, err := k[1].Since(k[0]); return err },
		func() error { return errors.Join(k[0].Close(), k[1].Close()) },
		func() error { return g.Close() },
		func() error { return everyProduct(d, c, s) },
		func() error { return s.Close() },
		func() error { return h.Free() },
		func() error { return m.Unload() },
		func() error { return c.Free(p) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}
