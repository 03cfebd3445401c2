// Package vec holds the elementwise kernels and the sums of the CPU device, on one goroutine.
//
// Elementwise functions work on the length of dst; every input is at least as long, and dst may be one of them. An
// element's bits depend on its inputs alone, not on its place or on how a vector was cut. Sums depend on the length
// and the values, and have the same bits on every processor. What belongs to a column of a matrix, a sum in float32 or an
// element, depends on that column alone, from its first row to its last. On a processor without AVX2 and FMA, and under the
// build tag noasm, elementwise results may differ in the last place, and so may every addition of a product in a column's sum.
//
// An input that is too short fails as an index out of range does, before anything is written.
package vec

import "unsafe"

//go:generate go run -C ../gen .

// Tanh sets dst[i] = tanh(x[i]) within 3e-7 of its value; a zero keeps its sign and NaN stays NaN.
func Tanh(dst, x []float32) {
	fits(len(dst), len(x))
	use.tanh(dst, x)
}

// Sigmoid sets dst[i] = 1/(1+exp(-x[i])) within 3e-7 of its value, or 2e-45 where that is more; NaN stays NaN.
func Sigmoid(dst, x []float32) {
	fits(len(dst), len(x))
	use.sigmoid(dst, x)
}

// ReLU sets dst[i] = x[i], and 0 where x[i] < 0; NaN stays NaN.
func ReLU(dst, x []float32) {
	fits(len(dst), len(x))
	use.relu(dst, x)
}

// TanhGrad sets dst[i] = g[i]·(1−y[i]²), where y is the output of Tanh.
func TanhGrad(dst, y, g []float32) {
	fits(len(dst), min(len(y), len(g)))
	use.tanhGrad(dst, y, g)
}

// SigmoidGrad sets dst[i] = g[i]·(y[i]−y[i]²), where y is the output of Sigmoid.
func SigmoidGrad(dst, y, g []float32) {
	fits(len(dst), min(len(y), len(g)))
	use.sigmoidGrad(dst, y, g)
}

// ReLUGrad sets dst[i] = g[i] where y[i] > 0 and 0 elsewhere, also where g[i] is NaN; y is the output of ReLU.
func ReLUGrad(dst, y, g []float32) {
	fits(len(dst), min(len(y), len(g)))
	use.reluGrad(dst, y, g)
}

// LeakyReLU sets dst[i] = x[i], and a·x[i] where x[i] < 0, for an a between 0 and 1; NaN stays NaN.
func LeakyReLU(dst, x []float32, a float32) {
	fits(len(dst), len(x))
	use.leakyRelu(dst, x, a)
}

// LeakyReLUGrad sets dst[i] = g[i] where y[i] > 0 and a·g[i] elsewhere; y is the output of LeakyReLU.
func LeakyReLUGrad(dst, y, g []float32, a float32) {
	fits(len(dst), min(len(y), len(g)))
	use.leakyReluGrad(dst, y, g, a)
}

// GELU sets dst[i] = x[i]·Φ(x[i]), where Φ is the distribution function of the standard normal distribution. It is within 7
// units in the last place, and within 5e-7 of its value, or 2e-45 where that is more. It has the sign of x[i], also where
// it is a zero, as for −∞. NaN stays NaN.
func GELU(dst, x []float32) {
	fits(len(dst), len(x))
	use.gelu(dst, x)
}

// GELUGrad sets dst[i] = g[i]·(Φ(x[i]) + x[i]·φ(x[i])), where x is the input of GELU and φ the density of the standard normal
// distribution, within 4e-7 of |g|·(Φ(x) + |x|·φ(x)), or 3e-45·(1+|g|) where that is more. At −∞ it is −0·g[i] and at +∞ g[i];
// NaN stays NaN.
func GELUGrad(dst, x, g []float32) {
	fits(len(dst), min(len(x), len(g)))
	use.geluGrad(dst, x, g)
}

// AddVec sets dst[i] += x[i].
func AddVec(dst, x []float32) {
	fits(len(dst), len(x))
	use.addVec(dst, x)
}

// Axpy sets dst[i] += a·x[i] in one rounding.
func Axpy(dst []float32, a float32, x []float32) {
	fits(len(dst), len(x))
	use.axpy(dst, x, a)
}

// Mix sets dst[i] = a·x[i] + b·y[i].
func Mix(dst []float32, a float32, x []float32, b float32, y []float32) {
	fits(len(dst), min(len(x), len(y)))
	use.mix(dst, x, y, a, b)
}

// Mul sets dst[i] = x[i]·y[i].
func Mul(dst, x, y []float32) {
	fits(len(dst), min(len(x), len(y)))
	use.mul(dst, x, y)
}

