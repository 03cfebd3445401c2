package pages

import (
	"bytes"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// huge is the size of a large page on amd64 and on arm64 with pages of 4 KiB.
const huge = 2 << 20

// whole is the part of x that takes large pages whole. A large page at either end would also hold the memory of other arrays,
// and made steps only half a percent faster.
func whole[T any](x []T) []byte {
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
	start := min(int(-uintptr(unsafe.Pointer(unsafe.SliceData(x)))%huge), len(all))
	return all[start:][:(len(all)-start)/huge*huge]
}

// advise asks for large pages, before the first write, which decides on the size of a page. A system that has no such pages,
// or wants to give none, refuses or ignores it.
func advise[T any](x []T) {
	if b := whole(x); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
}

// allowed says that the system's owner has not turned large pages off, which collapse would ignore.
var allowed = sync.OnceValue(func() bool {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !bytes.Contains(setting, []byte("[never]"))
})

// collapse moves what was written to large pages now. Systems before Linux 6.1 refuse, and do it in their own time.
func collapse[T any](x []T) {
	if b := whole(x); len(b) > 0 && allowed() {
		_ = unix.Madvise(b, unix.MADV_COLLAPSE)
	}
}
