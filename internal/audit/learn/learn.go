// Package learn is what an adversary works out from runs of which it knows whether they hold
// the canary. It judges other runs by it, so that nothing it learns can make a verdict wrong.
package learn

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

const (
	// mostCoordinates bounds what is learned about: every pair of them has a covariance.
	mostCoordinates = 1024
	// samplesPerCoordinate are enough. From n samples in d dimensions, the squared distance of two
	// worlds comes out about d/n too small.
	samplesPerCoordinate, fewestPerCoordinate = 16, 8
	// block is how many samples are added at once.
	block = 64
)

// Covariance is that of neighbouring coordinates of what is released without the canary, around 0.
type Covariance struct {
	first, width int // its coordinates
	most         int // samples
	pending      blas64.General
	samples      int
	sums         blas64.Symmetric
}

// Coordinates are those that so many samples in all tell of: neighbours, where the canary's share
// is longest.
func Coordinates(share []float32, samples int) (first, width int) {
	width = max(min(len(share), samples/fewestPerCoordinate, mostCoordinates), 1)
	sum, longest := 0.0, -1.0
	for i, x := range share {
		sum += float64(x) * float64(x)
		if i >= width {
			sum -= float64(share[i-width]) * float64(share[i-width])
		}
		if i+1 >= width && sum > longest {
			first, longest = i+1-width, sum
		}
	}
	return first, width
}

// NewCovariance is of some coordinates. Each of several, of a whole of so many parts, sees its own samples.
func NewCovariance(first, width, parts int) *Covariance {
	return &Covariance{
		first: first, width: width, most: (samplesPerCoordinate*width + parts - 1) / parts,
		pending: blas64.General{Cols: width, Stride: width, Data: make([]float64, block*width)},
		sums:    blas64.Symmetric{N: width, Stride: width, Data: make([]float64, width*width), Uplo: blas.Upper},
	}
}

// Add takes in a sample of all coordinates, unless there are enough.
func (c *Covariance) Add(sample []float64) {
	if c.samples == c.most {
		return
	}
	copy(c.pending.Data[c.pending.Rows*c.width:], sample[c.first:c.first+c.width])
	c.samples++
	if c.pending.Rows++; c.pending.Rows == block {
		c.flush()
	}
}

func (c *Covariance) flush() {
	if c.pending.Rows > 0 {
		blas64.Syrk(blas.Trans, 1, c.pending, 1, c.sums)
	}
	c.pending.Rows = 0
}

// Merge takes in what another of the same coordinates has seen.
func (c *Covariance) Merge(other *Covariance) {
	c.flush()
	other.flush()
	for i, x := range other.sums.Data {
		c.sums.Data[i] += x
	}
	c.samples += other.samples
}

// Whiten gives Σ⁻¹·share: the direction along which a normal release of covariance Σ tells best
// whether it holds the share. The other coordinates are taken for independent, of the claimed
// variance. The floor is that of a variance, where there is no noise.
func (c *Covariance) Whiten(share []float32, variance, floor float64) ([]float32, error) {
	c.flush()
	all := mat.NewSymDense(c.width, nil)
	for i := range c.width {
		for j := i; j < c.width; j++ {
			all.SetSym(i, j, c.sums.Data[i*c.width+j]/float64(max(c.samples, 1)))
		}
		all.SetSym(i, i, all.At(i, i)+floor)
	}
	part := mat.NewVecDense(c.width, nil)
	for i := range c.width {
		part.SetVec(i, float64(share[c.first+i]))
	}
	var factor mat.Cholesky
	if !factor.Factorize(all) {
		return nil, errors.New("the covariance of the releases is no covariance: their values are too large or too small; change --noise-multiplier or --clip")
	}
	// An ill condition is what is looked for, and the floor bounds it.
	var solved mat.VecDense
	if err := factor.SolveVecTo(&solved, part); err != nil && !errors.As(err, new(mat.Condition)) {
		return nil, err
	}
	weights := make([]float32, len(share))
	for i, x := range share {
		weights[i] = float32(float64(x) / variance)
	}
	for i := range c.width {
		weights[c.first+i] = float32(solved.AtVec(i))
	}
	if slices.ContainsFunc(weights, func(w float32) bool { return math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) }) {
		return nil, errors.New("the whitened canary is too long for single precision: give a larger --clip")
	}
	return weights, nil
}
