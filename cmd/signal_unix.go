//go:build unix

package cmd

import (
	"os"
	"os/signal"
	"syscall"
)

// tameSignals keeps signals from ending the process with a stack trace, which may hold
// the length of a private file. A write beyond a file size limit then fails like one to a
// full disk; SIGQUIT and SIGABRT end the process without a word.
func tameSignals() {
	signal.Ignore(syscall.SIGXFSZ)
	quit := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGQUIT, syscall.SIGABRT} {
		if !signal.Ignored(s) {
			signal.Notify(quit, s)
		}
	}
	go func() {
		if s, ok := (<-quit).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	}()
}
