package features

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/synthetic"
	"github.com/privgrad/privgrad/internal/whiten"
	"github.com/privgrad/privgrad/internal/work"
)

// Whitening of channels: the same lower triangular matrix L⁻¹ at every position, where L·Lᵀ =
// A + d·m, with the covariance A of the channels over positions of synthetic images, its mean
// diagonal m, and a kind's damping d. Units of A are those of m, so that whitened channels have
// a variance of at most 1. Products of rows are those of any other root: a linear layer
// learns the same behind it.

const (
	whitenSeed   = 11
	whitenImages = 4000
	whitenShards = 16 // that goroutines work on; sums are in their order
	whitenFirst  = 50 // images of a provisional mean, about which the covariance is summed up
	whitenBatch  = 32 // positions of a product in float32, at least: few, as errors grow with them; products are added in float64
)

// moments are sums over positions of values less a provisional mean.
type moments struct {
	n             float64
	first, second []float64 // second has n·n elements
}

// fitWhitening gives the mean of the channels and the lower triangle of the matrix.
func fitWhitening(l layer, damp float64, from Whitening, shape [3]int, progress func(share float64)) (mean, lower []float32, err error) {
	mean, covariance, _, err := covarianceOf(l, from, shape, whitenImages, progress)
	if err != nil {
		return nil, nil, err
	}
	c := l.channels
	for i := range c {
		covariance[i*c+i] += damp
	}
	inverse := whiten.InverseFactor(covariance, c)
	if inverse == nil {
		return nil, nil, singular(shape, c)
	}
	for i := range c {
		for j := range i + 1 {
			lower = append(lower, float32(inverse.At(i, j)))
		}
	}
	return mean, lower, nil
}

func singular(shape [3]int, channels int) error {
	return fmt.Errorf("whitening images of %s: the covariance of %d channels has no inverse root; use other features or other images", shapeText(shape), channels)
}

// covarianceOf gives the mean of the channels, and their covariance over its mean diagonal.
func covarianceOf(l layer, from Whitening, shape [3]int, images int, progress func(share float64)) (mean []float32, covariance []float64, diagonal float64, err error) {
	about := provisionalMean(l, from.source(shape), shape)
	var total moments
	waiting := map[int]moments{} // until all before them are in total
	var lock sync.Mutex
	next, done := 0, 0
	err = work.Parallel(runtime.GOMAXPROCS(0), whitenShards, func() func(int) {
		source, maps := from.source(shape), l.worker()
		return func(i int) {
			shard := l.moments(about, source, maps, volume(shape), i*images/whitenShards, (i+1)*images/whitenShards)
			lock.Lock()
			defer lock.Unlock()
			for waiting[i] = shard; waiting[next].first != nil; next++ {
				total.add(waiting[next])
				delete(waiting, next)
			}
			done++
			progress(float64(done) / whitenShards)
		}
	})
	if err != nil {
		return nil, nil, 0, err
	}
	mean, covariance = total.covariance(about)
	c := l.channels
	for i := range c {
		diagonal += covariance[i*c+i] / float64(c)
	}
	if !(diagonal > 0) {
		return nil, nil, 0, singular(shape, c)
	}
	for i := range covariance {
		covariance[i] /= diagonal
	}
	return mean, covariance, diagonal, nil
}

// provisionalMean need not be exact: it keeps sums of squares from cancelling.
func provisionalMean(l layer, source synthetic.Source, shape [3]int) []float32 {
	maps := l.worker()
	image, out := make([]float32, volume(shape)), make([]float32, l.channels*l.rows*l.cols)
	sums := make([]float64, l.channels)
	for i := range whitenFirst {
		source.Draw(image, whitenSeed, uint64(i))
		maps(out, image)
		for k, v := range out {
			sums[k%l.channels] += float64(v)
		}
	}
	mean := make([]float32, l.channels)
	for c, s := range sums {
		mean[c] = float32(s / float64(whitenFirst*l.rows*l.cols))
	}
	return mean
}

// moments are those of images first to end, the end excluded.
func (l layer) moments(about []float32, source synthetic.Source, maps func(dst, image []float32), pixels, first, end int) moments {
	c, grid := l.channels, l.rows*l.cols
	m := moments{first: make([]float64, c), second: make([]float64, c*c)}
	image := make([]float32, pixels)
	positions := max(whitenBatch, c/16) // adding products should not take longer than making them
	rows := make([]float32, 0, (positions+grid)*c)
	product := gemm.RowMajor(make([]float32, c*c), c, c)
	var space gemm.Workspace
	flush := func(n int) {
		batch := gemm.RowMajor(rows[:n*c], n, c)
		gemm.Mul(product, batch.T(), batch, false, &space)
		for i, v := range product.Data {
			m.second[i] += float64(v)
		}
		for i, v := range batch.Data {
			m.first[i%c] += float64(v)
		}
		m.n += float64(n)
		rows = rows[:copy(rows, rows[n*c:])]
	}
	for i := first; i < end; i++ {
		source.Draw(image, whitenSeed, uint64(i))
		start := len(rows)
		rows = rows[:start+grid*c]
		maps(rows[start:], image)
		for k := range grid * c {
			rows[start+k] -= about[k%c]
		}
		for len(rows) >= positions*c {
			flush(positions)
		}
	}
	if len(rows) > 0 {
		flush(len(rows) / c)
	}
	return m
}

func (m *moments) add(o moments) {
	if m.first == nil {
		*m = o
		return
	}
	m.n += o.n
	add(m.first, o.first)
	add(m.second, o.second)
}

func (m moments) covariance(about []float32) (mean []float32, covariance []float64) {
	c := len(about)
	mean, covariance = make([]float32, c), make([]float64, c*c)
	for i := range c {
		mean[i] = float32(float64(about[i]) + m.first[i]/m.n)
		for j := range c {
			covariance[i*c+j] = m.second[i*c+j]/m.n - m.first[i]/m.n*(m.first[j]/m.n)
		}
	}
	return mean, covariance
}

func add(dst, x []float64) {
	for i, v := range x {
		dst[i] += v
	}
}

// triangular makes the matrix of its lower triangle.
func triangular(lower []float32, n int) gemm.Matrix {
	m := gemm.RowMajor(make([]float32, n*n), n, n)
	for i := range n {
		copy(m.Data[i*n:], lower[i*(i+1)/2:][:i+1])
	}
	return m
}
