// Package wavelets has the filters of the scattering transform (Bruna and Mallat 2013): wavelets, and averages over a grid.
package wavelets

import (
	"math"
	"math/cmplx"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/ir"
)

// Morlet has wavelets of scale 2ʲ, of side×side taps, at so many angles: a wave under an envelope across its
// direction, less as much of the envelope as brings the sum to zero. Rows are the real parts, then the imaginary ones.
func Morlet(angles, scale, side int) gemm.Matrix {
	slant := 4. / float64(angles)
	deviation, frequency := .8*float64(int(1)<<scale), 3*math.Pi/4/float64(int(1)<<scale)
	m := gemm.RowMajor(make([]float32, 2*angles*side*side), 2*angles, side*side)
	wave := make([]complex128, side*side)
	envelope := make([]float64, side*side)
	for a := range angles {
		sin, cos := math.Sincos(math.Pi * float64(a) / float64(angles))
		var sum complex128
		area := 0.
		for i := range envelope {
			y, x := float64(i/side)-float64(side-1)/2, float64(i%side)-float64(side-1)/2
			u, v := x*cos+y*sin, slant*(y*cos-x*sin)
			envelope[i] = math.Exp(-(u*u+v*v)/(2*deviation*deviation)) * slant / (2 * math.Pi * deviation * deviation)
			wave[i] = cmplx.Rect(envelope[i], frequency*u)
			sum += wave[i]
			area += envelope[i]
		}
		for i, w := range wave {
			w -= sum * complex(envelope[i]/area, 0)
			m.Data[a*side*side+i], m.Data[(angles+a)*side*side+i] = float32(real(w)), float32(imag(w))
		}
	}
	return m
}

// Average is a matrix from a plane to a grid: a Gaussian window of a margin by
// reflection at every stride, then the mean over pool by pool positions.
func Average(height, width, side, stride int, deviation float64, pool int) gemm.Matrix {
	axis := func(n int) []float64 {
		line := make([]float64, n/stride/pool*n)
		window, sum := make([]float64, side), 0.
		for k := range window {
			d := float64(k) - float64(side-1)/2
			window[k] = math.Exp(-d * d / (2 * deviation * deviation))
			sum += window[k]
		}
		for o := range n / stride {
			for k, w := range window {
				line[o/pool*n+ir.Reflected(o*stride+k-(side-stride)/2, n)] += w / sum / float64(pool)
			}
		}
		return line
	}
	down, across := axis(height), axis(width)
	rows, cols := height/stride/pool, width/stride/pool
	m := gemm.RowMajor(make([]float32, height*width*rows*cols), height*width, rows*cols)
	for i := range height * width {
		for o := range rows * cols {
			m.Data[i*rows*cols+o] = float32(down[o/cols*height+i/width] * across[o%cols*width+i%width])
		}
	}
	return m
}
