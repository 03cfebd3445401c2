package gputest

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/ptx"
)

// A Machine is memory and kernels that run on it, one after the other.
type Machine interface {
	Alloc(bytes int) (uint64, error)
	Write(address uint64, src []byte) error
	Read(dst []byte, address uint64) error
	// Written says whether all bytes were written since Alloc, as far as that is known.
	Written(address uint64, bytes int) (bool, error)
	// Image is what the machine takes of a module, by a function of the GPU's compute capability and the driver's version that
	// gives its forms, the first to be loaded first and PTX last: the interpreter takes PTX.
	Image(forms func(capability, version int) ([][]byte, error)) ([]byte, error)
	// Launch runs a kernel of a module, given by Image or as PTX, to its end.
	Launch(module string, text []byte, kernel string, grid, block [3]int, shared int, args []uint64) error
}

// New gives an empty machine: the interpreter, which runs blocks, warps and branches in
// another of the orders that PTX allows every time, or the GPU.
func New(t testing.TB) Machine {
	t.Helper()
	if On() {
		return newGPU(t)
	}
	return &interpreter{Memory: ptx.NewMemory(), modules: map[string]*ptx.Module{}}
}

// sharedOptIn is the least that any GPU gives a block that asks for it, of static and dynamic shared memory.
const sharedOptIn = 99 << 10

type interpreter struct {
	*ptx.Memory
	modules  map[string]*ptx.Module // by their text
	launches uint64
}

func (m *interpreter) Image(forms func(capability, version int) ([][]byte, error)) ([]byte, error) {
	images, err := forms(0, 0)
	if err != nil {
		return nil, err
	}
	return images[len(images)-1], nil
}

func (m *interpreter) Launch(module string, text []byte, kernel string, grid, block [3]int, shared int, args []uint64) error {
	code := m.modules[string(text)]
	if code == nil {
		var err error
		if code, err = ptx.Assemble(text); err != nil {
			return fmt.Errorf("module %s: %w", module, err)
		}
		m.modules[string(text)] = code
	}
	k, err := code.Kernel(kernel)
	if err != nil {
		return err
	}
	if n := block[0] * block[1] * block[2]; k.MaxThreads != n {
		return fmt.Errorf("%s is for blocks of %d threads, and launched with %v", kernel, k.MaxThreads, block)
	}
	m.launches++
	return k.Launch(m.Memory, grid, block, shared, args, ptx.Options{Seed: m.launches, SharedLimit: sharedOptIn})
}
