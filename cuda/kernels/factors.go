package kernels

import "github.com/privgrad/privgrad/internal/plan"

// Factors computes each live example's clipping factors from its squared norms, bit
// for bit those of host.Factors[float32], with the run's Clip. norm2 is float64
// [example][groups], factor float32 [example][groups].
//
// An example that counts as zero, because one of its norms is not finite or its
// target is not accepted by the loss, gets factors of 0, as do dead examples up to capacity.
// Whoever scales by a factor must leave a factor of 0 out rather than multiply:
// what it would multiply may be no number. Norms are not read under Unclipped.
//
// within, unless 0, is int32 [example]: under flat clipping twice the example's
// share of the count of Queue.CountedSum, 1 for a factor of 1, −1 for a smaller
// one, 0 for an example that counts as zero or is dead.
func Factors(run Ptr, clipping plan.Clipping, groups int, norm2 Ptr, loss plan.Loss, outputs int, targets, factor, within Ptr, capacity int) Launch {
	return Launch{
		Module: "factors", Name: "factors", Grid: line(blocks(capacity, 64)), Block: line(64),
		Args: []uint64{run, I(int(clipping)), I(groups), norm2, I(int(loss)), I(outputs), targets, factor, within, I(capacity)},
	}
}

// Count adds half the sum of within over the live examples to the float64 at
// count. The sum is one of integers: nothing rounds.
func Count(run, within, count Ptr) Launch {
	return Launch{
		Module: "factors", Name: "count", Grid: line(1), Block: line(128),
		Args: []uint64{run, within, count},
	}
}
