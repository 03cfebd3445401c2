// Package collective is what the processes of one run do together: they add up what each
// has, and tell each other what all must know. It knows nothing of training.
package collective

// Group is the processes of a run, numbered from 0: its ranks. All ranks make the same
// calls in the same order, and each call returns when all have made it. A Group is used
// by one goroutine at a time.
//
// Any failure is final: the run cannot go on without one of its ranks. A call that fails
// on one rank fails on all, at the latest after the group's time limit; every later call
// gives the first error.
type Group interface {
	Rank() int
	Size() int
	// SumInt64 puts the sum over all ranks in the place of each value. Integers add up to
	// the same bits on every rank, in whatever order; callers bound them, so that none overflows.
	SumInt64(values []int64) error
	// SumFloat64 is SumInt64 of floats, which gives every rank the same bits, and other
	// bits for another number of ranks.
	SumFloat64(values []float64) error
	// Broadcast gives every rank what root has in data, whose length is the same on all.
	Broadcast(root int, data []byte) error
	Barrier() error
	// Abort ends the group with an error of this rank's, of which the others are told as
	// far as they can be reached.
	Abort(error)
	Close() error
}
