// Package cuda trains on NVIDIA GPUs: Open gives the device that --device cuda names. To use
// it, build with `make build` and set train's Config.Device to "cuda".
//
// The package plans memory and the order of work. Package kernels computes. A driver.Driver
// is the GPU, or the fake that stands in for one. docs/internals/gpu.md describes a step.
//
// Bits. A result depends on the schedule, the batch and the capacity, and on whether a
// block's shared memory holds a trunk (kernels.Trunk): in the last place of a norm, and where
// examples' gradients of convolutions are not kept, in the order of their sum.
// Kernels cut every sum by shape alone and add in a fixed order. On tensor cores, below
// float32, it depends on the GPU's generation as well.
package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

var (
	_ device.Device  = (*Device)(nil)
	_ device.Library = (*Device)(nil)
)

const name = "cuda"

// leastCapability is the first generation that the PTX of package kernels runs on.
const leastCapability = 80

// costs are nominal, of a GPU of about 2023 with so many multiprocessors, in float32 without tensor
// cores; the strategies compare their ratios. Memory is faster than any GPU's: most of what is written and read goes on
// beside products.
func costs(processors int) ir.Costs {
	return ir.Costs{
		GEMM: 3e13, Gram: 5e12, Memory: 6e12, Launch: 4e-6, Summed: kernels.ExampleBlock,
		Whole: true, Fewest: 2 * processors, Most: 40 * processors,
	}
}

// precisions beside float32; every GPU that the PTX runs on has tensor cores for them.
var precisions = []device.Precision{device.TF32, device.BF16}

// Device is one GPU. Its methods may be called from any goroutine, and call the driver on the caller's thread.
type Device struct {
	mu        sync.Mutex // held while the driver is called
	closed    bool
	driver    driver.Driver
	context   driver.Context
	info      driver.Info
	room      int64                      // of its memory, before this device took any
	version   int                        // of the driver
	probed    map[kernels.Math]bool      // the precisions whose tensor cores add as they should
	functions map[string]driver.Function // by module/name
	allowed   map[string]int             // the dynamic shared memory that each may have, beyond what all may
	modules   map[string]driver.Module
	owners    []closer
	normals   *normals // nil before the first release is recorded
	held      int64    // bytes of GPU memory that live here
	peak      int64    // the most that it has been
	err       error    // the GPU is lost: the first failure, for good
}

// closer is what lives on a device.
type closer interface{ free() error }

// Open opens a GPU by its number.
func Open(d driver.Driver, ordinal int) (*Device, error) {
	g := &Device{
		driver: d, functions: map[string]driver.Function{}, allowed: map[string]int{}, modules: map[string]driver.Module{},
	}
	if err := guarded(func() error { return g.open(ordinal) }); err != nil {
		return nil, err
	}
	return g, nil
}

func (d *Device) open(ordinal int) error {
	n, err := d.driver.Devices()
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if d.version, err = d.driver.Version(); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if ordinal < 0 || ordinal >= n {
		return fmt.Errorf("cuda:%d: there are %d GPUs, counted from 0", ordinal, n)
	}
	if d.info, err = d.driver.Info(ordinal); err != nil {
		return fmt.Errorf("cuda:%d: %w", ordinal, err)
	}
	if d.info.Capability < leastCapability {
		return fmt.Errorf("cuda:%d: %s has compute capability %d.%d, the kernels need %d.%d",
			ordinal, d.info.Name, d.info.Capability/10, d.info.Capability%10, leastCapability/10, leastCapability%10)
	}
	if d.context, err = d.driver.Open(ordinal); err != nil {
		return fmt.Errorf("cuda:%d: %w", ordinal, err)
	}
	d.room, err = d.context.Room()
	if left := d.context.Leave(); err == nil {
		err = left
	}
	if err != nil {
		return fmt.Errorf("cuda:%d: %w", ordinal, errors.Join(err, d.context.Close()))
	}
	return nil
}

func (d *Device) Info() device.Info {
	c := d.info.Capability
	return device.Info{
		Name: name, Detail: fmt.Sprintf("%s, compute capability %d.%d", d.info.Name, c/10, c%10),
		Threads: 1, Costs: costs(d.info.Processors), Cipher: stream.ChaCha20, Memory: d.info.Memory, Room: d.room, Precisions: slices.Clone(precisions),
	}
}

// Close frees everything that lives on the GPU, then the GPU. It is idempotent
// and allowed after a failure.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	return guarded(func() error {
		lost := d.err != nil
		errs := []error{d.failed("coming to the GPU", d.context.Enter())}
		for _, o := range slices.Backward(d.owners) {
			errs = append(errs, o.free())
		}
		d.owners = nil
		for _, m := range d.modules {
			errs = append(errs, d.failed("unloading kernels", m.Unload()))
		}
		err := d.context.Close()
		if lost {
			return err // its context takes the rest with it
		}
		return d.joined(append(errs, err))
	})
}

