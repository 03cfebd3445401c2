package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// huge is the size of a large page on amd64 and on arm64 with pages of 4 KiB.
const huge = 2 << 20

// whole is the part of x that takes large pages whole. Around it large pages would be faster by half a percent, and take
// memory of which x uses a part.
func whole[T any](x []T) []byte {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
	start := min(int(-uintptr(unsafe.Pointer(unsafe.SliceData(x)))%huge), len(bytes))
	return bytes[start:][:(len(bytes)-start)/huge*huge]
}

// advise asks for large pages, before the first write, which decides on the size of a page. A system that has no such pages,
// or wants to give none, refuses or ignores it.
func advise[T any](x []T) {
	if b := whole(x); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
}

// collapse moves what was written to large pages now. Systems before Linux 6.1 refuse, and do it in their own time.
func collapse[T any](x []T) {
	if b := whole(x); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_COLLAPSE)
	}
}
