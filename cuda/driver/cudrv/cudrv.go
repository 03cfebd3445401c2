//go:build gocuda && cgo

package cudrv

/*
#cgo CFLAGS: -I${SRCDIR}/include
#cgo LDFLAGS: -L${SRCDIR}/stub -ldl
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/privgrad/privgrad/cuda/driver"
)

// open makes libcuda's calls reachable. It is a variable for the tests' sake,
// which have put others in their place by then.
var open = sync.OnceValue(func() error {
	var why [512]C.char
	if r := C.cudrv_bind(&why[0], C.size_t(len(why))); r != 0 {
		return errors.New(C.GoString(&why[0]))
	}
	return nil
})

// Replace puts a C function in the place of one of libcuda's. It is for tests
// on machines without a GPU, which call it before anything else.
func Replace(name string, function unsafe.Pointer) error {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	if C.cudrv_replace(c, function) == 0 {
		return fmt.Errorf("no driver call is named %s", name)
	}
	open = func() error { return nil }
	return nil
}

// Open finds the installed driver. The error says why there is none.
func Open() (driver.Driver, error) {
	if err := open(); err != nil {
		return nil, fmt.Errorf("no CUDA driver: %w", err)
	}
	return library{}, nil
}

// check turns an error of cu, which is a CUresult, into a driver.Error.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	return failure(call, int(reflect.ValueOf(err).Int()))
}

// code is check for calls that cu lacks.
func code(call string, r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return failure(call, int(r))
}

func failure(call string, code int) *driver.Error {
	e := &driver.Error{Call: call, Code: code, Name: "unknown error"}
	var name *C.char
	if C.cuGetErrorName(C.CUresult(code), &name) == C.CUDA_SUCCESS {
		e.Name = C.GoString(name)
	}
	return e
}

type library struct{}

func (library) Version() (int, error) {
	var v C.int
	err := code("cuDriverGetVersion", C.cuDriverGetVersion(&v)) // cu.Version keeps no error
	return int(v), err
}

func (library) Devices() (int, error) {
	n, err := cu.NumDevices()
	return n, check("cuDeviceGetCount", err)
}

func (library) Info(ordinal int) (driver.Info, error) {
	var i driver.Info
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return i, check("cuDeviceGet", err)
	}
	if i.Name, err = dev.Name(); err != nil {
		return i, check("cuDeviceGetName", err)
	}
	if i.Memory, err = dev.TotalMem(); err != nil {
		return i, check("cuDeviceTotalMem", err)
	}
	var major, minor int
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		value     *int
	}{
		{cu.ComputeCapabilityMajor, &major},
		{cu.ComputeCapabilityMinor, &minor},
		{cu.MultiprocessorCount, &i.Processors},
		{cu.MaxSharedMemoryPerBlock, &i.SharedPerBlock},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &i.SharedOptIn},
		{cu.L2CacheSize, &i.L2},
	} {
		if *a.value, err = dev.Attribute(a.attribute); err != nil {
			return i, check("cuDeviceGetAttribute", err)
		}
	}
	i.Capability = 10*major + minor
	return i, nil
}

func (l library) Open(ordinal int) (driver.Context, error) {
	info, err := l.Info(ordinal)
	if err != nil {
		return nil, err
	}
	c := &context{info: info, work: make(chan func()), closed: make(chan struct{})}
	ready := make(chan error)
	go c.serve(ordinal, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return c, nil
}

// A context is current on one thread, which runs all its calls. Thread-local
// capture needs that too. The thread ends with the context.
type context struct {
	info   driver.Info
	work   chan func()
	closed chan struct{}
	ctx    cu.CUContext
	// What the context holds, in the order of its making; only its thread looks.
	held []*holding
}

// A holding is what must be given back. drop is nil once it was.
type holding struct{ drop func() error }

func (c *context) serve(ordinal int, ready chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	ctx, err := cu.Device(ordinal).MakeContext(cu.SchedAuto | cu.MapHost)
	if err != nil {
		ready <- check("cuCtxCreate", err)
		return
	}
	c.ctx = ctx
	ready <- nil
	for {
		select {
		case f := <-c.work:
			f()
		case <-c.closed:
			return
		}
	}
}

// do runs f on the context's thread.
func (c *context) do(call string, f func() error) error {
	done := make(chan error, 1)
	select {
	case c.work <- func() { done <- f() }:
		return <-done
	case <-c.closed:
		return failure(call, driver.InvalidContext)
	}
}

// hold notes what Close must give back; on the context's thread.
func (c *context) hold(drop func() error) *holding {
	h := &holding{drop}
	c.held = append(c.held, h)
	return h
}

// release gives a holding back, once. Twice is an error of the caller's, which
// the driver would not reliably see.
func (c *context) release(call string, h *holding) error {
	return c.do(call, func() error {
		for i, o := range c.held {
			if o == h {
				c.held = append(c.held[:i], c.held[i+1:]...)
				return h.drop()
			}
		}
		return failure(call, int(C.CUDA_ERROR_INVALID_HANDLE))
	})
}

func (c *context) Close() error {
	select {
	case <-c.closed:
		return nil
	default:
	}
	err := c.do("cuCtxDestroy", func() error {
		// After a failure every call fails, and destroying the context frees all
		// that belongs to it.
		for i := len(c.held) - 1; i >= 0; i-- {
			_ = c.held[i].drop()
		}
		c.held = nil
		return check("cuCtxDestroy", c.ctx.Destroy())
	})
	close(c.closed)
	return err
}

func (c *context) Info() driver.Info { return c.info }

func (c *context) Alloc(bytes int64) (driver.Ptr, error) {
	var p cu.DevicePtr
	err := c.do("cuMemAlloc", func() (err error) {
		p, err = cu.MemAlloc(bytes)
		return check("cuMemAlloc", err)
	})
	return driver.Ptr(p), err
}

func (c *context) Free(p driver.Ptr) error {
	return c.do("cuMemFree", func() error { return check("cuMemFree", cu.MemFree(cu.DevicePtr(p))) })
}

func (c *context) AllocHost(size int) (driver.HostMemory, error) {
	h := &hostMemory{context: c}
	err := c.do("cuMemHostAlloc", func() error {
		var p unsafe.Pointer
		if err := code("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(size), C.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
			return err
		}
		drop := func() error { return check("cuMemFreeHost", cu.MemFreeHost(p)) }
		var a C.CUdeviceptr
		if err := code("cuMemHostGetDevicePointer", C.cuMemHostGetDevicePointer(&a, p, 0)); err != nil {
			return errors.Join(err, drop())
		}
		h.bytes, h.address = unsafe.Slice((*byte)(p), size), driver.Ptr(a)
		h.holding = c.hold(drop)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

type hostMemory struct {
	context *context
	holding *holding
	bytes   []byte
	address driver.Ptr
}

func (h *hostMemory) Bytes() []byte       { return h.bytes }
func (h *hostMemory) Address() driver.Ptr { return h.address }

func (h *hostMemory) Free() error {
	h.bytes = nil
	return h.context.release("cuMemFreeHost", h.holding)
}

func (c *context) CopyIn(dst driver.Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return c.do("cuMemcpyHtoD", func() error {
		return check("cuMemcpyHtoD", cu.MemcpyHtoD(cu.DevicePtr(dst), unsafe.Pointer(&src[0]), int64(len(src))))
	})
}

func (c *context) CopyOut(dst []byte, src driver.Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return c.do("cuMemcpyDtoH", func() error {
		return check("cuMemcpyDtoH", cu.MemcpyDtoH(unsafe.Pointer(&dst[0]), cu.DevicePtr(src), int64(len(dst))))
	})
}

func (c *context) Load(name string, ptx []byte) (driver.Module, error) {
	m := &module{context: c}
	err := c.do("cuModuleLoadDataEx", func() error {
		log := make([]byte, 1<<14)
		mod, err := cu.LoadDataEx(string(ptx), &cu.JITErrorLogBuffer{Buffer: log})
		runtime.KeepAlive(log) // cu passes its address as an integer
		if err != nil {
			e := failure("cuModuleLoadDataEx", int(reflect.ValueOf(err).Int()))
			text, _, _ := bytes.Cut(log, []byte{0})
			e.Log = name
			if len(text) > 0 {
				e.Log += ": " + string(text)
			}
			return e
		}
		m.module = mod
		m.holding = c.hold(func() error { return check("cuModuleUnload", mod.Unload()) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

type module struct {
	context *context
	holding *holding
	module  cu.Module
}

func (m *module) Unload() error { return m.context.release("cuModuleUnload", m.holding) }

func (m *module) Function(name string) (driver.Function, error) {
	f := &function{context: m.context, name: name}
	err := m.context.do("cuModuleGetFunction", func() (err error) {
		if f.function, err = m.module.Function(name); err != nil {
			e := failure("cuModuleGetFunction", int(reflect.ValueOf(err).Int()))
			e.Log = name
			return e
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

type function struct {
	context  *context
	name     string
	function cu.Function
}

func (f *function) Name() string { return f.name }

func (f *function) AllowShared(bytes int) error {
	return f.context.do("cuFuncSetAttribute", func() error {
		// cu keeps the handle, a struct's only field, to itself.
		h := *(*C.CUfunction)(unsafe.Pointer(&f.function))
		return code("cuFuncSetAttribute", C.cuFuncSetAttribute(h, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
	})
}

func (c *context) NewStream() (driver.Stream, error) {
	s := &stream{context: c}
	err := c.do("cuStreamCreate", func() error {
		made, err := cu.MakeStream(cu.NonBlocking)
		if err != nil {
			return check("cuStreamCreate", err)
		}
		s.stream, s.handle = made, C.CUstream(unsafe.Pointer(made.C()))
		s.holding = c.hold(func() error { return check("cuStreamDestroy", made.Destroy()) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

type stream struct {
	context *context
	holding *holding
	stream  cu.Stream
	handle  C.CUstream
}

func (s *stream) Close() error { return s.context.release("cuStreamDestroy", s.holding) }

func (s *stream) Launch(l driver.Launch) error {
	f, ok := l.Function.(*function)
	if !ok {
		return fmt.Errorf("cannot launch %T on this driver", l.Function)
	}
	params := make([]unsafe.Pointer, len(l.Args))
	for i := range l.Args {
		params[i] = unsafe.Pointer(&l.Args[i])
	}
	g, b := l.Grid, l.Block
	return s.context.do("cuLaunchKernel", func() error {
		err := f.function.Launch(g[0], g[1], g[2], b[0], b[1], b[2], l.Shared, s.stream, params)
		if err != nil {
			e := failure("cuLaunchKernel", int(reflect.ValueOf(err).Int()))
			e.Log = fmt.Sprintf("%s, grid %v, block %v, %d bytes of shared memory", f.name, g, b, l.Shared)
			return e
		}
		return nil
	})
}

func (s *stream) Set(dst driver.Ptr, value uint32, n int) error {
	return s.context.do("cuMemsetD32Async", func() error {
		return check("cuMemsetD32Async", cu.MemsetD32Async(cu.DevicePtr(dst), uint(value), int64(n), s.stream))
	})
}

func (s *stream) Sync() error {
	return s.context.do("cuStreamSynchronize", func() error { return check("cuStreamSynchronize", s.stream.Synchronize()) })
}

// done tells work that is still to be done from a failure.
func done(call string, err error) (bool, error) {
	err = check(call, err)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == int(C.CUDA_ERROR_NOT_READY) {
		return false, nil
	}
	return err == nil, err
}

func (s *stream) Query() (ok bool, err error) {
	err = s.context.do("cuStreamQuery", func() (err error) {
		ok, err = done("cuStreamQuery", s.stream.Query())
		return err
	})
	return ok, err
}

func (s *stream) Record() (driver.Event, error) {
	e := &event{context: s.context}
	err := s.context.do("cuEventRecord", func() error {
		made, err := cu.MakeEvent(cu.DisableTiming)
		if err != nil {
			return check("cuEventCreate", err)
		}
		drop := func() error { return check("cuEventDestroy", cu.DestroyEvent(&made)) }
		if err := check("cuEventRecord", made.Record(s.stream)); err != nil {
			return errors.Join(err, drop())
		}
		e.event = made
		e.holding = s.context.hold(drop)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

type event struct {
	context *context
	holding *holding
	event   cu.Event
}

func (e *event) Wait() error {
	return e.context.do("cuEventSynchronize", func() error { return check("cuEventSynchronize", e.event.Synchronize()) })
}

func (e *event) Done() (ok bool, err error) {
	err = e.context.do("cuEventQuery", func() (err error) {
		ok, err = done("cuEventQuery", e.event.Query())
		return err
	})
	return ok, err
}

func (e *event) Close() error { return e.context.release("cuEventDestroy", e.holding) }

func (s *stream) Capture(f func() error) (driver.Graph, error) {
	err := s.context.do("cuStreamBeginCapture", func() error {
		return code("cuStreamBeginCapture", C.cuStreamBeginCapture(s.handle, C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
	})
	if err != nil {
		return nil, err
	}
	failed := f() // on the caller's goroutine: its calls come back to the thread
	g := &graph{context: s.context}
	err = s.context.do("cuStreamEndCapture", func() error {
		var captured C.CUgraph
		err := code("cuStreamEndCapture", C.cuStreamEndCapture(s.handle, &captured))
		if captured != nil {
			defer C.cuGraphDestroy(captured)
		}
		if failed != nil || err != nil {
			return err
		}
		if err := code("cuGraphInstantiate", C.cuGraphInstantiate(&g.exec, captured, 0)); err != nil {
			return err
		}
		exec := g.exec
		g.holding = s.context.hold(func() error { return code("cuGraphExecDestroy", C.cuGraphExecDestroy(exec)) })
		return nil
	})
	if failed != nil {
		return nil, failed // an invalidated capture is its consequence
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

type graph struct {
	context *context
	holding *holding
	exec    C.CUgraphExec
}

func (s *stream) Run(g driver.Graph) error {
	captured, ok := g.(*graph)
	if !ok {
		return fmt.Errorf("cannot run %T on this driver", g)
	}
	return s.context.do("cuGraphLaunch", func() error {
		return code("cuGraphLaunch", C.cuGraphLaunch(captured.exec, s.handle))
	})
}

func (g *graph) Close() error { return g.context.release("cuGraphExecDestroy", g.holding) }
