//go:build unix

package devices

import (
	"runtime"
	"syscall"
)

// PeakRSS is the most memory, in bytes, that the process has had resident.
func PeakRSS() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) << 10
}
