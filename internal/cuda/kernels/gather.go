package kernels

// gatherThreads is the block of the gather. A thread reads four elements of one row at once.
const gatherThreads = 256

// Gather reads the run's rows of a table: x[b][j] = table[row][j] as a float32, and
// t[b] = targets[row]. Dead rows up to the capacity get zeros, and NaN as their target,
// which no loss accepts. Rows whose width is a multiple of four begin at addresses for reads of four.
func Gather(b Batch, table *Table, x, t Ptr) Launch {
	return Launch{
		Module: "gather", Name: "gather",
		Grid: [3]int{b.Capacity, ceil(table.Width, 4*gatherThreads), 1}, Block: [3]int{gatherThreads, 1, 1},
		Args: b.args(append(table.args(), x, t)...),
	}
}

// GatherViews is Gather of views: example b of a run that brings a word for each is the record's row as its maps change it, in their
// order, by the word of the example. What lies in the table changes first, and a row without a target has zeros in every view.
func GatherViews(b Batch, table *Table, drawn Drawn, x, t Ptr) Launch {
	return Launch{
		Module: "gather", Name: "gather_view",
		Grid: [3]int{b.Capacity, ceil(table.Width, gatherThreads), 1}, Block: [3]int{gatherThreads, 1, 1},
		Args: b.args(append(append(table.args(), drawn.args()...), x, t)...),
	}
}
