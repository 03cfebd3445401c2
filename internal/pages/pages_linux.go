package pages

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// huge is the size of a large page on amd64 and on arm64 with pages of 4 KiB.
const huge = 2 << 20

// around is where the large pages begin that x lies on, and their bytes: 0 if x is small.
func around[T any](x []T) (start, bytes uintptr) {
	size := uintptr(len(x)) * unsafe.Sizeof(*new(T))
	if size < least {
		return 0, 0
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
	return at / huge * huge, (at%huge + size + huge - 1) / huge * huge
}

// advise asks for large pages. The first write to a page decides on its size, which others may have done at x's ends. A
// system that has no such pages, or wants to give none, refuses or ignores it.
func advise[T any](x []T) {
	if start, bytes := around(x); bytes > 0 {
		madvise(start, bytes, unix.MADV_HUGEPAGE)
		madvise(start, huge, unix.MADV_COLLAPSE)
		madvise(start+bytes-huge, huge, unix.MADV_COLLAPSE)
	}
	runtime.KeepAlive(x)
}

// collapse moves what was written to large pages now. Systems before Linux 6.1 refuse, and do it in their own time.
func collapse[T any](x []T) {
	if start, bytes := around(x); bytes > 0 {
		madvise(start, bytes, unix.MADV_COLLAPSE)
	}
	runtime.KeepAlive(x)
}

// madvise takes numbers: what lies around an array is no array that a pointer may point to.
func madvise(start, bytes uintptr, advice int) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, bytes, uintptr(advice))
}
