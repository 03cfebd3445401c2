package kernels

import "github.com/privgrad/privgrad/internal/ir"

// gridThreads work on one example's gradient.
const gridThreads = 256

// GridScale is host.Scale bit for bit, for exact nets: what each
// example's whole gradient is multiplied by before it is truncated to integers,
// its clipping factor over the grid step γ of the run's Clip. kept is float32,
// n values from kept[b·stride] on, all parameters of the example. scale is
// float64 [example].
//
// It is 0 for an example that counts as zero: with a target that the loss does
// not accept, a norm that is not finite, or integers whose Σk², computed
// exactly, is above (C/γ)². Dead examples get 0.
//
// The norm is added as host.Scale does, in the order of kept, so that devices whose
// gradients have equal bits and lie in one order release equal bits.
func GridScale(b Batch, kept Ptr, stride, n int, loss ir.Loss, outputs int, targets, scale Ptr) Launch {
	return line("exact", "grid_scale", b.Capacity, gridThreads, b.args(kept, I(stride), I(n), I(int(loss)), I(outputs), targets, scale)...)
}

// GridCombine adds truncated gradients to integers:
//
//	sum[i] += Σ_b trunc(kept[b·stride + i] · scale[b]),   i < n,
//
// over the live examples whose scale is above zero. The product is rounded once to
// float64, as in GridScale. sum is int64; no addition rounds.
func GridCombine(b Batch, scale, kept Ptr, stride, n int, sum Ptr) Launch {
	return line("exact", "grid_combine", ceil(n, warp), 16*warp, b.args(scale, kept, I(stride), I(n), sum)...)
}
