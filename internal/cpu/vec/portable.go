package vec

import (
	"math"

	"github.com/privgrad/privgrad/internal/half"
)

// portable is the implementation without assembly.
var portable = kernels{
	tanh: func(dst, x []float32) {
		for i := range dst {
			dst[i] = float32(math.Tanh(float64(x[i])))
		}
	},
	sigmoid: func(dst, x []float32) {
		for i := range dst {
			dst[i] = float32(1 / (1 + math.Exp(-float64(x[i]))))
		}
	},
	relu: func(dst, x []float32) {
		for i := range dst {
			if v := x[i]; v < 0 {
				dst[i] = 0
			} else {
				dst[i] = v
			}
		}
	},
	tanhGrad: func(dst, y, g []float32) {
		for i := range dst {
			dst[i] = g[i] * fma(-y[i], y[i], 1)
		}
	},
	sigmoidGrad: func(dst, y, g []float32) {
		for i := range dst {
			dst[i] = g[i] * fma(-y[i], y[i], y[i])
		}
	},
	reluGrad: func(dst, y, g []float32) {
		for i := range dst {
			if y[i] > 0 {
				dst[i] = g[i]
			} else {
				dst[i] = 0
			}
		}
	},
	leakyRelu: func(dst, x []float32, a float32) {
		for i := range dst {
			if v := x[i]; v < 0 {
				dst[i] = a * v
			} else {
				dst[i] = v
			}
		}
	},
	leakyReluGrad: func(dst, y, g []float32, a float32) {
		for i := range dst {
			if y[i] > 0 {
				dst[i] = g[i]
			} else {
				dst[i] = a * g[i]
			}
		}
	},
	gelu: func(dst, x []float32) {
		for i := range dst {
			v := max(float64(x[i]), -20) // no product of −∞ and 0
			dst[i] = float32(v * normal(v))
		}
	},
	geluGrad: func(dst, x, g []float32) {
		for i := range dst {
			v := min(max(float64(x[i]), -20), 20)
			dst[i] = g[i] * float32(normal(v)+v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
		}
	},
	addVec: func(dst, x []float32) {
		for i := range dst {
			dst[i] += x[i]
		}
	},
	axpy: func(dst, x []float32, a float32) {
		for i := range dst {
			dst[i] = fma(a, x[i], dst[i])
		}
	},
	mix: func(dst, x, y []float32, a, b float32) {
		for i := range dst {
			dst[i] = fma(a, x[i], b*y[i])
		}
	},
	mul: func(dst, x, y []float32) {
		for i := range dst {
			dst[i] = x[i] * y[i]
		}
	},
	mulAdd: func(dst, x, y, z []float32) {
		for i := range dst {
			dst[i] = fma(x[i], y[i], z[i])
		}
	},
	normalize: func(dst, x []float32, centre, scale, offset float32) {
		for i := range dst {
			dst[i] = fma(x[i]-centre, scale, offset)
		}
	},
	descend: func(dst, x []float32, a, b, c float32) {
		for i := range dst {
			dst[i] = fma(a, fma(b, x[i], c*dst[i]), dst[i])
		}
	},
	mixSquares: func(dst, x []float32, a, b float32) {
		for i := range dst {
			dst[i] = fma(a, dst[i], b*(x[i]*x[i]))
		}
	},
	modulus: func(dst, x, y []float32) {
		for i := range dst {
			dst[i] = float32(math.Sqrt(float64(fma(y[i], y[i], x[i]*x[i]))))
		}
	},
	addExcess: func(dst, x []float32, a, b float32) {
		for i := range dst {
			if v := fma(a, x[i], -b); !(v <= 0) { // a NaN stays
				dst[i] += v
			}
		}
	},
	adam: func(dst, x, y []float32, a, b, less, least, c float32) {
		for i := range dst {
			v := float32(b*y[i]) - less
			if v < least { // a NaN stays
				v = least
			}
			dst[i] -= a * x[i] / (float32(math.Sqrt(float64(v))) + c)
		}
	},
	gated: func(dst, g, x []float32, ng, bx float32) {
		for i := range dst {
			dst[i] = float32(gate(g[i]-ng) * math.Tanh(float64(x[i]+bx)))
		}
	},
	keep: func(dst, f, x []float32, nf float32) {
		for i := range dst {
			dst[i] = float32(float64(dst[i])*gate(f[i]-nf) + float64(x[i]))
		}
	},
	scaled: func(dst, x []float32, a float32) {
		for i := range dst {
			dst[i] = a * x[i]
		}
	},
	copyRuns: func(dst, src []float32, list []int32) {
		for ; len(list) >= 3; list = list[3:] {
			copy(dst[list[0]:][:list[2]], src[list[1]:])
		}
	},
	addRuns: func(dst, src []float32, list []int32) {
		for ; len(list) >= 3; list = list[3:] {
			to, from := dst[list[0]:][:list[2]], src[list[1]:][:list[2]]
			for i, x := range from {
				to[i] += x
			}
		}
	},
	gather2:  func(dst, src []float32, list []int32) { gather(dst, src, list, 2) },
	scatter2: func(dst, src []float32, list []int32) { scatter(dst, src, list, 2) },
	maxPool2: func(y []float32, arg []int32, x []float32, rows, cols, width, down, step, at int) {
		for i := range rows {
			for j := range cols {
				k := i*down + j*step
				best, which := x[k], k
				for _, other := range [3]int{k + 1, k + width, k + width + 1} {
					if x[other] > best {
						best, which = x[other], other
					}
				}
				y[i*cols+j], arg[i*cols+j] = best, int32(at+which)
			}
		}
	},
	maxUnpool2: func(x []float32, arg []int32, y []float32, rows, cols, width, at int) {
		for i := range rows {
			clear(x[2*i*width:][:2*cols])
			clear(x[(2*i+1)*width:][:2*cols])
			for j := range cols {
				x[int(arg[i*cols+j])-at] = y[i*cols+j]
			}
		}
	},
	prefetch: func([]uint8) {},
	bytes: func(dst []float32, src []uint8, scale, offset float32) {
		for i := range dst {
			dst[i] = fma(float32(src[i]), scale, offset)
		}
	},
	halves: func(dst []float32, src []uint16) {
		for i := range dst {
			dst[i] = half.ToFloat32(src[i])
		}
	},
	sum: func(x []float32) float64 {
		var l lanes
		for i, v := range x {
			l[i%len(l)] += float64(v)
		}
		return l.total()
	},
	sumSquares: func(x []float32) float64 {
		var l lanes
		for i, v := range x {
			l[i%len(l)] += float64(v) * float64(v)
		}
		return l.total()
	},
	dot: func(x, y []float32) float64 {
		var l lanes
		for i, v := range x {
			l[i%len(l)] += float64(v) * float64(y[i])
		}
		return l.total()
	},
	addColumns:    addColumns,
	mixColumns:    mixColumns,
	hadamard:      func(x []float32, columns int) { hadamard8(x, columns, 0) },
	squareColumns: squareColumns,
	gridSum:       gridSum,
}

func gate(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }

// normal is the distribution function of the standard normal distribution.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// fma is a·b + c: the product is exact in float64.
func fma(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

// lanes are the partial sums of a vector: element i belongs to lane i mod 32.
type lanes [32]float64

// total adds the lanes in a tree of halves.
func (l *lanes) total() float64 {
	for w := len(l) / 2; w > 0; w /= 2 {
		for i := range w {
			l[i] += l[i+w]
		}
	}
	return l[0]
}
