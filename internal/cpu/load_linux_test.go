package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/privgrad/privgrad/internal/device"
)

// area is what the system says of the memory that an address lies in.
func area(t *testing.T, at *byte) map[string]string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	said, address := map[string]string{}, uintptr(unsafe.Pointer(at))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			if len(said) > 0 {
				break
			}
			if from <= address && address < to {
				said["range"] = lines.Text()
			}
		} else if name, value, ok := strings.Cut(lines.Text(), ":"); ok && len(said) > 0 {
			said[name] = strings.TrimSpace(value)
		}
	}
	return said
}

// written is memory of its own, on small pages that have been written.
func written(t *testing.T, bytes int) []byte {
	t.Helper()
	x, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	check(t, err)
	t.Cleanup(func() { _ = unix.Munmap(x) })
	if err := unix.Madvise(x, unix.MADV_NOHUGEPAGE); err != nil {
		t.Skipf("this system has no large pages: %v", err)
	}
	for i := range x {
		x[i] = byte(i * 7)
	}
	return x
}

// Rows in memory are moved to large pages, and stay what they are. Rows that are said to lie in files are left alone.
func TestLoadMovesRows(t *testing.T) {
	const width, count = 100, 80_000
	setting, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled") // what is not there forbids nothing
	never := strings.Contains(string(setting), "[never]")
	d, err := Open(1)
	check(t, err)
	for _, mapped := range []bool{false, true} {
		values := written(t, 8<<20)
		rows := device.Rows{Count: count, Width: width, Targets: make([]float32, count), Mapped: mapped}
		data, err := d.Load(rows, device.Bytes(values[:count*width]))
		check(t, err)
		after := area(t, &values[4<<20])
		t.Logf("mapped %v: %v on large pages, flags %s", mapped, after["AnonHugePages"], after["VmFlags"])
		moved := !strings.HasPrefix(after["AnonHugePages"], "0 ")
		if asked := !strings.Contains(" "+after["VmFlags"]+" ", " nh "); asked == mapped || mapped && moved {
			t.Errorf("mapped %v: %s", mapped, after)
		}
		if other := written(t, 4<<20); !mapped && !moved && !never &&
			unix.Madvise(other, unix.MADV_HUGEPAGE) == nil && unix.Madvise(other, unix.MADV_COLLAPSE) == nil {
			t.Errorf("nothing was moved, though this system can: %s", after)
		}
		for i, b := range values {
			if b != byte(i*7) {
				t.Fatalf("mapped %v: byte %d became %d", mapped, i, b)
			}
		}
		check(t, data.Close())
	}
}
