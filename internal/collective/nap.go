package collective

import "time"

// Nap lets a process that has waited so long sleep for a sixteenth of that, up to a millisecond: the longer a wait, the less
// a nap adds to it. The system may add some 50 µs.
func Nap(waited time.Duration) { sleep(min(waited/16, time.Millisecond)) }
