package kernels

// gatherThreads is the block of the gather: the elements of one row that it reads at once.
const gatherThreads = 256

// Gather reads the run's rows of a table: x[b][j] = fma(table[row][j], scale, offset)
// over rows of width bytes, and t[b] = targets[row]. Dead rows up to the capacity get
// zeros, and NaN as their target, which no loss accepts.
func Gather(b Batch, table, targets Ptr, width int, scale, offset float32, x, t Ptr) Launch {
	return Launch{
		Module: "gather", Name: "gather",
		Grid: [3]int{b.Capacity, ceil(width, gatherThreads), 1}, Block: [3]int{gatherThreads, 1, 1},
		Args: b.args(table, targets, I(width), F(scale), F(offset), x, t),
	}
}
