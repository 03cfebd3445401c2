// Package fake is a CUDA driver in host memory, for machines without a GPU. It
// runs PTX by package ptx and keeps the rules that a GPU's driver has, as
// strictly as they may be read, so that code which passes here does not lean on
// luck:
//
//   - Work on a stream is done at a later Sync, Query, Wait or Done and not
//     before, in order within a stream and in random order between streams.
//     Kernels see what pinned memory holds then, not when they were launched.
//   - A context is current on the goroutine that opened it or entered it, until that leaves it; calls from
//     another one, or after Close, fail with code 201.
//   - Inside Capture, arguments are recorded by value, and every call that waits,
//     allocates or frees fails with code 900 and spoils the capture.
//   - Launches need arguments that agree in number and size with the kernel's parameters, at
//     most 1024 threads a block, and AllowShared for more than 48 KiB of shared
//     memory.
//   - Memory is full of NaN when it is new, is limited, and its addresses are never
//     used again once it is freed.
//   - Modules are PTX; machine code is refused, as a GPU refuses that of another.
//   - A GPU may allow one context. Every use of the primary one has memory of its own, and all share what the device has.
//   - What fails while it runs fails every later call of the context, with the same code.
package fake

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/ptx"
)

// Options of a Driver. The zero value is a GPU that never fails.
type Options struct {
	// Device is what Info says of the one device. Zeros are those of the smallest that kernels are
	// written for: compute capability 8.0, 99 KiB of shared memory a block, here with 1 GiB of memory.
	Device driver.Info
	// Version of the driver, which assembles no PTX that is newer; 0 is 12040.
	Version int
	// Timer says how long work takes; nil is 5 µs each.
	Timer Timer
	// Sparse, unless nil, is what memory holds where it was not written: it takes that of the host only
	// where it is used.
	Sparse ptx.Content
	Seed   uint64 // of the order between streams
	// Fail gives the error code of the nth call, from 1 on, of a driver function,
	// or 0. Functions have the names of the driver API (cuMemAlloc, cuLaunchKernel, …);
	// "run" is the doing of a kernel, a fill or a copy on a stream. Codes from 700 to 799 stick to the context.
	Fail func(call string, n int) int
	// Kernels says how kernels run; SharedLimit is the driver's.
	Kernels ptx.Options
	BLAS    BLAS
	NCCL    NCCL
	// Taken is how much of the device's memory other processes have.
	Taken int64
	// Exclusive is the mode of a GPU that allows one context, the primary one or another.
	Exclusive bool
}

// Limits of the device; the last one is that of the smallest GPU that kernels are written for.
const (
	maxThreads     = 1024
	sharedPerBlock = 48 << 10
	sharedOptIn    = 99 << 10
)

// Codes that package driver has no name for.
const (
	invalidValue   = 1
	invalidDevice  = 101
	contextInUse   = 216
	noBinary       = 209
	invalidPTX     = 218
	newerPTX       = 222
	invalidHandle  = 400
	illegalState   = 401
	notFound       = 500
	illegalAddress = 700
	misaligned     = 716
	captureSpoiled = 901
	notReady       = 600
	capturedEvent  = 907
	firstSticky    = 700
	lastSticky     = 799
)

var names = map[int]string{
	invalidValue:               "CUDA_ERROR_INVALID_VALUE",
	driver.OutOfMemory:         "CUDA_ERROR_OUT_OF_MEMORY",
	driver.Unavailable:         "CUDA_ERROR_DEVICE_UNAVAILABLE",
	driver.NoDevice:            "CUDA_ERROR_NO_DEVICE",
	invalidDevice:              "CUDA_ERROR_INVALID_DEVICE",
	driver.InvalidContext:      "CUDA_ERROR_INVALID_CONTEXT",
	contextInUse:               "CUDA_ERROR_CONTEXT_ALREADY_IN_USE",
	noBinary:                   "CUDA_ERROR_NO_BINARY_FOR_GPU",
	invalidPTX:                 "CUDA_ERROR_INVALID_PTX",
	newerPTX:                   "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
	invalidHandle:              "CUDA_ERROR_INVALID_HANDLE",
	illegalState:               "CUDA_ERROR_ILLEGAL_STATE",
	notFound:                   "CUDA_ERROR_NOT_FOUND",
	illegalAddress:             "CUDA_ERROR_ILLEGAL_ADDRESS",
	misaligned:                 "CUDA_ERROR_MISALIGNED_ADDRESS",
	driver.Lost:                "CUDA_ERROR_LAUNCH_FAILED",
	driver.StreamCaptureForbid: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	captureSpoiled:             "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	notReady:                   "CUDA_ERROR_NOT_READY",
	capturedEvent:              "CUDA_ERROR_CAPTURED_EVENT",
}

