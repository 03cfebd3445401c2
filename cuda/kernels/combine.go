package kernels

// Combine adds the clipped gradients that were kept to a sum:
//
//	sum[i] += Σ factor[example·groups + group] · grads[example·stride + i],   i < n,
//
// over the live examples whose factor is not 0; what the others hold is not
// read. grads, factor and sum are float32.
//
// Blocks of 32 examples are added in order in float32, one fused operation an
// example, beginning with 0; the blocks' sums in order in float64; the total is added to
// sum in float64 and rounded once. An example's share passes at most 32 roundings of
// float32 in its block and one with the sum.
func Combine(run, factor Ptr, groups, group int, grads Ptr, stride, n int, sum Ptr) Launch {
	return Launch{
		Module: "combine", Name: "combine", Grid: line(blocks(n, 32)), Block: [3]int{32, 8, 1},
		Args: []uint64{run, factor, I(groups), I(group), grads, I(stride), I(n), sum},
	}
}
