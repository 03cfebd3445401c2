package fake

import (
	"sort"
	"unsafe"
)

// Device and pinned memory lie far from each other and from every address of the host.
const (
	deviceMemory = uint64(0x7f00_0000_0000_0000)
	pinnedMemory = uint64(0x7e00_0000_0000_0000)
	alignment    = 256
)

// memory is what kernels can address.
type memory struct {
	limit, used          int64
	nextDevice, nextHost uint64
	regions              []*region // by address
}

type region struct {
	base  uint64
	bytes []byte
}

func newMemory(limit int64) *memory {
	return &memory{limit: limit, nextDevice: deviceMemory, nextHost: pinnedMemory}
}

// poison fills memory with ones, which are NaN in float32 and float64.
func (r *region) poison() {
	for i := range r.bytes {
		r.bytes[i] = 0xff
	}
}

// alloc gives nil where the limit is passed.
func (m *memory) alloc(n int64) *region {
	if n > m.limit-m.used {
		return nil
	}
	m.used += n
	return m.add(&m.nextDevice, n)
}

// allocHost takes memory of the host, which has no limit here.
func (m *memory) allocHost(n int64) *region { return m.add(&m.nextHost, n) }

func (m *memory) add(next *uint64, n int64) *region {
	// Words, for the alignment that kernels need of pinned memory too.
	words := make([]uint64, (n+7)/8)
	r := &region{*next, unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)}
	r.poison()
	// A gap after each region catches what runs past its end.
	*next += (uint64(n)+alignment-1)/alignment*alignment + alignment
	m.regions = append(m.regions, r)
	sort.Slice(m.regions, func(i, j int) bool { return m.regions[i].base < m.regions[j].base })
	return r
}

// free takes the start of a region of one kind, deviceMemory or pinnedMemory.
func (m *memory) free(base, kind uint64) bool {
	i := m.find(base)
	if i < 0 || m.regions[i].base != base || base>>56 != kind>>56 {
		return false
	}
	m.regions[i].poison()
	if kind == deviceMemory {
		m.used -= int64(len(m.regions[i].bytes))
	}
	m.regions = append(m.regions[:i], m.regions[i+1:]...)
	return true
}

// find is the last region that starts at or before an address.
func (m *memory) find(a uint64) int {
	return sort.Search(len(m.regions), func(i int) bool { return m.regions[i].base > a }) - 1
}

// at is n bytes at an address, nil unless all lie in one region.
func (m *memory) at(a uint64, n int) []byte {
	i := m.find(a)
	if i < 0 || n < 0 {
		return nil
	}
	r := m.regions[i]
	if off := a - r.base; off <= uint64(len(r.bytes)) && uint64(n) <= uint64(len(r.bytes))-off {
		return r.bytes[off : off+uint64(n) : off+uint64(n)]
	}
	return nil
}
