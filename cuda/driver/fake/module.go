package fake

import (
	"fmt"

	"github.com/privgrad/privgrad/cuda/driver"
)

// kernel is what a module's function does.
type kernel struct {
	params     []int // sizes in bytes
	shared     int   // static, bytes
	maxThreads int   // 0 where the kernel does not say
	run        func(m *memory, l driver.Launch, sharedLimit int) error
}

// Module implements driver.Module.
type Module struct {
	context *Context
	kernel  func(name string) (kernel, error)
}

// Load implements driver.Context.
func (c *Context) Load(name string, text []byte) (driver.Module, error) {
	const call = "cuModuleLoadDataEx"
	if err := c.enterUncaptured(call); err != nil {
		return nil, err
	}
	kernels, err := assemble(text)
	if err != nil {
		return nil, failure(call, invalidPTX, "%s: %v", name, err)
	}
	m := &Module{c, kernels}
	c.held[m] = true
	return m, nil
}

// Function implements driver.Module.
func (m *Module) Function(name string) (driver.Function, error) {
	const call = "cuModuleGetFunction"
	if err := m.context.enter(call); err != nil {
		return nil, err
	}
	if !m.context.held[m] {
		return nil, failure(call, invalidHandle, "the module was unloaded")
	}
	k, err := m.kernel(name)
	if err != nil {
		return nil, failure(call, notFound, "%v", err)
	}
	return &Function{module: m, name: name, kernel: k}, nil
}

// Unload implements driver.Module.
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
	kernel  kernel
	allowed int // dynamic shared memory
}

// Name implements driver.Function.
func (f *Function) Name() string { return f.name }

// Params are the sizes of the kernel's parameters in bytes.
func (f *Function) Params() []int { return f.kernel.params }

// AllowShared implements driver.Function.
func (f *Function) AllowShared(n int) error {
	const call = "cuFuncSetAttribute"
	if err := f.module.context.enter(call); err != nil {
		return err
	}
	if n < 0 || n > sharedOptIn-f.kernel.shared {
		return failure(call, invalidValue, "%s: %d bytes and %d of its own are more than %d", f.name, n, f.kernel.shared, sharedOptIn)
	}
	f.allowed = n
	return nil
}

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
	if f.kernel.maxThreads > 0 {
		most = f.kernel.maxThreads
	}
	if threads > most {
		return fmt.Errorf("block %v has %d threads, %d are allowed", l.Block, threads, most)
	}
	if l.Shared < 0 || l.Shared > max(f.allowed, sharedPerBlock-f.kernel.shared) {
		return fmt.Errorf("%d bytes of dynamic shared memory and %d of its own; AllowShared was called for %d", l.Shared, f.kernel.shared, f.allowed)
	}
	if len(l.Args) != len(f.kernel.params) {
		return fmt.Errorf("%d arguments for %d parameters", len(l.Args), len(f.kernel.params))
	}
	for i, a := range l.Args {
		bits := 8 * f.kernel.params[i]
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

func (f *Function) run(m *memory, l driver.Launch) error {
	return f.kernel.run(m, l, max(sharedPerBlock, f.kernel.shared+f.allowed))
}
