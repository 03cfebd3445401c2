//go:build gocuda && cgo && linux

package cudrv

/*
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
	"slices"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// open makes libcuda's calls reachable. It is a variable for the tests' sake,
// which have put others in their place by then.
var open = sync.OnceValue(func() error {
	var why [512]C.char
	switch r := C.cudrv_bind(&why[0], C.size_t(len(why))); r {
	case C.CUDA_SUCCESS:
		return nil
	case C.CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
		return fmt.Errorf("no NVIDIA driver found (%s); install one", C.GoString(&why[0]))
	case C.CUDA_ERROR_NO_DEVICE:
		return fmt.Errorf("the NVIDIA driver sees no GPU (%s); check nvidia-smi and CUDA_VISIBLE_DEVICES", C.GoString(&why[0]))
	default:
		return fmt.Errorf("the NVIDIA driver does not start (%s); check nvidia-smi, or install the driver anew", C.GoString(&why[0]))
	}
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
		return nil, err
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

// explain is check with what the driver does not say.
func explain(call string, err error, log string, args ...any) error {
	e := failure(call, int(reflect.ValueOf(err).Int()))
	e.Log = fmt.Sprintf(log, args...)
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

// Open retains the primary context, which NCCL's own threads have too, and ties the calling goroutine to its thread, where
// it is current, until Leave or Close. Thread-local captures need that too. The context's flags are the driver's: every
// context maps pinned memory.
func (l library) Open(ordinal int) (driver.Context, error) {
	const call = "cuDevicePrimaryCtxRetain"
	info, err := l.Info(ordinal)
	if err != nil {
		return nil, err
	}
	device := cu.Device(ordinal)
	ctx, err := device.RetainPrimaryCtx()
	if err != nil {
		e := failure(call, int(reflect.ValueOf(err).Int()))
		if e.Code == driver.Unavailable {
			e.Log = "another process has this GPU for itself: wait for it, choose another GPU, or ask for nvidia-smi --compute-mode 0"
		}
		return nil, e
	}
	c := &context{info: info, ctx: ctx, memory: map[driver.Ptr]struct{}{}, end: func() error {
		_ = cu.SetCurrentContext(cu.CUContext{}) // whether or not it was
		return check("cuDevicePrimaryCtxRelease", device.ReleasePrimaryCtx())
	}}
	if err := c.Enter(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

type context struct {
	info    driver.Info
	ctx     cu.CUContext
	end     func() error
	entered bool // a goroutine is tied to its thread
	closed  bool
	// What it holds, in the order of its making, and memory of the GPU. Nothing is given back by
	// finalizers, which run on other threads.
	held   []*holding
	memory map[driver.Ptr]struct{}
}

// A holding is what must be given back. All that a context makes embeds one.
type holding struct {
	context *context
	call    string // that gives it back
	drop    func() error
}

const setCurrent = "cuCtxSetCurrent"

func (c *context) Enter() error {
	if c.closed || c.entered {
		return failure(setCurrent, driver.InvalidContext)
	}
	runtime.LockOSThread()
	if err := check(setCurrent, cu.SetCurrentContext(c.ctx)); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	c.entered = true
	return nil
}

// Leave leaves no context on the thread, which other goroutines will have.
func (c *context) Leave() error {
	if err := c.enter(setCurrent); err != nil {
		return err
	}
	c.entered = false
	defer runtime.UnlockOSThread()
	return check(setCurrent, cu.SetCurrentContext(cu.CUContext{}))
}

// enter is the start of every call.
func (c *context) enter(call string) error {
	if c.closed || !c.entered {
		return failure(call, driver.InvalidContext)
	}
	return nil
}

// do makes a call by cu.
func (c *context) do(call string, f func() error) error {
	if err := c.enter(call); err != nil {
		return err
	}
	return check(call, f())
}

func (c *context) hold(call string, drop func() error) *holding {
	h := &holding{c, call, drop}
	c.held = append(c.held, h)
	return h
}

// Close gives it back, once: a driver does not reliably see that it is asked to
// twice.
func (h *holding) Close() error {
	c := h.context
	if err := c.enter(h.call); err != nil {
		return err
	}
	i := slices.Index(c.held, h)
	if i < 0 {
		return failure(h.call, int(C.CUDA_ERROR_INVALID_HANDLE))
	}
	c.held = slices.Delete(c.held, i, i+1)
	return h.drop()
}

func (c *context) Close() error {
	if c.closed {
		return nil
	}
	if !c.entered {
		_ = c.Enter() // if it fails, the context is released all the same
	}
	c.closed = true
	if c.entered {
		defer runtime.UnlockOSThread()
	}
	// Others may have the context, which then keeps all that is not given back. After a failure these calls
	// fail; releasing the context is what counts.
	for _, h := range slices.Backward(c.held) {
		_ = h.drop()
	}
	for p := range c.memory {
		_ = cu.MemFree(cu.DevicePtr(p))
	}
	return c.end()
}

func (c *context) Info() driver.Info { return c.info }

func (c *context) Room() (int64, error) {
	const call = "cuMemGetInfo"
	if err := c.enter(call); err != nil {
		return 0, err
	}
	var room, all C.size_t
	err := code(call, C.cuMemGetInfo(&room, &all))
	return int64(room), err
}

func (c *context) Alloc(bytes int64) (p driver.Ptr, err error) {
	err = c.do("cuMemAlloc", func() error {
		a, err := cu.MemAlloc(bytes)
		p = driver.Ptr(a)
		return err
	})
	if err == nil {
		c.memory[p] = struct{}{}
	}
	return p, err // in this order: the call sets p
}

func (c *context) Free(p driver.Ptr) error {
	err := c.do("cuMemFree", func() error { return cu.MemFree(cu.DevicePtr(p)) })
	if err == nil {
		delete(c.memory, p)
	}
	return err
}

func (c *context) AllocHost(size int) (driver.HostMemory, error) {
	if err := c.enter("cuMemHostAlloc"); err != nil {
		return nil, err
	}
	var p unsafe.Pointer
	if err := code("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(size), C.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
		return nil, err
	}
	drop := func() error { return check("cuMemFreeHost", cu.MemFreeHost(p)) }
	var a C.CUdeviceptr
	if err := code("cuMemHostGetDevicePointer", C.cuMemHostGetDevicePointer(&a, p, 0)); err != nil {
		return nil, errors.Join(err, drop())
	}
	return &hostMemory{c.hold("cuMemFreeHost", drop), unsafe.Slice((*byte)(p), size), driver.Ptr(a)}, nil
}

type hostMemory struct {
	*holding
	bytes   []byte
	address driver.Ptr
}

func (h *hostMemory) Bytes() []byte       { return h.bytes }
func (h *hostMemory) Address() driver.Ptr { return h.address }

func (h *hostMemory) Free() error {
	err := h.Close()
	if err == nil {
		h.bytes, h.address = nil, 0
	}
	return err
}

func (c *context) CopyIn(dst driver.Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	err := c.do("cuMemcpyHtoD", func() error { return cu.MemcpyHtoD(cu.DevicePtr(dst), unsafe.Pointer(&src[0]), int64(len(src))) })
	if err != nil {
		return err
	}
	// The copy of pageable memory may return when it is staged, and streams that
	// do not block are not ordered after it: wait for the default stream.
	return code("cuStreamSynchronize", C.cuStreamSynchronize(nil))
}

func (c *context) CopyOut(dst []byte, src driver.Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return c.do("cuMemcpyDtoH", func() error { return cu.MemcpyDtoH(unsafe.Pointer(&dst[0]), cu.DevicePtr(src), int64(len(dst))) })
}

// Load copies the image, zeros in it included, and ends it with one, as PTX needs.
func (c *context) Load(name string, image []byte) (driver.Module, error) {
	const call = "cuModuleLoadDataEx"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	log := make([]byte, 1<<14)
	m, err := cu.LoadDataEx(string(image), &cu.JITErrorLogBuffer{Buffer: log})
	runtime.KeepAlive(log) // cu passes its address as an integer
	if err != nil {
		text, _, _ := bytes.Cut(log, []byte{0})
		return nil, explain(call, err, "%s: %s", name, text)
	}
	return &module{c.hold("cuModuleUnload", func() error { return check("cuModuleUnload", m.Unload()) }), m}, nil
}

type module struct {
	*holding
	module cu.Module
}

func (m *module) Unload() error { return m.Close() }

func (m *module) Function(name string) (driver.Function, error) {
	const call = "cuModuleGetFunction"
	if err := m.context.enter(call); err != nil {
		return nil, err
	}
	f, err := m.module.Function(name)
	if err != nil {
		return nil, explain(call, err, "%s", name)
	}
	return &function{m.context, name, f}, nil
}

type function struct {
	context  *context
	name     string
	function cu.Function
}

func (f *function) Name() string { return f.name }

func (f *function) AllowShared(bytes int) error {
	const call = "cuFuncSetAttribute"
	if err := f.context.enter(call); err != nil {
		return err
	}
	h := *(*C.CUfunction)(unsafe.Pointer(&f.function)) // the only field of cu's struct
	if err := code(call, C.cuFuncSetAttribute(h, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes))); err != nil {
		return err
	}
	const most = 100 // percent
	return code(call, C.cuFuncSetAttribute(h, C.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, most))
}

func (c *context) NewStream() (driver.Stream, error) {
	if err := c.enter("cuStreamCreate"); err != nil {
		return nil, err
	}
	s, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return nil, check("cuStreamCreate", err)
	}
	h := c.hold("cuStreamDestroy", func() error { return check("cuStreamDestroy", s.Destroy()) })
	return &stream{holding: h, stream: s, handle: C.CUstream(unsafe.Pointer(s.C()))}, nil
}

type stream struct {
	*holding
	stream    cu.Stream
	handle    C.CUstream
	capturing bool
}

func (s *stream) Launch(l driver.Launch) error {
	const call = "cuLaunchKernel"
	if err := s.context.enter(call); err != nil {
		return err
	}
	f, ok := l.Function.(*function)
	if !ok {
		return fmt.Errorf("cannot launch %T on this driver", l.Function)
	}
	params := make([]unsafe.Pointer, len(l.Args))
	for i := range l.Args {
		params[i] = unsafe.Pointer(&l.Args[i])
	}
	g, b := l.Grid, l.Block
	if err := f.function.Launch(g[0], g[1], g[2], b[0], b[1], b[2], l.Shared, s.stream, params); err != nil {
		return explain(call, err, "%s, grid %v, block %v, %d bytes of shared memory", f.name, g, b, l.Shared)
	}
	return nil
}

func (s *stream) Set(dst driver.Ptr, value uint32, n int) error {
	return s.context.do("cuMemsetD32Async", func() error { return cu.MemsetD32Async(cu.DevicePtr(dst), uint(value), int64(n), s.stream) })
}

func (s *stream) Sync() error { return s.context.do("cuStreamSynchronize", s.stream.Synchronize) }

// done tells work that is still to be done from a failure.
func (c *context) done(call string, query func() error) (bool, error) {
	err := c.do(call, query)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == int(C.CUDA_ERROR_NOT_READY) {
		return false, nil
	}
	return err == nil, err
}

func (s *stream) Query() (bool, error) { return s.context.done("cuStreamQuery", s.stream.Query) }

func (c *context) NewEvent() (driver.Event, error) {
	if err := c.enter("cuEventCreate"); err != nil {
		return nil, err
	}
	e, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		return nil, check("cuEventCreate", err)
	}
	return &event{c.hold("cuEventDestroy", func() error { return check("cuEventDestroy", cu.DestroyEvent(&e)) }), e}, nil
}

func (s *stream) Record(to driver.Event) error {
	e, ok := to.(*event)
	if !ok {
		return fmt.Errorf("cannot record %T on this driver", to)
	}
	return s.context.do("cuEventRecord", func() error { return e.event.Record(s.stream) })
}

type event struct {
	*holding
	event cu.Event
}

func (e *event) Wait() error { return e.context.do("cuEventSynchronize", e.event.Synchronize) }

func (e *event) Done() (bool, error) { return e.context.done("cuEventQuery", e.event.Query) }

func (s *stream) Capture(f func() error) (driver.Graph, error) {
	const begin, end, instantiate, destroy = "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphExecDestroy"
	if err := s.context.enter(begin); err != nil {
		return nil, err
	}
	if err := code(begin, C.cuStreamBeginCapture(s.handle, C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); err != nil {
		return nil, err
	}
	s.capturing = true
	failed := f()
	s.capturing = false
	var g C.CUgraph
	err := code(end, C.cuStreamEndCapture(s.handle, &g))
	if g != nil {
		defer C.cuGraphDestroy(g)
	}
	if failed != nil {
		return nil, failed // a spoiled capture is its consequence
	}
	if err != nil {
		return nil, err
	}
	var exec C.CUgraphExec
	if err := code(instantiate, C.cuGraphInstantiate(&exec, g, 0)); err != nil {
		return nil, err
	}
	return &graph{s.context.hold(destroy, func() error { return code(destroy, C.cuGraphExecDestroy(exec)) }), exec}, nil
}

type graph struct {
	*holding
	exec C.CUgraphExec
}

func (s *stream) Run(captured driver.Graph) error {
	const call = "cuGraphLaunch"
	if err := s.context.enter(call); err != nil {
		return err
	}
	g, ok := captured.(*graph)
	if !ok {
		return fmt.Errorf("cannot run %T on this driver", captured)
	}
	return code(call, C.cuGraphLaunch(g.exec, s.handle))
}
