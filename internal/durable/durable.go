// Package durable writes files so that a crash or a full disk at any byte leaves
// either the old contents or the new contents, never a mixture.
//
// Every function assumes one writer per path; readers may come at any time.
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// WriteFile replaces path by what write produces. The bytes go to path+".tmp",
// reach the disk, and only then take path's name. When an error is returned the
// old file is still there, whole, and the temporary file is gone. The one
// exception is an error from making the rename itself durable: path then holds
// the new contents, and a power loss may bring the old ones back.
//
// A replaced file keeps its permissions; a new one gets 0666 less the umask.
func WriteFile(path string, write func(io.Writer) error) error {
	return writeFile(disk{}, path, write)
}

func writeFile(sys system, path string, write func(io.Writer) error) (err error) {
	defer func() { err = explain("writing", path, err) }()

	perm := fs.FileMode(0o666)
	old, statErr := os.Stat(path)
	if statErr == nil {
		perm = old.Mode().Perm()
	}
	temp := path + ".tmp"
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

	if statErr == nil {
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

// Full says whether it was for want of space that something could not be written.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// explain adds to err the file it concerns and what its reader can do about it.
func explain(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	if Full(err) {
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
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
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
