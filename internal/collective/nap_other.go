//go:build !linux

package collective

import "time"

// Nap sleeps.
func Nap(d time.Duration) { time.Sleep(d) }
