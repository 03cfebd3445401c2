package budget

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/privgrad/privgrad/internal/usage"
)

// lockSuffix names the file that is locked while a budget changes. The budget's own is replaced at each change.
const lockSuffix = ".lock"

// patience outlasts all who hold the lock for one change, and is the longest that a stopped process keeps others waiting.
const patience = 10 * time.Second

// errHeld says that another process has the lock.
var errHeld = errors.New("another process has the lock")

// locked calls f with the lock of a budget, which the system frees when its process ends, however that is.
func locked(path string, patience time.Duration, f func() error) error {
	name := path + lockSuffix
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		free, err := tryLock(name)
		switch {
		case err == nil:
			defer free()
			return f()
		case errors.Is(err, errHeld) && time.Now().After(end):
			return usage.Errorf("budget %s is in use by another process for %v: wait until that process ends, or end it, and try again; do not remove %s", path, patience, name)
		case !errors.Is(err, errHeld):
			return usage.Errorf("budget %s: its lock %s cannot be had (%w): use a folder that can be written, on a file system with locks", path, name, usage.Cause(err))
		}
	}
}

// tryLock locks a file that is surely the one of the name: somebody may have removed another meanwhile.
func tryLock(name string) (free func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	free = func() { _ = f.Close() } // which unlocks
	if err = lock(f); err == nil {
		var mine, there fs.FileInfo
		if mine, err = f.Stat(); err == nil {
			if there, err = os.Lstat(name); err != nil || !os.SameFile(mine, there) {
				err = errHeld
			}
		}
	}
	if err != nil {
		free()
		return nil, err
	}
	return free, nil
}
