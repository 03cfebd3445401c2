package timing

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startPinned starts a command on the first so many of this process's
// processors: some peers start a thread for every processor that they may use,
// whatever they are told. A child has the affinity of the thread that starts it.
func startPinned(cmd *exec.Cmd, threads int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, some unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return cmd.Start()
	}
	for cpu := 0; some.Count() < min(threads, all.Count()); cpu++ {
		if all.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	if unix.SchedSetaffinity(0, &some) == nil {
		// What the system gave it takes back.
		defer func() { _ = unix.SchedSetaffinity(0, &all) }()
	}
	return cmd.Start()
}
