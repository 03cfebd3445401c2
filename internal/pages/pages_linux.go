package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// huge is the size of a large page on amd64 and on arm64 with pages of 4 KiB.
const huge = 2 << 20

// advise asks for large pages where x covers them whole. It comes before the first write, which decides on the size of a
// page; a system that has no such pages, or wants to give none, refuses or ignores it.
func advise[T float32 | float64](x []T) {
	if len(x) == 0 {
		return
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
	start := int(-uintptr(unsafe.Pointer(&x[0])) % huge)
	if end := start + (len(bytes)-start)/huge*huge; start < end {
		_ = unix.Madvise(bytes[start:end], unix.MADV_HUGEPAGE)
	}
}