// MulAdd sets dst[i] = x[i]·y[i] + z[i] in one rounding.
func MulAdd(dst, x, y, z []float32) {
	fits(len(dst), min(len(x), len(y), len(z)))
	use.mulAdd(dst, x, y, z)
}

// Normalize sets dst[i] = (x[i] − centre)·scale + offset. The difference is rounded, and then all that follows once.
func Normalize(dst, x []float32, centre, scale, offset float32) {
	fits(len(dst), len(x))
	use.normalize(dst, x, centre, scale, offset)
}

// Descend sets dst[i] += a·(b·x[i] + c·dst[i]), with the bits of Mix and Axpy.
func Descend(dst []float32, a, b float32, x []float32, c float32) {
	fits(len(dst), len(x))
	use.descend(dst, x, a, b, c)
}

// MixSquares sets dst[i] = a·dst[i] + b·x[i]².
func MixSquares(dst []float32, a, b float32, x []float32) {
	fits(len(dst), len(x))
	use.mixSquares(dst, x, a, b)
}

// Modulus sets dst[i] = √(x[i]² + y[i]²).
func Modulus(dst, x, y []float32) {
	fits(len(dst), min(len(x), len(y)))
	use.modulus(dst, x, y)
}

// AddExcess sets dst[i] += max(a·x[i] − b, 0); NaN stays NaN.
func AddExcess(dst []float32, a float32, x []float32, b float32) {
	fits(len(dst), len(x))
	use.addExcess(dst, x, a, b)
}

// Adam sets dst[i] −= a·m[i]/(√max(b·v[i] − less, least) + c).
func Adam(dst []float32, a float32, m []float32, b float32, v []float32, less, least, c float32) {
	fits(len(dst), min(len(m), len(v)))
	use.adam(dst, m, v, a, b, less, least, c)
}

// Gated sets dst[i] = σ(g[i]+bg)·tanh(x[i]+bx) within 5e-7 of its value; the gate does not fall below σ(-87).
func Gated(dst, g []float32, bg float32, x []float32, bx float32) {
	fits(len(dst), min(len(g), len(x)))
	use.gated(dst, g, x, -bg, bx)
}

// Keep sets dst[i] = dst[i]·σ(f[i]+bf) + x[i] within 5e-7 of the terms' magnitudes; the gate does not fall below σ(-87).
func Keep(dst, f []float32, bf float32, x []float32) {
	fits(len(dst), min(len(f), len(x)))
	use.keep(dst, f, x, -bf)
}

// Scale multiplies every element by a.
func Scale(dst []float32, a float32) { use.scaled(dst, dst, a) }

// Scaled sets dst[i] = a·x[i].
func Scaled(dst []float32, a float32, x []float32) {
	fits(len(dst), len(x))
	use.scaled(dst, x, a)
}

// Bytes sets dst[i] = src[i]·scale + offset in one rounding.
func Bytes(dst []float32, src []uint8, scale, offset float32) {
	fits(len(dst), len(src))
	use.bytes(dst, src, scale, offset)
}

// Prefetch has x brought into the cache, where the processor takes such a hint. It waits for nothing.
func Prefetch[T uint8 | uint16 | float32](x []T) {
	if len(x) > 0 {
		use.prefetch(unsafe.Slice((*uint8)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0]))))
	}
}

// Halves sets dst[i] to the value of src[i], a half of IEEE 754; it is exact, and NaN stays NaN.
func Halves(dst []float32, src []uint16) {
	fits(len(dst), len(src))
	use.halves(dst, src)
}

// Sum returns Σ x[i], added in float64 within γ(n/32+6) Σ|x[i]|, where γ(n) = nu/(1−nu) and u = 2⁻⁵³.
func Sum(x []float32) float64 { return use.sum(x) }

// SumSquares returns Σ x[i]² within γ(n/32+6) of its value; the squares are exact and cannot overflow.
func SumSquares(x []float32) float64 { return use.sumSquares(x) }

// Dot returns Σ x[i]·y[i] over the length of x within γ(n/32+6) Σ|x[i]·y[i]|; the products are exact.
func Dot(x, y []float32) float64 {
	fits(len(x), len(y))
	return use.dot(x, y)
}

var nothing [1]struct{}

// fits fails unless n <= have.
func fits(n, have int) {
	if n > have {
		_ = nothing[n-have]
	}
}