// ErrorName is the driver API's name of an error code.
func ErrorName(code int) string {
	if name := names[code]; name != "" {
		return name
	}
	return "CUDA_ERROR_" + strconv.Itoa(code)
}

func failure(call string, code int, log string, args ...any) *driver.Error {
	return &driver.Error{Call: call, Code: code, Name: ErrorName(code), Log: fmt.Sprintf(log, args...)}
}

// Driver has one device.
type Driver struct {
	options Options

	mu       sync.Mutex
	calls    map[string]int
	contexts []*Context
}

// New makes a driver.
func New(o Options) *Driver {
	d := &o.Device
	d.Name, d.Capability, d.Processors = cmp.Or(d.Name, "fake"), cmp.Or(d.Capability, 80), cmp.Or(d.Processors, 4)
	d.Memory, d.L2 = cmp.Or(d.Memory, 1<<30), cmp.Or(d.L2, 1<<20)
	d.SharedPerBlock, d.SharedOptIn = sharedPerBlock, cmp.Or(d.SharedOptIn, sharedOptIn)
	o.Version = cmp.Or(o.Version, 12040)
	if o.Timer == nil {
		o.Timer = plain(o.Kernels)
	}
	return &Driver{options: o, calls: map[string]int{}}
}

// Calls is how often a driver function was called.
func (d *Driver) Calls(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
}

// Live counts open contexts and what they hold: memory, modules, streams,
// events and graphs. It is 0 once all contexts are closed.
func (d *Driver) Live() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, c := range d.contexts {
		n += 1 + len(c.held) + c.memory.live()
	}
	return n
}

// count notes a call and says with what code it shall fail.
func (d *Driver) count(call string) int {
	d.mu.Lock()
	d.calls[call]++
	n := d.calls[call]
	d.mu.Unlock()
	if d.options.Fail == nil {
		return 0
	}
	return d.options.Fail(call, n)
}

func (d *Driver) enter(call string) error {
	if code := d.count(call); code != 0 {
		return failure(call, code, "")
	}
	return nil
}

// Version is that of the options.
func (d *Driver) Version() (int, error) { return d.options.Version, d.enter("cuDriverGetVersion") }

// Devices is 1.
func (d *Driver) Devices() (int, error) {
	if err := d.enter("cuDeviceGetCount"); err != nil {
		return 0, err
	}
	return 1, nil
}

// Info of the device.
func (d *Driver) Info(ordinal int) (driver.Info, error) {
	if err := d.enter("cuDeviceGet"); err != nil {
		return driver.Info{}, err
	}
	if ordinal != 0 {
		return driver.Info{}, failure("cuDeviceGet", invalidDevice, "device %d of 1", ordinal)
	}
	return d.options.Device, nil
}

