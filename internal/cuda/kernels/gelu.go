package kernels

// Errors in units in the last place: of GELU, and of its derivative, where the unit is that of Φ(x) + |x|·φ(x), as the two terms cancel near x = −0.75.
// Over all float32 x between −15 and 15 the largest are 4.41 and 3.56.
const (
	GELUError     = 4.5
	GELUGradError = 4
)

func gelu(name string, b Batch, size int, args ...uint64) Launch {
	return line("gelu", name, ceil(b.Capacity*size, pointwiseThreads), pointwiseThreads, append(b.args(args...), I(size))...)
}

// GELU is y = x·Φ(x) = ½x·(1+erf(x/√2)) for the size elements of each example, within GELUError units in the last place: also far
// below zero, where y is −|x|·Φ(−|x|), and −0 at −∞. NaN stays NaN.
func GELU(b Batch, size int, x, y Ptr) Launch { return gelu("gelu_forward", b, size, x, y) }

// GELUGrad is dx = dy·(Φ(x) + x·φ(x)), from the input x. The derivative errs by at most GELUGradError units in the last place of Φ(x) + |x|·φ(x); it is
// 0 at −∞ and 1 at +∞. Where add is set, the product is added to what dx has.
func GELUGrad(b Batch, size int, x, dy, dx Ptr, add bool) Launch {
	return gelu("gelu_grad", b, size, x, dy, dx, flag(add))
}
