//go:build unix

package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// located says where a directory is: by file system and number there, which it keeps when it is moved and a copy
// does not have.
func located(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(s.Dev, " ", s.Ino), nil
	}
	return filepath.Abs(dir)
}
