package train

// unknownMemory is the default budget where the machine's memory is unknown.
const unknownMemory = 512 << 20

// DefaultMemory is the budget for a batch's values and stored gradients: a
// quarter of the machine's memory, in whole steps of 64 MiB so that a new
// kernel's share does not change it.
func DefaultMemory() int64 {
	const step = 64 << 20
	if m := machineMemory() / 4 / step * step; m > 0 {
		return m
	}
	return unknownMemory
}
