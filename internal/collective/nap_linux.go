package collective

import (
	"time"

	"golang.org/x/sys/unix"
)

// Nap sleeps for about as long as it is told. time.Sleep takes a millisecond or more on Linux where nothing else runs, and
// a step waits for its sums only a fraction of that.
func Nap(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, which does no harm
}
