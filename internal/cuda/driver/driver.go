// Package driver is the part of the CUDA driver that package cuda uses, as an
// interface: a GPU implements it through gorgonia.org/cu, a fake in host memory
// implements it for machines without one, with the real one's rules.
//
// All calls on a Context come from the goroutine on which it is current: that which opened or entered it.
// Work that is put on a Stream happens later, in order; only Sync waits for it. Errors of that work show
// at a later call, and stick.
package driver

import (
	"fmt"
	"time"
)

// Ptr is an address in device memory; 0 is none.
type Ptr uint64

// Driver is the installed driver.
type Driver interface {
	Version() (int, error) // 12040 is CUDA 12.4
	Devices() (int, error)
	// Info describes a device without opening it.
	Info(ordinal int) (Info, error)
	// Open comes to a device's primary context, which NVIDIA's libraries share: a GPU in exclusive mode allows one context,
	// and two would take turns. It is current on the calling thread only, to which the goroutine is tied until Leave or
	// Close. A goroutine has one Context at a time; each owns what it has made.
	Open(ordinal int) (Context, error)
}

// Info describes a GPU.
type Info struct {
	Name           string
	Capability     int // 80, 90, 120: ten times major plus minor
	Memory         int64
	Processors     int
	SharedPerBlock int // bytes that a kernel gets without asking
	SharedOptIn    int // bytes that it can ask for
	L2             int
}

// Context is one use of a device.
type Context interface {
	Info() Info
	// Enter makes the context current on the calling thread and ties the goroutine to it, until Leave. It is current
	// on one at a time. Leave unties, whatever it returns.
	Enter() error
	Leave() error
	// Room is how many bytes of the device's memory nobody has, of this process or another.
	Room() (int64, error)
	Alloc(bytes int64) (Ptr, error)
	Free(Ptr) error
	// AllocHost gives pinned host memory that kernels can read at Address.
	AllocHost(bytes int) (HostMemory, error)
	// Load takes PTX, which the driver assembles, or machine code that was assembled before (a cubin). An
	// error carries the assembler's log.
	Load(name string, image []byte) (Module, error)
	NewStream() (Stream, error)
	NewClock() (Clock, error)
	NewEvent() (Event, error)
	// CopyIn and CopyOut are done when they return. They do not wait for streams:
	// Sync comes first.
	CopyIn(dst Ptr, src []byte) error
	CopyOut(dst []byte, src Ptr) error
	// Close frees all that this Context has made; idempotent, allowed after a failure, and where the context is current nowhere.
	Close() error
}

// HostMemory is pinned.
type HostMemory interface {
	Bytes() []byte
	Address() Ptr // as kernels see it
	Free() error
}

// Module is loaded code.
type Module interface {
	Function(name string) (Function, error)
	Unload() error
}

// Function is a kernel.
type Function interface {
	Name() string
	// AllowShared asks for more dynamic shared memory than SharedPerBlock, and that a multiprocessor gives as
	// much of its memory to blocks as it can: its cache has the rest.
	AllowShared(bytes int) error
}

// Launch is one kernel's work. Arguments take 8 bytes each: addresses, int32
// and int64 values, and the bits of float32 and float64 values.
type Launch struct {
	Function    Function
	Grid, Block [3]int
	Shared      int // dynamic, bytes
	Args        []uint64
}

// Stream is a queue of work.
type Stream interface {
	Launch(Launch) error
	// Set fills n 32-bit words.
	Set(dst Ptr, value uint32, n int) error
	Sync() error
	// Query says whether all work is done, without waiting.
	Query() (bool, error)
	// Record marks a point in the stream. An event that was recorded before marks the new point alone.
	Record(Event) error
	// Mark sets a clock when the stream comes here. In a capture it becomes a part of
	// the graph, and every run sets the clock anew.
	Mark(Clock) error
	// Capture records what f puts on the stream instead of doing it. Calls that
	// wait are errors inside f.
	Capture(f func() error) (Graph, error)
	// Run puts a captured graph on the stream.
	Run(Graph) error
	Close() error
}

// Event is a point in a stream, which it marks when it is recorded.
type Event interface {
	Wait() error // until the stream has come there; not at all for an event that was never recorded
	Done() (bool, error)
	Close() error
}

// Clock is a point in a stream that knows when it was passed.
type Clock interface {
	// Since is the time from another clock of the context to this one, for which it
	// waits. Both have been marked.
	Since(Clock) (time.Duration, error)
	Close() error
}

// Graph is a captured sequence, instantiated.
type Graph interface{ Close() error }

// Error is a driver's error code.
type Error struct {
	Call string // cuMemAlloc, …
	Code int    // CUresult
	Name string // CUDA_ERROR_OUT_OF_MEMORY, …
	Log  string // of the assembler, where there is one
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Log != "" {
		s += ": " + e.Log
	}
	return s
}

// Codes that callers tell apart.
const (
	OutOfMemory         = 2
	Unavailable         = 46 // another process has the GPU for itself
	NoDevice            = 100
	InvalidContext      = 201
	Lost                = 719 // a kernel failed: every later call on the context fails likewise
	StreamCaptureForbid = 900
)
