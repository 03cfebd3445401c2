package gputest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// A context is current on one thread, while tests run on any, so that one goroutine makes all
// calls. The tests of a process share the context: a kernel that fails takes all later ones with
// it, which is why the check of a GPU gives each test a process of its own.
var (
	start sync.Once
	calls chan func()
	// Used by that goroutine alone.
	context driver.Context
	version int // of the driver
	stream  driver.Stream
	modules = map[string]driver.Module{} // by text
)

// on runs f where the context is current, and waits.
func on(f func() error) error {
	start.Do(func() {
		calls = make(chan func())
		go func() {
			runtime.LockOSThread()
			for f := range calls {
				f()
			}
		}()
	})
	done := make(chan error)
	calls <- func() { done <- f() }
	return <-done
}

// blank fills memory that nobody has written: NaN to a kernel that reads it, and
// bits that no arithmetic gives.
const blank = 0xFF

// margin is what lies before and behind a buffer and must stay blank: a multiple
// of the alignment that the driver gives.
const margin = 256

type gpu struct {
	guard  int // margin, or 0
	device string
	// buffers by address. The driver is asked for each one alone.
	buffers map[uint64]buffer
	order   []uint64
}

type buffer struct {
	base driver.Ptr
	size int
}

func newGPU(t testing.TB) *gpu {
	t.Helper()
	d := Driver(t)
	m := &gpu{guard: margin, buffers: map[uint64]buffer{}}
	if os.Getenv(Variable) == "bare" {
		m.guard = 0
	}
	err := on(func() (err error) {
		if context == nil {
			if context, err = d.Open(0); err != nil {
				return err
			}
			if version, err = d.Version(); err != nil {
				return err
			}
			if stream, err = context.NewStream(); err != nil {
				return err
			}
		}
		i := context.Info()
		m.device = fmt.Sprintf("%s, compute capability %d.%d", i.Name, i.Capability/10, i.Capability%10)
		return nil
	})
	if err != nil {
		t.Fatalf("opening the GPU: %v", err)
	}
	t.Cleanup(func() {
		err := on(func() error {
			var errs []error
			for _, p := range m.order {
				errs = append(errs, context.Free(m.buffers[p].base))
			}
			return errors.Join(errs...)
		})
		if err != nil && !t.Failed() {
			t.Errorf("giving memory back: %v", err)
		}
	})
	return m
}

func (m *gpu) Alloc(n int) (uint64, error) {
	if n < 1 {
		return 0, fmt.Errorf("cannot allocate %d bytes", n)
	}
	var p uint64
	err := on(func() error {
		size := n + 2*m.guard
		base, err := context.Alloc(int64(size))
		if err != nil {
			return err
		}
		p = uint64(base) + uint64(m.guard)
		m.buffers[p] = buffer{base, n}
		m.order = append(m.order, p)
		return context.CopyIn(base, bytes.Repeat([]byte{blank}, size))
	})
	return p, err
}

func (m *gpu) Write(p uint64, src []byte) error {
	return on(func() error { return context.CopyIn(driver.Ptr(p), src) })
}

func (m *gpu) Read(dst []byte, p uint64) error {
	return on(func() error { return context.CopyOut(dst, driver.Ptr(p)) })
}

// Written looks for blank words. It takes 64 bits at a time, where there are as many: a pair of NaNs of
// these bits, or such a double, is no kernel's result.
func (m *gpu) Written(p uint64, n int) (bool, error) {
	b := make([]byte, n)
	if err := m.Read(b, p); err != nil {
		return false, err
	}
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) == 1<<64-1 {
			return false, nil
		}
	}
	return len(b) < 4 || binary.LittleEndian.Uint32(b) != 1<<32-1, nil
}

func (m *gpu) Image(forms func(capability, version int) ([][]byte, error)) (image []byte, err error) {
	err = on(func() error {
		images, err := forms(context.Info().Capability, version)
		if err == nil {
			image = images[0]
		}
		return err
	})
	return image, err
}

// Launch fails where the kernel does, or where it wrote beside a buffer.
func (m *gpu) Launch(module string, text []byte, kernel string, grid, block [3]int, shared int, args []uint64) error {
	err := on(func() error {
		code := modules[string(text)]
		if code == nil {
			var err error
			if code, err = context.Load(module, text); err != nil {
				return err
			}
			modules[string(text)] = code
		}
		f, err := code.Function(kernel)
		if err != nil {
			return err
		}
		if shared > context.Info().SharedPerBlock {
			if err := f.AllowShared(shared); err != nil {
				return err
			}
		}
		if err := stream.Launch(driver.Launch{Function: f, Grid: grid, Block: block, Shared: shared, Args: args}); err != nil {
			return err
		}
		if err := stream.Sync(); err != nil {
			return err
		}
		return m.guarded()
	})
	if err != nil {
		return fmt.Errorf("module %s, kernel %s, grid %v, block %v, %d bytes of dynamic shared memory, arguments %#x, on %s: %w",
			module, kernel, grid, block, shared, args, m.device, err)
	}
	return nil
}

// guarded looks at what lies around the buffers.
func (m *gpu) guarded() error {
	if m.guard == 0 {
		return nil
	}
	around := make([]byte, m.guard)
	for _, p := range m.order {
		b := m.buffers[p]
		for _, side := range []struct {
			at    driver.Ptr
			first int // offset in the buffer
		}{{b.base, -m.guard}, {driver.Ptr(p) + driver.Ptr(b.size), b.size}} {
			if err := context.CopyOut(around, side.at); err != nil {
				return err
			}
			for i, x := range around {
				if x != blank {
					return fmt.Errorf("it wrote at byte %d of the buffer %#x, which has %d", side.first+i, p, b.size)
				}
			}
		}
	}
	return nil
}
