package kernels

// Of a record several views may go through the network. An example is then a view, and the views of a record lie one behind the
// other: record b of a batch has examples b·views … b·views+views−1, and a batch of records that begins at First is one of
// examples that begins at First·views. Examples have a run of their own.

const viewThreads = 256 // views.cu has the same

// ViewRunBytes is the memory of a run of so many rows that brings so many words for each: those of all live rows lie behind the live
// rows, a row's one after the other.
func ViewRunBytes(rows, words int) int { return RunBytes + 4*rows*(1+words) }

// ViewRun makes the run of examples of one of at most capacity records: all of its inputs, with views times as many live rows, each
// row number views times, and, where words is set, the words of the views behind them, one for each example. Where a unit has as many
// rows of the table as views, and not one, example k of a unit has row unit·rows + k.
func ViewRun(run Ptr, capacity, views, rows int, words bool, examples Ptr) Launch {
	return line("views", "view_run", ceil(max(capacity*views, RunBytes/4), viewThreads), viewThreads, run, I(capacity), I(views), I(rows), flag(words), examples)
}

// ViewTargets writes the targets of records, targets[b] = of[b·views], and NaN for dead ones.
func ViewTargets(b Batch, views int, of, targets Ptr) Launch {
	return line("views", "view_targets", ceil(b.Capacity, viewThreads), viewThreads, b.args(I(views), of, targets)...)
}

// ViewMean completes the gradients of records, b being a batch of these: n values each,
//
//	kept[b·keptStride + i] = (1/views) · Σ_k of[(b·views+k)·stride + i],
//
// added in float64 in the order of the views and rounded once to float32, and adds the squared norm of what is kept to norm2[b],
// float64; norm2 0 is none. Strides count float32 values. Element i belongs to thread i mod 256, in order, and the threads are
// added in a tree of halves: the relative error of the norm is below γ(n/256+9) with u = 2⁻⁵³. What is not finite in any view is
// not finite in the mean, or is no number there, so that the record counts as zero.
func ViewMean(b Batch, views, n int, of Ptr, stride int, kept Ptr, keptStride int, norm2 Ptr) Launch {
	return line("views", "view_mean", b.Capacity, viewThreads, b.args(I(views), I(n), of, I(stride), kept, I(keptStride), norm2)...)
}
