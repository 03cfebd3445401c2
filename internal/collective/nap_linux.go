package collective

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep is not time.Sleep, which takes a millisecond or more on Linux where nothing else runs in the process. A step waits
// for its sums only a fraction of that.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, which does no harm
}
