package ptx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"
)

const (
	globalBase   = 0x7_0000_0000 // first address
	globalAlign  = 256
	globalGap    = 1 << 16 // between allocations, at least
	sharedWindow = 0x1_0000_0000_0000
	localWindow  = 0x2_0000_0000_0000
	windowSize   = 1 << 24
	dynamicBase  = 1 << 20 // offset of dynamic shared memory

	poison = 0xff // content of memory that was never written: a NaN, or -1
)

// States of a byte.
const (
	unwritten = 0x00
	inFlight  = 0x33 // written by cp.async that was not waited for
	outside   = 0x55 // between variables
	written   = 0xff
)

// Memory is the memory of a device. Addresses are never used twice. The zero
// value is not ready: see [NewMemory].
type Memory struct {
	allocs  []*segment // by base
	next    uint64
	count   int
	modules map[*Module]map[*variable]uint64
	blocks  uint32  // that have begun, of all launches
	content Content // of sparse memory, else nil
	// What one launch leaves for the next.
	shared    [2]segment
	warps     []*warp
	registers []vec
}

// segment is memory with bounds.
type segment struct {
	base     uint64
	size     uint64
	data     []byte
	state    []byte // of every byte; nil if all are written
	name     string
	freed    bool
	constant bool
	host     bool // mapped

	parts [][]byte // of sparse memory instead of data, nil where nobody has been
	fill  Content  // what is there

	shift uint // log2 of bytes per race cell: 2, or 0 once a narrow access was seen
	pages []*page
}

// resize makes a segment for the next launch of one that the last left.
func (s *segment) resize(name string, size int) {
	if size > cap(s.data) {
		*s = segment{data: make([]byte, size), state: make([]byte, size)}
	}
	if last := (size >> 2) / pageCells; s.shift != 2 || last >= len(s.pages) {
		s.shift, s.pages = 2, nil
	}
	s.name, s.size, s.data, s.state = name, uint64(size), s.data[:size], s.state[:size]
}

// begin makes it as good as new for a block.
func (s *segment) begin(l *launch) {
	clear(s.state)
	if l.o.AllowUninitialised { // nobody sees it otherwise
		copy(s.data, bytes.Repeat([]byte{poison}, len(s.data)))
	}
}

// NewMemory makes an empty memory.
func NewMemory() *Memory {
	return &Memory{next: globalBase, modules: map[*Module]map[*variable]uint64{}}
}

// Content gives what memory holds from an address on, where nobody has written.
type Content func(address uint64, b []byte)

// Words is a word over and over.
func Words(word uint32) Content {
	return func(_ uint64, b []byte) {
		binary.LittleEndian.PutUint32(b, word)
		repeat(b, 4)
	}
}

// NewSparseMemory makes an empty memory whose allocations take host memory only where something
// is written or read. They count as written.
func NewSparseMemory(c Content) *Memory {
	m := NewMemory()
	m.content = c
	return m
}

// partSize is how much of sparse memory comes into being at a time.
const partSize = 1 << 14

// bytes are n bytes at an offset. Of sparse memory they lie within one part, as an aligned access does.
func (s *segment) bytes(o uint64, n int) []byte {
	if s.parts == nil {
		return s.data[o : o+uint64(n)]
	}
	return s.part(o)[o%partSize:][:n]
}

func (s *segment) part(o uint64) []byte {
	p := &s.parts[o/partSize]
	if *p == nil {
		*p = make([]byte, partSize)
		s.fill(s.base+o/partSize*partSize, *p)
	}
	return *p
}

// each calls f with n bytes at an offset, in pieces.
func (s *segment) each(o uint64, n int, f func(b []byte)) {
	if s.parts == nil {
		f(s.data[o : o+uint64(n)])
		return
	}
	for n > 0 {
		b := s.part(o)[o%partSize:]
		b = b[:min(n, len(b))]
		f(b)
		o, n = o+uint64(len(b)), n-len(b)
	}
}

func (m *Memory) add(s *segment) uint64 {
	s.base = m.next
	s.shift = 2
	m.next += (s.size+globalAlign-1)/globalAlign*globalAlign + globalGap
	m.allocs = append(m.allocs, s)
	return s.base
}

