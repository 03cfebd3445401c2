//go:build linux || darwin

// Package guard places slices directly before or after memory that cannot be touched, so that tests of assembly fault
// on the first byte read or written outside.
package guard

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Region is whole pages between two that fault.
type Region struct{ pages []byte }

// New maps a region of at least size bytes until the test ends.
func New(tb testing.TB, size int) Region {
	tb.Helper()
	page := os.Getpagesize()
	inner := max(1, (size+page-1)/page) * page
	m, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		tb.Fatalf("guard: map %d bytes: %v", inner+2*page, err)
	}
	tb.Cleanup(func() {
		if err := unix.Munmap(m); err != nil {
			tb.Errorf("guard: unmap: %v", err)
		}
	})
	for _, p := range [][]byte{m[:page], m[page+inner:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			tb.Fatalf("guard: protect a page: %v", err)
		}
	}
	return Region{m[page : page+inner : page+inner]}
}

// Bytes is n bytes at the region's end, or else at its beginning; all calls share the memory.
func (r Region) Bytes(n int, end bool) []byte {
	if end {
		return r.pages[len(r.pages)-n:]
	}
	return r.pages[:n:n]
}

// Floats is n values at the region's end, or else at its beginning; all calls share the memory.
func (r Region) Floats(n int, end bool) []float32 { return of[float32](r, n, end) }

// Halves is n values of 16 bits, likewise.
func (r Region) Halves(n int, end bool) []uint16 { return of[uint16](r, n, end) }

func of[T any](r Region, n int, end bool) []T {
	if n == 0 {
		return nil
	}
	var value T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(r.Bytes(n*int(unsafe.Sizeof(value)), end)))), n)
}
