//go:build !unix

package devices

import "runtime"

// PeakRSS is the memory, in bytes, that the process has obtained from the
// system, the nearest figure to its peak that is at hand here.
func PeakRSS() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
