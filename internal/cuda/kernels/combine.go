package kernels

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
	l := line("combine", "combine", ceil(n, warp), 16*warp, b.args(factors, kept, I(stride), I(n), sum)...)
	if fours := stride%4 == 0 && n%4 == 0 && kept%16 == 0; fours && n >= combineMany {
		l.Name, l.Grid[0], l.Block[0] = "combine_fours", ceil(n, 4*warp), 8*warp
	}
	return l
}

// combineMany columns keep a large GPU busy by fours, with half the threads and a quarter of the blocks.
const combineMany = 4 * warp * 2 * processors
