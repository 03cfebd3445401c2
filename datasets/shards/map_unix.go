//go:build darwin || freebsd || linux || netbsd || openbsd

package shards

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/privgrad/privgrad/internal/fault"
)

// mapped says that rows stay in files until they are read, but for those that load has to copy.
const mapped = true

// load gives the rows of all files without a gap, in mapped memory that is never freed, and says so.
//
// A page that has the last rows of one file and the first of the next is a copy; all others are
// those of the files. This needs rows that begin as place says, which those of another order of files
// do not: they are copied to memory.
func load(spans []span) (rows []byte, inFiles bool, err error) {
	fault.Map() // for whoever goes on with the rows
	page, total := int64(os.Getpagesize()), int64(0)
	for _, s := range spans {
		if total > 0 && (s.start-spans[0].start-total)%page != 0 {
			rows, err = copied(spans)
			return rows, false, err
		}
		total += s.bytes
	}
	if total == 0 {
		return []byte{}, true, nil
	}
	lead := spans[0].start % page
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(lead+total+page), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, false, err
	}
	at := lead
	for _, s := range spans {
		if s.bytes == 0 {
			continue
		}
		if err := put(base, at, lead, page, s); err != nil {
			return nil, false, err
		}
		at += s.bytes
	}
	return unsafe.Slice((*byte)(unsafe.Add(base, lead)), total), true, nil
}

// put maps one file's rows to a place, and keeps what stands before them in the same page.
func put(base unsafe.Pointer, at, lead, page int64, s span) error {
	before := at % page
	from := unsafe.Add(base, at-before)
	var kept []byte
	if at > lead && before > 0 {
		kept = append(kept, unsafe.Slice((*byte)(from), before)...)
	}
	const flags = unix.MAP_PRIVATE | unix.MAP_FIXED
	if _, err := unix.MmapPtr(int(s.file.Fd()), s.start-before, from, uintptr(before+s.bytes), unix.PROT_READ, flags); err != nil {
		return err
	}
	if kept == nil {
		return nil
	}
	first := unsafe.Slice((*byte)(from), page)
	if err := unix.Mprotect(first, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	copy(first, kept)
	return unix.Mprotect(first, unix.PROT_READ)
}
