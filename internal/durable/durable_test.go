package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model")
	for _, want := range []string{"first", "", strings.Repeat("long", 1<<16)} {
		must(t, WriteFile(path, text(want)))
		if got := contents(t, path); got != want {
			t.Fatalf("wrote %.20q, want %.20q", got, want)
		}
	}
	must(t, os.Chmod(path, 0o600))
	must(t, WriteFile(path, text("private")))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("permissions became %v", info.Mode())
	}
	onlyFile(t, dir, "model")

	missing := filepath.Join(dir, "no", "model")
	if err := WriteFile(missing, text("x")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("writing to a missing directory: %v", err)
	}
}

// Whoever's file has a name that looks like a temporary one, it stays as it is, and so does what is no file.
func TestWriteFileTouchesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model")
	others := []string{path + ".tmp", path + "~", path + ".new", path + ".part", filepath.Join(dir, ".model.tmp"), filepath.Join(dir, "."+prefix+".tmp")}
	for _, other := range others {
		must(t, os.WriteFile(other, []byte("precious"), 0o644))
	}
	must(t, WriteFile(path, text("new")))
	must(t, WriteFile(path, text("newer")))
	for _, other := range others {
		if got := contents(t, other); got != "precious" {
			t.Errorf("%s holds %q", other, got)
		}
	}
	if f, err := (disk{}).create(path+".tmp", 0o644); err == nil {
		f.Close()
		t.Error("a file of somebody else's was opened as a new one")
	}
	if one, other := tempName(dir), tempName(dir); one == other {
		t.Error("two new files have one name")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1+len(others) {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
	if got := contents(t, path); got != "newer" {
		t.Errorf("written %q", got)
	}
}

// A crash's leavings go when a folder is swept.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	left := []string{tempName(dir), tempName(dir)}
	kept := []string{filepath.Join(dir, "a.tmp"), filepath.Join(dir, ".privgrad-settings"), filepath.Join(dir, "privgrad-x.tmp")}
	for _, name := range append(left, kept...) {
		must(t, os.WriteFile(name, nil, 0o644))
	}
	must(t, os.Mkdir(tempName(dir), 0o755))
	must(t, Sweep(dir))
	must(t, Sweep(filepath.Join(dir, "missing")))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(kept)+1 {
		t.Errorf("left %v (%v)", entries, err)
	}
}

func TestWriteFilePanic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model")
	must(t, WriteFile(path, text("old")))
	func() {
		defer func() { _ = recover() }()
		_ = WriteFile(path, func(io.Writer) error { panic("in the callback") })
	}()
	onlyFile(t, dir, "model")
	if got := contents(t, path); got != "old" {
		t.Errorf("contents %q", got)
	}
}

func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("directory holds %v, want %s alone", entries, name)
	}
}

// A faulty system fails its calls from number failAt on, where a write that fails
// first puts half its bytes down. With undo it still removes and truncates, as a
// full disk does and a dead one does not.
type faulty struct {
	disk
	calls, failAt int
	undo          bool
	err           error
}

func (s *faulty) step() error {
	s.calls++
	if s.calls >= s.failAt {
		return s.err
	}
	return nil
}

type faultyFile struct {
	file
	sys *faulty
}

func (s *faulty) wrap(f file, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return faultyFile{f, s}, nil
}

func (s *faulty) create(name string, perm fs.FileMode) (file, error) {
	if err := s.step(); err != nil {
		return nil, err
	}
	return s.wrap(s.disk.create(name, perm))
}

func (s *faulty) openLog(name string) (file, error) {
	if err := s.step(); err != nil {
		return nil, err
	}
	return s.wrap(s.disk.openLog(name))
}

func (s *faulty) rename(from, to string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.disk.rename(from, to)
}

func (s *faulty) remove(name string) error {
	if !s.undo {
		return s.err
	}
	return s.disk.remove(name)
}

func (s *faulty) syncDir(name string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.disk.syncDir(name)
}

func (f faultyFile) Write(b []byte) (int, error) {
	if err := f.sys.step(); err != nil {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, err
	}
	return f.file.Write(b)
}

func (f faultyFile) Sync() error {
	if err := f.sys.step(); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f faultyFile) Close() error {
	err := f.file.Close()
	return errors.Join(f.sys.step(), err)
}

func (f faultyFile) Truncate(size int64) error {
	if !f.sys.undo {
		return f.sys.err
	}
	return f.file.Truncate(size)
}

// Every call of a write fails in turn.
func TestWriteFileFaults(t *testing.T) {
	newer := strings.Repeat("new", 50000)
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		failures := 0
		for failAt := 1; ; failAt++ {
			dir := t.TempDir()
			path := filepath.Join(dir, "model")
			must(t, os.WriteFile(path, []byte("old"), 0o644))
			sys := &faulty{failAt: failAt, undo: true, err: &fs.PathError{Op: "write", Path: "temporary", Err: cause}}
			err := writeFile(sys, path, text(newer))
			onlyFile(t, dir, "model")
			if err == nil {
				if got := contents(t, path); got != newer {
					t.Fatalf("no error, and the file holds %.20q", got)
				}
				break
			}
			failures++
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), path) {
				t.Fatalf("call %d: %v", failAt, err)
			}
			if full := cause != syscall.EIO; strings.Contains(err.Error(), "free space") != full {
				t.Fatalf("call %d: %v", failAt, err)
			}
			// The last call makes a rename durable that has happened.
			if got := contents(t, path); got != "old" && (got != newer || sys.calls != failAt) {
				t.Fatalf("call %d failed and left %.20q", failAt, got)
			}
		}
		if failures < 6 {
			t.Fatalf("only %d calls failed", failures)
		}
	}
}

func TestWriteFileWithoutAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	err := WriteFile(filepath.Join(dir, "model"), text("new"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no folder "+dir) || strings.Contains(err.Error(), ".tmp") {
		t.Errorf("error %v", err)
	}
}

func TestWriteFileCallbackError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model")
	must(t, WriteFile(path, text("old")))
	stop := errors.New("stop")
	err := WriteFile(path, func(w io.Writer) error {
		return errors.Join(stop, text(strings.Repeat("x", 1<<20))(w))
	})
	if !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	onlyFile(t, dir, "model")
	if got := contents(t, path); got != "old" {
		t.Errorf("contents %.20q", got)
	}
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	l, err := OpenLog(path)
	must(t, err)
	for i := range 5 {
		must(t, l.Append(fmt.Appendf(nil, `{"step":%d}`, i)))
	}
	for _, bad := range []string{"two\nlines", "zero\x00"} {
		if err := l.Append([]byte(bad)); err == nil {
			t.Errorf("appended %q", bad)
		}
	}
	must(t, l.Rewrite(func(line []byte) bool { return string(line) < `{"step":3}` }))
	must(t, l.Append([]byte(`{"step":3,"again":true}`)))
	must(t, l.Append(nil))
	must(t, l.Close())
	want := `{"step":0}` + "\n" + `{"step":1}` + "\n" + `{"step":2}` + "\n" + `{"step":3,"again":true}` + "\n\n"
	if got := contents(t, path); got != want {
		t.Fatalf("log\n%s, want\n%s", got, want)
	}
	l, err = OpenLog(path)
	must(t, err)
	must(t, l.Rewrite(func([]byte) bool { return true }))
	must(t, l.Rewrite(func([]byte) bool { return false }))
	must(t, l.Close())
	if got := contents(t, path); got != "" {
		t.Fatalf("log %q, want nothing", got)
	}
}

// A crash leaves some of the last line's bytes, or zeros in their place; the lines
// before it survive and the next one starts cleanly.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,8}`), 1, 5).Draw(t, "lines")
		file := []byte(strings.Join(lines, "\n") + "\n")
		start := bytes.LastIndexByte(file[:len(file)-1], '\n') + 1
		whole := file[:start]
		if rapid.Bool().Draw(t, "zeroed") {
			if start == len(file)-1 {
				whole = file // an empty line has no byte to lose
			} else {
				clear(file[start:rapid.IntRange(start+1, len(file)-1).Draw(t, "end")])
			}
		} else {
			file = file[:rapid.IntRange(start, len(file)-1).Draw(t, "cut")]
		}
		must(t, os.WriteFile(path, file, 0o644))
		l, err := OpenLog(path)
		must(t, err)
		must(t, l.Append([]byte("next")))
		must(t, l.Close())
		got, err := os.ReadFile(path)
		must(t, err)
		if want := string(whole) + "next\n"; string(got) != want {
			t.Fatalf("log %q, want %q", got, want)
		}
	})
}

// Every call of one use fails in turn, on a full disk and on a dead one. Opened
// again, the log holds the lines that were acknowledged, and at most whole ones more.
func TestLogFaults(t *testing.T) {
	for _, undo := range []bool{true, false} {
		finished := false
		for failAt := 1; !finished; failAt++ {
			path := filepath.Join(t.TempDir(), "metrics.jsonl")
			must(t, os.WriteFile(path, []byte("0\n1\n2\n"), 0o644))
			sys := &faulty{failAt: failAt, undo: undo, err: syscall.ENOSPC}
			acknowledged := "0\n1\n2\n"
			allowed := map[string]bool{}
			l, err := openLog(sys, path)
			for _, call := range []struct {
				do    func() error
				after string
			}{
				{func() error { return l.Append([]byte("three")) }, "0\n1\n2\nthree\n"},
				{func() error { return l.Rewrite(func(line []byte) bool { return line[0] < '2' }) }, "0\n1\n"},
				{func() error { return l.Append([]byte("two")) }, "0\n1\ntwo\n"},
			} {
				if err != nil {
					break
				}
				if err = call.do(); err == nil {
					acknowledged = call.after
				} else {
					allowed[call.after] = true // done, or as good as not begun
					sys.failAt = math.MaxInt
					if again := l.Append([]byte("more")); again == nil {
						t.Fatalf("call %d: the log went on after %v", failAt, err)
					}
				}
			}
			allowed[acknowledged] = true
			finished = err == nil
			if err != nil && (!errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "free space")) {
				t.Fatalf("call %d: %v", failAt, err)
			}
			if l != nil {
				_ = l.Close()
			}
			l, err = OpenLog(path)
			must(t, err)
			must(t, l.Close())
			if got := contents(t, path); !allowed[got] {
				t.Fatalf("call %d left %q, want one of %v", failAt, got, allowed)
			}
		}
	}
}
