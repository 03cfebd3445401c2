package kernels

const shiftThreads = 256

// Shift sets dst[j] = at[j] − η·dir[j], j < n, for step size number i of the run's Candidates: one fused
// operation. A step size of 0 copies at, whatever dir holds.
func Shift(run Ptr, i int, at, dir Ptr, n int, dst Ptr) Launch {
	return line("shift", "shift", ceil(n, shiftThreads), shiftThreads, run, I(i), at, dir, I(n), dst)
}