// Open retains the primary context, current on the calling goroutine, which it ties to its thread until Leave or Close.
func (d *Driver) Open(ordinal int) (driver.Context, error) {
	c, err := d.Retain(ordinal)
	if err != nil {
		return nil, err
	}
	if err := c.Enter(); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Retain is Open of a context that is current nowhere. All that it gives are one context to a GPU, though each has what it makes.
func (d *Driver) Retain(ordinal int) (*Context, error) { return d.newContext(ordinal, primary) }

// Create makes a context of its own, current nowhere, as cuCtxCreate does.
func (d *Driver) Create(ordinal int) (*Context, error) { return d.newContext(ordinal, own) }

// kind says whose a context is.
type kind int

const (
	primary kind = iota // of all who retain it
	own
)

func (k kind) making() string { return [...]string{"cuDevicePrimaryCtxRetain", "cuCtxCreate"}[k] }
func (k kind) ending() string { return [...]string{"cuDevicePrimaryCtxRelease", "cuCtxDestroy"}[k] }

func (d *Driver) newContext(ordinal int, of kind) (*Context, error) {
	info, err := d.Info(ordinal)
	if err != nil {
		return nil, err
	}
	if err := d.enter(of.making()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	another := func(c *Context) bool { return of == own || c.kind == own }
	if d.options.Exclusive && slices.ContainsFunc(d.contexts, another) {
		return nil, failure(of.making(), driver.Unavailable, "the GPU is in exclusive mode and has a context")
	}
	c := &Context{
		driver: d, info: info, thread: nowhere, kind: of,
		memory: newMemory(d.options.Sparse), held: map[any]bool{}, random: rand.New(rand.NewPCG(d.options.Seed, 0)),
	}
	d.contexts = append(d.contexts, c)
	return c, nil
}

// nowhere is no thread.
const nowhere = 0

// Context implements driver.Context.
type Context struct {
	driver  *Driver
	info    driver.Info
	thread  int // on which it is current, of a goroutine that is tied to it; or none
	kind    kind
	closed  bool
	lost    *driver.Error
	memory  *memory
	held    map[any]bool // modules, streams, events, graphs
	streams []*Stream
	random  *rand.Rand
	now     time.Duration // what work has taken so far
}

// Enter implements driver.Context. A goroutine that has a context, and a context that has a goroutine, are refused.
func (c *Context) Enter() error {
	const call = "cuCtxSetCurrent"
	runtime.LockOSThread()
	here, d := thread(), c.driver
	d.mu.Lock()
	taken := c.thread != nowhere || slices.ContainsFunc(d.contexts, func(o *Context) bool { return o.thread == here })
	if !taken {
		c.thread = here
	}
	d.mu.Unlock()
	if taken {
		runtime.UnlockOSThread()
		return failure(call, contextInUse, "the context, or the goroutine on thread %d, was not left", here)
	}
	err := c.enter(call)
	if err != nil {
		c.untie()
	}
	return err
}

// Leave implements driver.Context.
func (c *Context) Leave() error {
	err := c.enter("cuCtxSetCurrent")
	if thread() == c.current() {
		c.untie()
	}
	return err
}

// current is the thread on which the context is.
func (c *Context) current() int {
	c.driver.mu.Lock()
	defer c.driver.mu.Unlock()
	return c.thread
}

// untie is called on the goroutine that has the context.
func (c *Context) untie() {
	c.driver.mu.Lock()
	c.thread = nowhere
	c.driver.mu.Unlock()
	runtime.UnlockOSThread()
}

// enter is the start of every call.
func (c *Context) enter(call string) error {
	if here, at := thread(), c.current(); here != at {
		return c.elsewhere(call, at, here)
	}
	if c.closed {
		return failure(call, driver.InvalidContext, "the context is closed")
	}
	if c.lost != nil {
		e := *c.lost
		e.Call = call
		return &e
	}
	if code := c.driver.count(call); code != 0 {
		e := failure(call, code, "")
		c.stick(e)
		return e
	}
	return nil
}

func (c *Context) elsewhere(call string, at, here int) error {
	if at == nowhere {
		return failure(call, driver.InvalidContext, "the context is current on no goroutine")
	}
	return failure(call, driver.InvalidContext, "the context is current on the goroutine on thread %d, the call comes from thread %d", at, here)
}

// stick keeps an error that no call after it survives.
func (c *Context) stick(e *driver.Error) {
	if c.lost == nil && e.Code >= firstSticky && e.Code <= lastSticky {
		c.lost = e
	}
}

// enterUncaptured is enter for calls that no stream's capture stands.
func (c *Context) enterUncaptured(call string) error {
	if err := c.enter(call); err != nil {
		return err
	}
	for _, s := range c.streams {
		if s.capture != nil {
			s.capture.spoiled = true
			return failure(call, driver.StreamCaptureForbid, "a stream is capturing")
		}
	}
	return nil
}

// end gives an object back by a call that captures allow.
func (c *Context) end(call string, object any) error {
	if err := c.enter(call); err != nil {
		return err
	}
	return c.drop(call, object)
}

// drop gives an object back, once.
func (c *Context) drop(call string, object any) error {
	if !c.held[object] {
		return failure(call, invalidHandle, "given back before")
	}
	delete(c.held, object)
	return nil
}

func (c *Context) Info() driver.Info { return c.info }

// Close implements driver.Context. It works after a failure, but not where another goroutine has the context.
func (c *Context) Close() error {
	at := c.current()
	if here := thread(); at != nowhere && at != here {
		return c.elsewhere(c.kind.ending(), at, here)
	}
	if c.closed {
		return nil
	}
	c.closed = true
	c.memory.close()
	c.held, c.streams = nil, nil
	d := c.driver
	if at != nowhere {
		c.untie()
	}
	d.mu.Lock()
	d.contexts = slices.DeleteFunc(d.contexts, func(o *Context) bool { return o == c })
	d.mu.Unlock()
	if code := d.count(c.kind.ending()); code != 0 {
		return failure(c.kind.ending(), code, "")
	}
	return nil
}

// Room implements driver.Context: what others of the options and all contexts leave.
func (c *Context) Room() (int64, error) {
	if err := c.enter("cuMemGetInfo"); err != nil {
		return 0, err
	}
	return c.driver.room(), nil
}

func (d *Driver) room() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.options.Device.Memory - d.options.Taken
	for _, c := range d.contexts {
		n -= c.memory.used.Load()
	}
	return max(n, 0)
}

func (c *Context) Alloc(n int64) (driver.Ptr, error) {
	if err := c.enterUncaptured("cuMemAlloc"); err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, failure("cuMemAlloc", invalidValue, "%d bytes", n)
	}
	if n > c.driver.room() {
		return 0, failure("cuMemAlloc", driver.OutOfMemory, "") // without sizes, as a real driver's
	}
	a, err := c.memory.alloc(n)
	if err != nil {
		return 0, failure("cuMemAlloc", invalidValue, "%v", err)
	}
	return driver.Ptr(a), nil
}

