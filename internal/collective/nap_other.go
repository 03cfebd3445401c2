//go:build !linux

package collective

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
