package pld

import (
	"math"
	"math/bits"
)

// ulp is the unit roundoff of float64, 2⁻⁵³.
const ulp = 1.0 / (1 << 53)

// A transform is a discrete Fourier transform of a power-of-two length.
//
// Every output of it is a sum over the inputs in which each input has passed
// through log₂N butterflies. A butterfly multiplies by a factor 1+ε with
// |ε| ≤ u for the sum, √5·u for the complex product (Brent, Percival and
// Zimmermann 2007) and, generously, 4u for the twiddle factor. Hence the
// computed output is Σ xₙwⁿᵏ(1+εₙₖ) with |εₙₖ| ≤ (1+7.3u)^{log₂N}−1, and its
// error is at most fftError·log₂N·Σ|xₙ|.
type transform struct {
	n    int
	log2 int
	w    []complex128 // e^{−2πik/n}, k < n/2
}

const fftError = 8 * ulp

func newTransform(log2 int) *transform {
	n := 1 << log2
	t := &transform{n, log2, make([]complex128, n/2)}
	for k := range t.w {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
		t.w[k] = complex(cos, -sin)
	}
	return t
}

// forward transforms x in place; the output is in bit-reversed order.
func (t *transform) forward(x []complex128) {
	for half, stride := t.n/2, 1; half > 0; half, stride = half/2, stride*2 {
		for start := 0; start < t.n; start += 2 * half {
			a, b := x[start:start+half], x[start+half:start+2*half]
			for i, u := range a {
				v, w := b[i], t.w[i*stride]
				a[i] = u + v
				d := u - v
				b[i] = complex(real(d)*real(w)-imag(d)*imag(w), real(d)*imag(w)+imag(d)*real(w))
			}
		}
	}
}

// backward is the inverse of forward, times n: bit-reversed in, natural out.
func (t *transform) backward(x []complex128) {
	for half, stride := 1, t.n/2; half < t.n; half, stride = half*2, stride/2 {
		for start := 0; start < t.n; start += 2 * half {
			a, b := x[start:start+half], x[start+half:start+2*half]
			for i, u := range a {
				v, w := b[i], t.w[i*stride]
				v = complex(real(v)*real(w)+imag(v)*imag(w), imag(v)*real(w)-real(v)*imag(w))
				a[i] = u + v
				b[i] = u - v
			}
		}
	}
}

// opposite is where the frequency −k lies if k lies at position j of the
// bit-reversed order: reversed within the block [2^m, 2^{m+1}).
func opposite(j int) int {
	if j < 2 {
		return j
	}
	top := 1 << (bits.Len(uint(j)) - 1)
	return 3*top - 1 - j
}