// Alloc gives the address of new memory, aligned to 256 bytes, that counts as uninitialised.
func (m *Memory) Alloc(size int) (uint64, error) {
	if size <= 0 {
		return 0, fmt.Errorf("ptx: an allocation of %d bytes", size)
	}
	m.count++
	if m.content != nil {
		return m.add(&segment{size: uint64(size), parts: make([][]byte, (size+partSize-1)/partSize), fill: m.content, name: fmt.Sprintf("allocation %d", m.count)}), nil
	}
	return m.add(&segment{size: uint64(size), data: bytes.Repeat([]byte{poison}, size), state: make([]byte, size),
		name: fmt.Sprintf("allocation %d", m.count)}), nil
}

// Map makes host memory visible to kernels, until Free.
func (m *Memory) Map(b []byte) (uint64, error) {
	if len(b) == 0 {
		return 0, fmt.Errorf("ptx: a mapping of no bytes")
	}
	m.count++
	return m.add(&segment{size: uint64(len(b)), data: b, host: true, name: fmt.Sprintf("mapping %d", m.count)}), nil
}

// Free ends an allocation or a mapping.
func (m *Memory) Free(addr uint64) error {
	s := m.find(addr)
	if s == nil || s.base != addr || s.constant {
		return fmt.Errorf("ptx: free of 0x%x, which is no allocation", addr)
	}
	if s.freed {
		return fmt.Errorf("ptx: second free of %s at 0x%x", s.name, addr)
	}
	s.freed, s.data, s.state, s.pages, s.parts = true, nil, nil, nil, nil
	return nil
}

// find gives the last segment that begins at or before an address.
func (m *Memory) find(addr uint64) *segment {
	i := sort.Search(len(m.allocs), func(i int) bool { return m.allocs[i].base > addr })
	if i == 0 {
		return nil
	}
	return m.allocs[i-1]
}

func (m *Memory) host(addr uint64, n int, what string) (*segment, uint64, error) {
	s := m.find(addr)
	switch {
	case s == nil:
		return nil, 0, fmt.Errorf("ptx: %s at 0x%x: no allocation is there", what, addr)
	case s.freed:
		return nil, 0, fmt.Errorf("ptx: %s at 0x%x: %s of %d bytes was freed", what, addr, s.name, s.size)
	case addr-s.base+uint64(n) > s.size:
		return nil, 0, fmt.Errorf("ptx: %s of %d bytes at offset %d of %s, which has %d", what, n, addr-s.base, s.name, s.size)
	}
	return s, addr - s.base, nil
}

// Write copies from the host.
func (m *Memory) Write(addr uint64, src []byte) error {
	n := len(src)
	s, o, err := m.host(addr, n, "host write")
	if err != nil {
		return err
	}
	s.each(o, len(src), func(b []byte) { src = src[copy(b, src):] })
	s.mark(o, n, written)
	return nil
}

// Fill writes n 32-bit words.
func (m *Memory) Fill(addr uint64, value uint32, n int) error {
	s, o, err := m.host(addr, 4*n, "fill")
	if err != nil {
		return err
	}
	if s.parts != nil && uint64(4*n) == s.size { // all of it: without a part
		clear(s.parts)
		s.fill = Words(value)
		return nil
	}
	s.each(o, 4*n, func(b []byte) {
		if len(b) > 0 {
			binary.LittleEndian.PutUint32(b, value)
			repeat(b, 4)
		}
	})
	s.mark(o, 4*n, written)
	return nil
}

// Read copies to the host. Bytes that were never written are poison; Written tells.
func (m *Memory) Read(dst []byte, addr uint64) error {
	s, o, err := m.host(addr, len(dst), "host read")
	if err != nil {
		return err
	}
	s.each(o, len(dst), func(b []byte) { dst = dst[copy(dst, b):] })
	return nil
}

// Written says whether all of n bytes were ever written.
func (m *Memory) Written(addr uint64, n int) (bool, error) {
	s, o, err := m.host(addr, n, "query")
	if err != nil || s.state == nil {
		return true, err
	}
	for _, b := range s.state[o : o+uint64(n)] {
		if b != written {
			return false, nil
		}
	}
	return true, nil
}

func (s *segment) mark(o uint64, n int, state byte) {
	if s.state == nil || n == 0 {
		return
	}
	s.state[o] = state
	repeat(s.state[o:o+uint64(n)], 1)
}