// drop frees an owner before the device does.
func (d *Device) drop(o closer) error {
	err := d.here(func() error {
		i := slices.Index(d.owners, o)
		if i < 0 {
			return nil
		}
		d.owners = slices.Delete(d.owners, i, i+1)
		lost := d.err != nil
		if err := o.free(); !lost {
			return err
		}
		return nil // the lost GPU has it no more
	})
	if err == errClosed {
		return nil // closing the device has freed it
	}
	return err
}

// failed says what was going on when the driver failed, and remembers the loss of
// the GPU.
func (d *Device) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	var e *driver.Error
	if errors.As(err, &e) && lost(e.Code) && d.err == nil {
		d.err = fmt.Errorf("the GPU is lost to this process: %w", err)
		return d.err
	}
	return err
}

// joined is errors.Join, or the loss of the GPU alone where all that follows failed with it.
func (d *Device) joined(errs []error) error {
	if d.err != nil {
		return d.err
	}
	return errors.Join(errs...)
}

// lost says of a driver's code that every later call on the context fails too:
// illegal address and instruction, misaligned address, trap, timeout, and what
// hardware reports.
func lost(code int) bool {
	switch code {
	case 214, 700, 702, 710, 714, 715, 716, 717, 718, driver.Lost:
		return true
	}
	return false
}

// function loads the module of a kernel when the kernel is first asked for, and
// asks for the shared memory of this launch.
func (d *Device) function(l *kernels.Launch) (driver.Function, error) {
	if l.Shared > max(d.info.SharedOptIn, d.info.SharedPerBlock) {
		return nil, fmt.Errorf("kernel %s needs %d bytes of shared memory a block, %s has %d: use --device cpu", l.Name, l.Shared, d.info.Name, d.info.SharedOptIn)
	}
	key := l.Module + "/" + l.Name
	f := d.functions[key]
	if f == nil {
		m, err := d.module(l.Module)
		if err != nil {
			return nil, err
		}
		if f, err = m.Function(l.Name); err != nil {
			return nil, d.failed("kernel "+l.Name, err)
		}
		d.functions[key] = f
	}
	// Never less than before: graphs of other networks have the same function.
	if l.Shared > max(d.info.SharedPerBlock, d.allowed[key]) {
		if err := f.AllowShared(l.Shared); err != nil {
			return nil, d.failed("kernel "+l.Name, err)
		}
		d.allowed[key] = l.Shared
	}
	return f, nil
}

// module loads a module once. Of its images it takes the first that the driver does not refuse.
func (d *Device) module(name string) (driver.Module, error) {
	if m := d.modules[name]; m != nil {
		return m, nil
	}
	images, err := kernels.Images(name, d.info.Capability, d.version)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		var m driver.Module
		if m, err = d.context.Load(name, image); err == nil {
			d.modules[name] = m
			return m, nil
		}
	}
	return nil, d.failed("loading kernels "+name, err)
}

// memory is what one owner holds on a GPU.
type memory struct {
	device *Device
	blocks []driver.Ptr
	bytes  int64
}

// PeakMemory is the most GPU memory, in bytes, that buffers have taken at a time. The
// driver's own, for its context and the kernels, is not in it.
func (d *Device) PeakMemory() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

// alloc gives memory whose content is undefined. A failure says what it was for
// and what to do about it, not how much was asked for: the size of a table tells
// how many private records there are.
func (m *memory) alloc(bytes int64, what, remedy string) (driver.Ptr, error) {
	p, err := m.device.context.Alloc(max(bytes, 1))
	if err != nil {
		var e *driver.Error
		if errors.As(err, &e) && e.Code == driver.OutOfMemory {
			return 0, fmt.Errorf("%s: no room is left in the %d bytes of GPU memory: %s: %w", what, m.device.info.Memory, remedy, err)
		}
		return 0, m.device.failed(what, err)
	}
	m.blocks, m.bytes = append(m.blocks, p), m.bytes+bytes
	m.device.held += bytes
	m.device.peak = max(m.device.peak, m.device.held)
	return p, nil
}

// release frees all of it.
func (m *memory) release() error {
	var errs []error
	for _, p := range slices.Backward(m.blocks) {
		errs = append(errs, m.device.failed("freeing GPU memory", m.device.context.Free(p)))
	}
	m.device.held -= m.bytes
	m.blocks, m.bytes = nil, 0
	return m.device.joined(errs)
}

// bytesOf is a slice's memory, little-endian as on every GPU's host.
func bytesOf[T float32 | float64 | int32 | int64 | uint16 | uint32 | uint64](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}
