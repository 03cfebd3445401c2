package kernels

// combineColumns values are added by combineRows threads each.
const (
	combineColumns = 32
	combineRows    = 16
)

// Combine adds the clipped gradients that were kept to a sum:
//
//	sum[i] += Σ_b factors[b] · kept[b·stride + i],   i < n,
//
// over the live examples whose factor is above zero; what the others hold, NaN
// included, changes nothing. kept and factors are float32, sum is float64.
//
// Blocks of ExampleBlock examples are added in order in float32, one fused operation an
// example, beginning with 0; the blocks are added to the sum in float64, in
// order. So an example's share passes at most ExampleBlock roundings of float32.
func Combine(b Batch, factors, kept Ptr, stride, n int, sum Ptr) Launch {
	return Launch{
		Module: "combine", Name: "combine", Grid: [3]int{ceil(n, combineColumns), 1, 1}, Block: [3]int{combineColumns * combineRows, 1, 1},
		Args: b.args(factors, kept, I(stride), I(n), sum),
	}
}