// MaxPool2 pools rows by cols windows of 2×2 of a plane: y[i·cols+j] is the largest of x[k], x[k+1], x[k+width] and
// x[k+width+1], k = i·down + j·step, and arg[i·cols+j] where it stands, counted from at. step is 1 or 2. The first of
// equals wins; a NaN wins only as the very first.
func MaxPool2(y []float32, arg []int32, x []float32, rows, cols, width, down, step, at int) {
	if rows < 1 || cols < 1 {
		return
	}
	fits(rows*cols, min(len(y), len(arg)))
	fits((rows-1)*down+(cols-1)*step+width+2, len(x))
	fits(0, min(down, width-2))
	fits(step, 2)
	fits(1, step)
	use.maxPool2(y, arg, x, rows, cols, width, down, step, at)
}

// MaxUnpool2 is the gradient of MaxPool2 at step 2 and down 2·width: of every window, the element that arg names gets y
// and the others zero. Elements of x beside the windows keep what they hold.
func MaxUnpool2(x []float32, arg []int32, y []float32, rows, cols, width, at int) {
	if rows < 1 || cols < 1 {
		return
	}
	fits(rows*cols, min(len(y), len(arg)))
	fits((2*rows-1)*width+2*cols, len(x))
	fits(2*cols, width)
	use.maxUnpool2(x, arg, y, rows, cols, width, at)
}

// AddUnpool2 adds the gradient of MaxPool2 at step 1, of rows of cols+1 elements, which wrote arg: x[arg[k]-at] += y[k],
// window after window. Unless accumulate is set, what the windows cover is zero before.
func AddUnpool2(x []float32, arg []int32, y []float32, rows, cols, at int, accumulate bool) {
	if rows < 1 || cols < 1 {
		return
	}
	fits(rows*cols, min(len(y), len(arg)))
	width := cols + 1
	fits((rows+1)*width, len(x))
	// Kernels load and store eight elements, which must not reach beyond the next row, and would wait for stores to narrower ones.
	if use.addUnpool2 != nil && width >= 8 {
		use.addUnpool2(x, arg, y, rows, cols, at, accumulate)
		return
	}
	if !accumulate {
		clear(x[:(rows+1)*width])
	}
	for k, a := range arg[:rows*cols] {
		x[int(a)-at] += y[k]
	}
}

// kernels is one implementation of the package; the lengths have been checked.
type kernels struct {
	tanh, sigmoid, relu             func(dst, x []float32)
	tanhGrad, sigmoidGrad, reluGrad func(dst, y, g []float32)
	gelu                            func(dst, x []float32)
	geluGrad                        func(dst, x, g []float32)
	leakyRelu                       func(dst, x []float32, a float32)
	leakyReluGrad                   func(dst, y, g []float32, a float32)
	addVec                          func(dst, x []float32)
	axpy, scaled                    func(dst, x []float32, a float32)
	mix                             func(dst, x, y []float32, a, b float32)
	mul                             func(dst, x, y []float32)
	mulAdd                          func(dst, x, y, z []float32)
	descend, normalize              func(dst, x []float32, a, b, c float32)
	mixSquares                      func(dst, x []float32, a, b float32)
	modulus                         func(dst, x, y []float32)
	addExcess                       func(dst, x []float32, a, b float32)
	adam                            func(dst, x, y []float32, a, b, less, least, c float32)
	gated                           func(dst, g, x []float32, ng, bx float32) // ng and nf are minus the biases
	keep                            func(dst, f, x []float32, nf float32)
	bytes                           func(dst []float32, src []uint8, scale, offset float32)
	prefetch                        func(x []uint8)
	halves                          func(dst []float32, src []uint16)
	maxPool2                        func(y []float32, arg []int32, x []float32, rows, cols, width, down, step, at int)
	maxUnpool2                      func(x []float32, arg []int32, y []float32, rows, cols, width, at int)
	addUnpool2                      func(x []float32, arg []int32, y []float32, rows, cols, at int, accumulate bool) // of rows of eight or more; nil: there is none
	copyRuns, addRuns               func(dst, src []float32, list []int32)
	addLines, addShortLines         func(dst, src []float32, list []int32, groups int) // nil: there is none
	gather2, scatter2               func(dst, src []float32, list []int32)
	sum, sumSquares                 func(x []float32) float64
	dot                             func(x, y []float32) float64
	addColumns                      func(sum, slope, x, y []float32, rows int) // rows of one value or more, and one row or more
	mixColumns                      func(dst, a, b, x, c []float32, rows int)  // likewise
	hadamard                        func(x []float32, columns int)             // of eight rows
	squareColumns                   func(sum []float64, d, x []float32)
	gridSum                         func(sum, squares []float64, d, x []float32, stride int, scale []float64)
}

var use = best()
