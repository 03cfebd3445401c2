package kernels

const takeThreads = 32 // device.MaxCandidates

// Take moves a sum of n values, float64, to dst: dst[i] = sum[i], then sum[i] = 0. n is at most 32.
func Take(sum Ptr, n int, dst Ptr) Launch {
	return Launch{
		Module: "search", Name: "take", Grid: [3]int{1, 1, 1}, Block: [3]int{takeThreads, 1, 1},
		Args: []uint64{sum, I(n), dst},
	}
}
