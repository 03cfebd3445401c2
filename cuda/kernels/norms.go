package kernels

// NormGhost adds the squared norm of each live example's gradient of a dense
// layer to its squared norms, norm2[example·groups + group], float64:
//
//	‖δ‖²·(‖x‖² + 1)   with a bias,   ‖δ‖²·‖x‖²   without.
//
// x is float32 [example][in], δ float32 [example][out], rows xStride and
// deltaStride elements apart. Squares are exact in float64 and added there, element i in
// lane i mod 128, in order, then the lanes in a tree of halves: a relative
// error below γ(n/128+12) with u = 2⁻⁵³, n the longer row, which the margin of the
// factors covers (docs/numerics.md: nothing beyond the margin). Dead examples' norms
// stay as they are.
func NormGhost(run, x Ptr, in, xStride int, delta Ptr, out, deltaStride int, bias bool, norm2 Ptr, groups, group, capacity int) Launch {
	return Launch{
		Module: "norms", Name: "norm_ghost", Grid: line(capacity), Block: line(128),
		Args: []uint64{run, x, I(in), I(xStride), delta, I(out), I(deltaStride), I(flag(bias)), norm2, I(groups), I(group)},
	}
}

// NormStored adds the squared norm of n stored gradient values of each live
// example, float32 [example] in rows stride elements apart, to norm2 in the same
// way. Nothing beyond the margin, for what it measures is what Combine scales.
func NormStored(run, grads Ptr, n, stride int, norm2 Ptr, groups, group, capacity int) Launch {
	return Launch{
		Module: "norms", Name: "norm_stored", Grid: line(capacity), Block: line(128),
		Args: []uint64{run, grads, I(n), I(stride), norm2, I(groups), I(group)},
	}
}
