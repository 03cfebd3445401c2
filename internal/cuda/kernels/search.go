package kernels

const takeThreads = 32 // device.MaxCandidates

// Take moves a sum of n values, float64, to dst: dst[i] = sum[i], then sum[i] = 0. n is at most 32.
func Take(sum Ptr, n int, dst Ptr) Launch {
	return line("search", "take", 1, takeThreads, sum, I(n), dst)
}
