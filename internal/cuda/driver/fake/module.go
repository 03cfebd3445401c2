package fake

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/ptx"
)

// Module implements driver.Module.
type Module struct {
	context *Context
	name    string
	module  *ptx.Module
}

// newestPTX is the ISA, 78 for 7.8, that a driver assembles (PTX ISA, release notes): with CUDA 11.n
// 7.n, and with 12 and 13 one that falls behind.
func newestPTX(version int) int {
	major, minor := version/1000, version%1000/10
	switch {
	case major < 12:
		return 70 + minor
	case major == 12 && minor > 5:
		minor--
	}
	return 10*(major-4) + minor
}

// Load refuses machine code, which it cannot run, with the code that a GPU gives where code is not for it.
func (c *Context) Load(name string, image []byte) (driver.Module, error) {
	const call = "cuModuleLoadDataEx"
	if err := c.enterUncaptured(call); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(image, []byte("\x7fELF")) {
		return nil, failure(call, noBinary, "%s: this driver runs PTX alone", name)
	}
	assembled, err := ptx.Assemble(image)
	if err != nil {
		return nil, failure(call, invalidPTX, "%s: %v", name, err)
	}
	if most := newestPTX(c.driver.options.Version); assembled.Version > most {
		return nil, failure(call, newerPTX, "%s: PTX ISA %d.%d, the driver takes %d.%d or older", name, assembled.Version/10, assembled.Version%10, most/10, most%10)
	}
	m := &Module{c, name, assembled}
	c.held[m] = true
	return m, nil
}

func (m *Module) Function(name string) (driver.Function, error) {
	const call = "cuModuleGetFunction"
	if err := m.context.enter(call); err != nil {
		return nil, err
	}
	if !m.context.held[m] {
		return nil, failure(call, invalidHandle, "the module was unloaded")
	}
	k, err := m.module.Kernel(name)
	if err != nil {
		return nil, failure(call, notFound, "%v", err)
	}
	return &Function{module: m, name: name, kernel: k}, nil
}

func (m *Module) Unload() error {
	if err := m.context.enterUncaptured("cuModuleUnload"); err != nil {
		return err
	}
	return m.context.drop("cuModuleUnload", m)
}

// Function implements driver.Function.
type Function struct {
	module  *Module
	name    string
	kernel  *ptx.Kernel
	allowed int // dynamic shared memory
	carved  int // the share of a multiprocessor's memory that blocks are to have, in percent; 0: not asked for
}

func (f *Function) Name() string { return f.name }

// Params are the sizes of the kernel's parameters in bytes.
func (f *Function) Params() []int {
	sizes := make([]int, len(f.kernel.Params))
	for i, p := range f.kernel.Params {
		sizes[i] = p.Size
	}
	return sizes
}

func (f *Function) AllowShared(n int) error {
	if err := f.Allow(n); err != nil {
		return err
	}
	return f.Carve(100)
}

// Allow and Carve are the halves of AllowShared, as the driver API has them: so many bytes a block, and the share of a
// multiprocessor's memory that is for blocks.
func (f *Function) Allow(n int) error {
	const call = "cuFuncSetAttribute"
	if err := f.module.context.enter(call); err != nil {
		return err
	}
	if n < 0 || n > f.module.context.info.SharedOptIn-f.kernel.Shared {
		return failure(call, invalidValue, "%s: %d bytes and %d of its own are more than %d", f.name, n, f.kernel.Shared, f.module.context.info.SharedOptIn)
	}
	f.allowed = n
	return nil
}

// Carve is beside Allow.
func (f *Function) Carve(percent int) error {
	const call = "cuFuncSetAttribute"
	if err := f.module.context.enter(call); err != nil {
		return err
	}
	if percent < 0 || percent > 100 {
		return failure(call, invalidValue, "%s: %d%% of the memory", f.name, percent)
	}
	f.carved = percent
	return nil
}

// Carved is what Carve was last asked for, or 0.
func (f *Function) Carved() int { return f.carved }

// check holds a launch against the limits of the device and the kernel's
// parameters. A GPU's driver cannot see how many arguments it was given.
func (f *Function) check(l driver.Launch) error {
	for i, most := range [3]int{1<<31 - 1, 1<<16 - 1, 1<<16 - 1} {
		if l.Grid[i] < 1 || l.Grid[i] > most {
			return fmt.Errorf("grid %v: dimension %d must be from 1 to %d", l.Grid, i, most)
		}
	}
	threads := 1
	for i, most := range [3]int{maxThreads, maxThreads, 64} {
		if l.Block[i] < 1 || l.Block[i] > most {
			return fmt.Errorf("block %v: dimension %d must be from 1 to %d", l.Block, i, most)
		}
		threads *= l.Block[i]
	}
	most := maxThreads
	if f.kernel.MaxThreads > 0 {
		most = f.kernel.MaxThreads
	}
	if threads > most {
		return fmt.Errorf("block %v has %d threads, %d are allowed", l.Block, threads, most)
	}
	if l.Shared < 0 || l.Shared > max(f.allowed, sharedPerBlock-f.kernel.Shared) {
		return fmt.Errorf("%d bytes of dynamic shared memory and %d of its own; AllowShared was called for %d", l.Shared, f.kernel.Shared, f.allowed)
	}
	if len(l.Args) != len(f.kernel.Params) {
		return fmt.Errorf("%d arguments for %d parameters", len(l.Args), len(f.kernel.Params))
	}
	for i, a := range l.Args {
		bits := 8 * f.kernel.Params[i].Size
		if bits > 64 {
			return fmt.Errorf("parameter %d has %d bytes, arguments have 8", i, bits/8)
		}
		// What the kernel does not read must be the sign of what it reads, or zeros.
		if high := int64(a) >> (bits - 1) >> 1; bits < 64 && a>>bits != 0 && (high != -1 || int64(a<<(64-bits)) >= 0) {
			return fmt.Errorf("argument %d is %#x, its parameter has %d bytes", i, a, bits/8)
		}
	}
	return nil
}

func (f *Function) run(m *memory, l driver.Launch, t Timer) (time.Duration, error) {
	return t.Kernel(Kernel{f.module.name, f.kernel, m.Memory, l, max(sharedPerBlock, f.kernel.Shared+f.allowed)})
}

// fault is the code that a GPU would report.
func fault(err error) int {
	var f *ptx.Fault
	if !errors.As(err, &f) {
		return illegalAddress
	}
	switch f.Kind {
	case ptx.OutOfBounds, ptx.UseAfterFree, ptx.ReadOnly:
		return illegalAddress
	case ptx.Misaligned:
		return misaligned
	}
	return driver.Lost
}
