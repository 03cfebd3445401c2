package fake

import (
	"slices"
	"sync/atomic"

	"github.com/privgrad/privgrad/internal/ptx"
)

// memory is what kernels can address: that of the device, which is limited,
// and pinned memory of the host, which is known to kernels by other addresses
// than to the host.
type memory struct {
	*ptx.Memory
	used   atomic.Int64     // other contexts ask for it
	device map[uint64]int64 // size by address
	pinned map[uint64][]byte
}

func newMemory(sparse ptx.Content) *memory {
	m := ptx.NewMemory()
	if sparse != nil {
		m = ptx.NewSparseMemory(sparse)
	}
	return &memory{Memory: m, device: map[uint64]int64{}, pinned: map[uint64][]byte{}}
}

// poison is NaN in float32 and float64.
const poison = 0xff

func (m *memory) alloc(n int64) (uint64, error) {
	a, err := m.Alloc(int(n))
	if err == nil {
		m.device[a] = n
		m.used.Add(n)
	}
	return a, err
}

func (m *memory) allocHost(n int) (uint64, []byte, error) {
	b := slices.Repeat([]byte{poison}, n)
	a, err := m.Map(b)
	if err == nil {
		m.pinned[a] = b
	}
	return a, b, err
}

// The two kinds are freed by calls of their own.
func (m *memory) free(a uint64) bool {
	n, ok := m.device[a]
	if !ok || m.Free(a) != nil {
		return false
	}
	m.used.Add(-n)
	delete(m.device, a)
	return true
}

func (m *memory) freeHost(a uint64) bool {
	b, ok := m.pinned[a]
	if !ok || m.Free(a) != nil {
		return false
	}
	for i := range b {
		b[i] = poison
	}
	delete(m.pinned, a)
	return true
}

func (m *memory) close() {
	for a := range m.device {
		m.free(a)
	}
	for a := range m.pinned {
		m.freeHost(a)
	}
}

func (m *memory) live() int { return len(m.device) + len(m.pinned) }
