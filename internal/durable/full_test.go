//go:build linux || darwin

package durable

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The test binary runs itself again with this variable naming a directory, and
// then may write no file beyond fullSize.
const (
	fullVariable = "DURABLE_TEST_FULL"
	fullSize     = 1 << 16
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(fullVariable); dir != "" {
		if err := writeOnFullDisk(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func writeOnFullDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = fullSize
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	err := WriteFile(filepath.Join(dir, "model"), text(strings.Repeat("x", 3*fullSize)))
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "free space") {
		return fmt.Errorf("writing a file: %v", err)
	}
	l, err := OpenLog(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	if err := l.Append([]byte("first")); err != nil {
		return err
	}
	if err := l.Append([]byte(strings.Repeat("y", fullSize))); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("appending: %v", err)
	}
	return l.Close()
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	must(t, WriteFile(model, text("old")))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fullVariable+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := contents(t, model); got != "old" {
		t.Errorf("the old file became %.20q", got)
	}
	if got := contents(t, filepath.Join(dir, "log")); got != "first\n" {
		t.Errorf("the log became %.20q", got)
	}
	if _, err := os.Stat(model + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}
