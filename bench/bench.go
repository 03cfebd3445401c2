package bench

import "github.com/privgrad/privgrad/internal/timing"

// Machine is where measurements were made.
type Machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Memory  *int64 `json:"memory_bytes"` // null where the system does not say
	Kernels string `json:"kernels"`
	// Load is how many processes wanted a processor in the minute before; null
	// where the system does not say. Above a few tenths the figures are not the
	// machine's.
	Load *float64 `json:"load_average"`
}

// threadCounts are one thread and, where that is more, as many as were asked
// for, 0 meaning all.
func threadCounts(asked int) ([]int, error) {
	n, err := timing.Threads(asked)
	if err != nil || n == 1 {
		return []int{1}, err
	}
	return []int{1, n}, nil
}