// repeat fills b with its first n bytes.
func repeat(b []byte, n int) {
	for ; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// place gives the module's variables addresses, once in a memory.
func (m *Memory) place(mod *Module) map[*variable]uint64 {
	if at, ok := m.modules[mod]; ok {
		return at
	}
	at := map[*variable]uint64{}
	for _, v := range mod.variables {
		s := &segment{size: uint64(v.size), data: make([]byte, v.size), name: v.space + " variable " + v.name, constant: v.space == ".const"}
		copy(s.data, v.init) // what has no value is zero
		at[v] = m.add(s)
	}
	m.modules[mod] = at
	return at
}

// Races. Two accesses to a byte conflict if one writes, not both are atomic,
// and nothing orders them: threads of one block are ordered by bar.sync, which
// begins a new epoch, threads of one warp by bar.warp.sync too, and threads of
// different blocks by the end of the launch alone.

// access is one thread's, or several threads' where many says so.
type access struct {
	block  uint32 // number among all blocks of the memory
	epoch  uint32
	warps  uint32 // epoch of the warp
	thread uint16
	many   uint8
	line   int32
}

const (
	manyThreads = iota + 1 // of one warp
	manyWarps              // of one block
)

const pageCells = 1024

// page holds the latest accesses to 1024 cells. Those of blocks before since, which what
// is going on cannot race with, count as none, so that pages need not be cleared.
type page struct {
	cells [pageCells]cell
	a     []access // atomics, if there were any
}

// cell has a write and reads: an access looks at both.
type cell struct{ w, r access }

func conflict(r, me *access, since uint32) bool {
	switch {
	case r.block < since:
		return false
	case r.block != me.block:
		return true
	case r.epoch != me.epoch:
		return false
	case r.many == manyWarps || r.thread>>5 != me.thread>>5:
		return true
	}
	return r.warps == me.warps && (r.many == manyThreads || r.thread != me.thread)
}

// join adds me to r. Blocks run one after another, so that an access of an
// earlier one conflicts with all that is still to come, and can stay.
func (r *access) join(me *access, since uint32) {
	switch {
	case r.block < since:
		*r = *me
	case r.block != me.block:
	case r.epoch != me.epoch:
		*r = *me
	case r.many == manyWarps:
	case r.thread>>5 != me.thread>>5:
		r.many = manyWarps
	case r.warps != me.warps:
		*r = *me
	case r.thread != me.thread:
		r.many = manyThreads
	}
}

type accessKind uint8

const (
	reads  accessKind = iota
	cached            // a read through the read-only cache, ld.global.nc
	writes
	atomics
)

// record notes an access to n bytes and returns an earlier one, of the blocks from since on, that it conflicts with.
func (s *segment) record(o uint64, n int, kind accessKind, me *access, since uint32) (*access, string) {
	if s.shift == 2 && (o|uint64(n))&3 != 0 {
		s.split()
	}
	if s.pages == nil {
		s.pages = make([]*page, (s.size>>s.shift)/pageCells+1)
	}
	for c, end := o>>s.shift, (o+uint64(n)-1)>>s.shift; c <= end; c++ {
		p := s.page(c / pageCells)
		i := c % pageCells
		at := &p.cells[i]
		if at.w.block >= since && (kind == cached || conflict(&at.w, me, since)) {
			return &at.w, "written"
		}
		if p.a != nil && kind != atomics && conflict(&p.a[i], me, since) {
			return &p.a[i], "accessed atomically"
		}
		r := &at.r
		if kind <= cached {
			if r.block != me.block || r.epoch != me.epoch || r.many != manyWarps && (r.thread != me.thread || r.warps != me.warps) {
				r.join(me, since)
			}
			continue
		}
		if conflict(r, me, since) {
			return r, "read"
		}
		if kind == writes {
			at.w = *me
			continue
		}
		if p.a == nil {
			p.a = make([]access, pageCells)
		}
		p.a[i].join(me, since)
	}
	return nil, ""
}

func (s *segment) page(i uint64) *page {
	if s.pages[i] == nil {
		s.pages[i] = new(page)
	}
	return s.pages[i]
}

// split goes over to a cell for every byte.
func (s *segment) split() {
	old := s.pages
	s.shift, s.pages = 0, nil
	if old == nil {
		return
	}
	s.pages = make([]*page, s.size/pageCells+1)
	for i, p := range old {
		if p == nil {
			continue
		}
		for j := range 4 {
			if 4*i+j >= len(s.pages) {
				break
			}
			q := new(page)
			if p.a != nil {
				q.a = make([]access, pageCells)
			}
			for c := range pageCells {
				from := j*pageCells/4 + c/4
				q.cells[c] = p.cells[from]
				if p.a != nil {
					q.a[c] = p.a[from]
				}
			}
			s.pages[4*i+j] = q
		}
	}
}
