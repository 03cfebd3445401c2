package devices

import "syscall"

func machineMemory() int64 {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) != nil {
		return 0
	}
	return int64(i.Totalram) * int64(i.Unit)
}
