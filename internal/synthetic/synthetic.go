// Package synthetic draws images that resemble natural ones in their statistics and
// come from a seed alone: dead leaves (Lee, Mumford and Huang 2001) and pink noise.
//
// They are the same bits on every machine. All arithmetic is float64 with operations
// that IEEE 754 rounds correctly; a product is converted before it is added to
// anything, which keeps the compiler from fusing the two.
package synthetic

import (
	"math"
	"math/rand/v2"
)

// A Source draws images of one shape.
type Source interface {
	// Draw writes image i of a seed: channels·height·width values in [0, 1], channel by
	// channel. It depends on nothing else, and a Source serves one goroutine.
	Draw(dst []float32, seed, i uint64)
}

// uniforms are numbers of [0, 1).
type uniforms struct{ pcg *rand.PCG }

func newUniforms(seed, i uint64) uniforms { return uniforms{rand.NewPCG(seed, i)} }

func (u uniforms) next() float64 { return float64(u.pcg.Uint64()>>11) / (1 << 53) }

// symmetric is uniform on [-1, 1).
func (u uniforms) symmetric() float64 { return u.next()*2 - 1 } // doubling is exact, fused or not

// direction is the cosine and sine of a uniform angle, without trigonometry.
func (u uniforms) direction() (cos, sin float64) {
	for {
		x, y := u.symmetric(), u.symmetric()
		square := float64(x*x) + float64(y*y)
		if square > 1 || square < 1e-6 {
			continue
		}
		length := math.Sqrt(square)
		return x / length, y / length
	}
}

func clamp(x float64) float64 { return min(max(x, 0), 1) }

// turns gives cos and sin of 2πk/n for every k below n. The functions of package math
// may differ between processors.
func turns(n int) (cos, sin []float64) {
	cos, sin = make([]float64, n), make([]float64, n)
	for k := range n {
		// Eighths of a turn: the series are summed at π/4 at most.
		eighth, rest := 8*k/n, 8*k%n
		if eighth%2 == 1 {
			rest = n - rest
		}
		x := math.Pi / 4 * float64(rest) / float64(n)
		c, s := series(x)
		if eighth%4 == 1 || eighth%4 == 2 {
			c, s = s, c
		}
		if eighth >= 2 && eighth < 6 {
			c = -c
		}
		if eighth >= 4 {
			s = -s
		}
		cos[k], sin[k] = c, s
	}
	return cos, sin
}

// series are the Taylor series of cos and sin, exact to rounding up to π/4.
func series(x float64) (cos, sin float64) {
	square := float64(x * x)
	cos, sin = 1, 1
	for n := 20.; n > 0; n -= 2 {
		cos = 1 - float64(square*cos)/(n*(n-1))
		sin = 1 - float64(square*sin)/(n*(n+1))
	}
	return cos, float64(x * sin)
}
