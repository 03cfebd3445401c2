//go:build linux || darwin

package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

func init() { roles["full"] = reserveOnFullDisk }

// reserveOnFullDisk lets this process write no further than the two meta pages,
// as a disk does that has no block left for the others.
func reserveOnFullDisk(path string) error {
	l, err := Open(path, header(10))
	if err != nil {
		return err
	}
	if _, err := l.Reserve(4); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = 2 * pageSize
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	before := l.State()
	if err := l.Settle(1); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("settling on a full disk: %v", err)
	}
	if _, err := l.Reserve(1); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("reserving on a full disk: %v", err)
	}
	if after := l.State(); after != before {
		return fmt.Errorf("the state went from %+v to %+v", before, after)
	}
	if err := l.Close(); err != nil {
		return err
	}
	if l, err = Open(path, header(10)); err != nil {
		return err
	}
	if _, err := l.Reserve(1); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("reserving on a full disk after reopening: %v", err)
	}
	if _, err := Open(path+".other", header(10)); err == nil {
		return errors.New("a ledger was created on a full disk")
	}
	fmt.Println("done")
	return l.Close()
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	must(t, start(t, "full", path).Wait())

	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"))
	must(t, err)
	if len(names) != 1 || len(hidden) != 0 {
		t.Errorf("left behind: %v %v", names, hidden)
	}
	image, err := os.ReadFile(path)
	must(t, err)
	state, _, err := Read(path)
	must(t, err)
	wantState(t, state, State{Committed: 10, Reserved: 4, CrashedSlots: 4})
	again, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(image, again) {
		t.Error("Read changed the file")
	}

	// With space again the run resumes.
	l := mustOpen(t, path, 10)
	defer l.Close()
	mustReserve(t, l, 6, 4)
	must(t, l.Settle(6))
	wantState(t, l.State(), State{Committed: 10, Reserved: 10, Settled: 6, CrashedSlots: 4})
}
