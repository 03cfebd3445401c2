//go:build !linux

package fake

import (
	"bytes"
	"runtime"
	"strconv"
)

// thread is the number of the calling goroutine, which stands for its thread.
func thread() int {
	var buf [64]byte
	n, _ := strconv.Atoi(string(bytes.Fields(buf[:runtime.Stack(buf[:], false)])[1]))
	return n
}
