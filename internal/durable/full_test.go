//go:build linux || darwin

package durable

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/privgrad/privgrad/internal/usage"
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
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("the temporary file is still there: %v", entries)
	}
}

// Only a file is replaced, and no link is followed.
func TestOnlyFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("target"), []byte("precious"), 0o644))
	must(t, os.Symlink("target", at("link")))
	must(t, os.Symlink("nothing", at("loose")))
	must(t, os.Symlink(".", at("around")))
	must(t, os.Mkdir(at("folder"), 0o755))
	must(t, syscall.Mkfifo(at("pipe"), 0o644))
	socket, err := net.Listen("unix", at("socket"))
	must(t, err)
	defer socket.Close()
	before, err := os.ReadDir(dir)
	must(t, err)
	for name, want := range map[string]string{"link": "is a link", "loose": "is a link", "around": "is a link", "folder": "is a folder", "folder/": "is a folder", "pipe": "is a pipe", "socket": "is a socket"} {
		_, logged := OpenLog(dir + "/" + name)
		for what, err := range map[string]error{"a file": WriteFile(dir+"/"+name, text("new")), "a log": logged} {
			var refused *usage.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "/"+strings.TrimSuffix(name, "/")) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s in the place of %s: %v, want %q", what, name, err, want)
			}
		}
	}
	after, err := os.ReadDir(dir)
	must(t, err)
	for i := range before {
		if len(after) != len(before) || before[i].Type() != after[i].Type() || before[i].Name() != after[i].Name() {
			t.Fatalf("the folder held %v, and holds %v", before, after)
		}
	}
	if got := contents(t, at("target")); got != "precious" {
		t.Errorf("the link's target holds %q", got)
	}
	// A missing folder before .. leads nowhere, as for every other use of the path.
	must(t, WriteFile(dir+"/missing/../target", text("new")))
	if got := contents(t, at("target")); got != "new" {
		t.Errorf("the file holds %q", got)
	}
}

// A new file's permissions are what the umask leaves; one that is replaced keeps its own.
func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	for umask, want := range map[int]os.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664} {
		path := filepath.Join(dir, fmt.Sprint(umask))
		before := syscall.Umask(umask)
		err := WriteFile(path, text("new"))
		syscall.Umask(before)
		must(t, err)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("with umask %o the file is %v (%v)", umask, info.Mode(), err)
		}
	}
}
