package train

import "github.com/privgrad/privgrad/internal/device"

// unknownMemory is the default budget where the machine's memory is unknown.
const unknownMemory = 512 << 20

// DefaultMemory is the budget for a batch's values and stored gradients: a
// quarter of the device's memory, or of the machine's for a device that has none of its own, in whole
// steps of 64 MiB so that a new kernel's share does not change it.
func DefaultMemory(d device.Info) int64 {
	const step = 64 << 20
	all := d.Memory
	if all == 0 {
		all = machineMemory()
	}
	if m := all / 4 / step * step; m > 0 {
		return m
	}
	return unknownMemory
}
