package kernels

const searchThreads = 32 // device.MaxCandidates

// FirstAbove writes to first, int32, the number of the first of a sum's queries that is at least the
// run's threshold of that number, −1 for none, and zeroes the sum. Query i is
// sum[i], or sum[0] − sum[1+i] with a baseline; all are float64. At most 32 queries. Where the least is asked for, first is the number of the least
// sum[i] + threshold instead.
func FirstAbove(run, sum Ptr, queries int, baseline, least bool, first Ptr) Launch {
	return Launch{
		Module: "search", Name: "first_above", Grid: [3]int{1, 1, 1}, Block: [3]int{searchThreads, 1, 1},
		Args: []uint64{run, sum, I(queries), flag(baseline), flag(least), first},
	}
}
