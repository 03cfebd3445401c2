package kernels

const shiftThreads = 256

// Shift sets dst[j] = at[j] − η·dir[j], j < n, for step size number i of the run's Candidates: one fused
// operation. A step size of 0 copies at, whatever dir holds.
func Shift(run Ptr, i int, at, dir Ptr, n int, dst Ptr) Launch {
	return Launch{
		Module: "shift", Name: "shift", Grid: [3]int{ceil(n, shiftThreads), 1, 1}, Block: [3]int{shiftThreads, 1, 1},
		Args: []uint64{run, I(i), at, dir, I(n), dst},
	}
}
