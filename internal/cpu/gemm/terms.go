package gemm

// Terms is the n of the bound γ(n)·Σ|a||b| on the error of an element whose row of A and column of B have k values: a
// block's chain, with the rounding of a product where it is not fused, and the additions of blocks.
func Terms(k int) int {
	if k == 0 {
		return 0
	}
	step := blockLen(k)
	return min(step, k) + (k+step-1)/step + 1
}
