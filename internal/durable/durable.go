// Package durable writes files so that a crash or a full disk at any byte leaves
// either the old contents or the new contents, never a mixture.
//
// Every function assumes one writer per path; readers may come at any time.
package durable

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// WriteFile replaces path by what write produces. The bytes go to a new file beside
// it, with a name of its own that is nobody's, reach the disk, and only then take
// path's name. When an error is returned the old file is still there, whole, and the
// new one is gone. The one exception is an error from making the rename itself
// durable: path then holds the new contents, and a power loss may bring the old ones
// back. A crash may leave the new file, which Sweep removes.
//
// Only a file is replaced: where a link, a pipe, a device or a folder has the name, it
// stays as it is, and the error says so.
//
// A replaced file keeps its permissions; a new one gets 0666 less the umask.
func WriteFile(path string, write func(io.Writer) error) error {
	return writeFile(disk{}, path, write)
}

func writeFile(sys system, name string, write func(io.Writer) error) (err error) {
	path := written.Path(name)
	defer func() { err = explain("writing", name, err) }()

	perm := fs.FileMode(0o666)
	old, err := Regular(path)
	if err != nil {
		return err
	}
	if old != nil {
		perm = old.Mode().Perm()
	}
	temp := tempName(filepath.Dir(path))
	f, err := sys.create(temp, perm)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			// Both may fail because an earlier step did, whose error is the one to report.
			_ = f.Close()
			_ = sys.remove(temp)
		}
	}()

	if old != nil {
		// The umask may have narrowed what the old file allowed.
		if err := f.Chmod(perm); err != nil {
			return err
		}
	}
	buf := bufio.NewWriterSize(f, 1<<16)
	if err := write(buf); err != nil {
		return err
	}
	rename := func() error { return sys.rename(temp, path) }
	for _, step := range []func() error{buf.Flush, f.Sync, f.Close, rename} {
		if err := step(); err != nil {
			return err
		}
	}
	renamed = true
	return sys.syncDir(filepath.Dir(path))
}

// Rename gives a folder that has been written its name, durably. Nothing may have that name.
func Rename(from, to string) error {
	err := os.Rename(from, to)
	if err == nil {
		err = disk{}.syncDir(filepath.Dir(to))
	}
	return explain("writing", to, err)
}

// Regular refuses a path that leads to something and not to a file: a link, a folder, a pipe, a device. It says
// what is known of the file, nil where there is none.
func Regular(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	what := "no file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return info, nil
	case mode&fs.ModeSymlink != 0:
		return nil, usage.Errorf("it is a link, and nothing is written through one: name the file itself, or another")
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	return nil, usage.Errorf("it is %s, and only a file is replaced: name another file", what)
}

// What the names of new files begin and end with.
const prefix, suffix = ".privgrad-", ".tmp"

// tempName is a name for a new file in a folder. Nobody else's file has it.
func tempName(dir string) string { return filepath.Join(dir, prefix+rand.Text()+suffix) }

func isTemp(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix)
}

// Sweep removes from a folder of this program the new files that a crash left. The caller is the only one who writes there.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && isTemp(e.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// nameless is an error without the name of a new file, which says nothing to people.
func nameless(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		if isTemp(e.Path) {
			return e.Err
		}
	case *os.LinkError:
		if isTemp(e.Old) {
			return e.Err
		}
	}
	return err
}

// Full says whether it was for want of space that something could not be written.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// explain adds to err the file it concerns and what its reader can do about it.
func explain(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	if err = nameless(err); Full(err) {
		return fmt.Errorf("%s %s: %w (the disk or a quota is full: free space)", doing, path, err)
	}
	dir := filepath.Dir(path)
	if _, missing := os.Stat(dir); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("%s %s: %w (there is no folder %s: make it, or name another)", doing, path, fs.ErrNotExist, dir)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

// A system is the part of the operating system that can fail, so that tests can
// make each call fail.
type system interface {
	create(name string, perm fs.FileMode) (file, error)
	openLog(name string) (file, error)
	rename(from, to string) error
	remove(name string) error
	syncDir(name string) error
}

type file interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Chmod(fs.FileMode) error
	Sync() error
	Truncate(int64) error
}

type disk struct{}

func (disk) create(name string, perm fs.FileMode) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func (disk) openLog(name string) (file, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
}

func (disk) rename(from, to string) error { return os.Rename(from, to) }
func (disk) remove(name string) error     { return os.Remove(name) }

func (disk) syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there; the rename is journalled
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
