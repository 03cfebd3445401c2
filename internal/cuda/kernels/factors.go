package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Factors computes each example's clipping factors from its squared norms, bit
// for bit those of host.Factors[float32], with the run's Clip. norm2 is float64
// [group][part][example], of which the parts are added (part i in lane i mod 32, in order, and the lanes in a tree of halves), then the norms of ghosts, as NormGhosts computes them; factors float32 [group][example], b.Capacity examples each.
//
// An example that counts as zero, because one of its norms is not finite or its
// target is not accepted by the loss, gets factors of 0, as do dead examples.
// Whoever scales by a factor must leave a factor of 0 out rather than multiply:
// what it would multiply may be no number. Norms are not read under Unclipped.
//
// within, unless 0, is int32 [example]: under flat clipping twice the example's
// share of the count of Queue.CountedSum, 1 for a factor of 1, −1 for a smaller
// one, 0 for an example that counts as zero or is dead.
func Factors(b Batch, clipping ir.Clipping, groups, parts int, norm2 Ptr, loss ir.Loss, outputs int, targets, factors, within Ptr, ghosts ...Ghost) Launch {
	l := line("factors", "factors", b.Capacity, warp*2*MostGhosts, b.args(I(int(clipping)), I(groups), I(parts), norm2, I(int(loss)), I(outputs), targets, factors, within, I(len(ghosts)))...)
	l.Args = append(l.Args, ghostArgs(ghosts, func(i int) uint64 { return I(ghosts[i].Group) })...)
	return l
}

// Count adds half the sum of within over the live examples to the float64 at
// count. The sum is one of integers: nothing rounds.
func Count(b Batch, within, count Ptr) Launch {
	return line("factors", "count", 1, sumThreads, b.args(within, count)...)
}