// Free implements driver.Context. Work that is still to be done does not see
// the memory any more.
func (c *Context) Free(p driver.Ptr) error {
	if err := c.enterUncaptured("cuMemFree"); err != nil {
		return err
	}
	if !c.memory.free(uint64(p)) {
		return failure("cuMemFree", invalidValue, "%#x is no address that Alloc gave", uint64(p))
	}
	return nil
}

// AllocHost implements driver.Context. Kernels know the memory by another
// address than the host.
func (c *Context) AllocHost(n int) (driver.HostMemory, error) {
	if err := c.enterUncaptured("cuMemHostAlloc"); err != nil {
		return nil, err
	}
	a, b, err := c.memory.allocHost(n)
	if err != nil {
		return nil, failure("cuMemHostAlloc", invalidValue, "%v", err)
	}
	return &hostMemory{c, driver.Ptr(a), b}, nil
}

type hostMemory struct {
	context *Context
	address driver.Ptr
	bytes   []byte
}

func (h *hostMemory) Bytes() []byte       { return h.bytes }
func (h *hostMemory) Address() driver.Ptr { return h.address }

func (h *hostMemory) Free() error {
	if err := h.context.enterUncaptured("cuMemFreeHost"); err != nil {
		return err
	}
	if !h.context.memory.freeHost(uint64(h.address)) {
		return failure("cuMemFreeHost", invalidValue, "freed before")
	}
	h.address, h.bytes = 0, nil
	return nil
}

// CopyIn implements driver.Context. It does not wait for streams.
func (c *Context) CopyIn(dst driver.Ptr, src []byte) error {
	return c.copy("cuMemcpyHtoD", len(src), func() error { return c.memory.Write(uint64(dst), src) })
}

// CopyOut implements driver.Context. It does not wait for streams.
func (c *Context) CopyOut(dst []byte, src driver.Ptr) error {
	return c.copy("cuMemcpyDtoH", len(dst), func() error { return c.memory.Read(dst, uint64(src)) })
}

func (c *Context) copy(call string, n int, do func() error) error {
	if n == 0 {
		return nil
	}
	if err := c.enterUncaptured(call); err != nil {
		return err
	}
	if err := do(); err != nil {
		return failure(call, invalidValue, "%v", err)
	}
	return nil
}
