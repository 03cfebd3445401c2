//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreFileSizeSignal makes a write beyond a file size limit fail like one to
// a full disk. The signal would end the process with a stack trace.
func ignoreFileSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }
