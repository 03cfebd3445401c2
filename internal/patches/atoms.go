package patches

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/synthetic"
	"github.com/privgrad/privgrad/internal/whiten"
)

const (
	damp         = .001 // added to the covariance of patches, in units of its largest eigenvalue
	seed         = 1
	images       = 2000 // from which patches come
	draws        = 40   // of each
	spreadImages = 100  // by which products are measured
)

// Dictionary makes atoms, for products of deviation 1 on dead leaves.
func Dictionary(shape [3]int, side, count int) []float32 {
	size := shape[0] * side * side
	draw := below(side)
	samples := samplesOf(shape, side, images, draw)
	root := whiten.InverseRoot(whiten.SecondMoments(samples, size), size, func(eigenvalues []float64) float64 {
		return damp * eigenvalues[len(eigenvalues)-1]
	})

	atoms := make([]float32, count*size)
	atom, whitened := make([]float64, size), make([]float64, size)
	taken := map[string]bool{} // synthetic patches may be equal; atoms are not
	for k := range count {
		var sample []float64
		var text string
		for again := true; again; again = taken[text] {
			sample = samples[draw(len(samples)/size)*size:][:size]
			text = fmt.Sprint(sample)
		}
		taken[text] = true
		whiten.SymmetricMul(whitened, root, sample)
		square := 0.
		for _, v := range whitened {
			square += v * v
		}
		norm := math.Sqrt(square) + 1e-6
		whiten.SymmetricMul(atom, root, whitened)
		mean := 0.
		for _, v := range atom {
			mean += v / float64(size)
		}
		for j, v := range atom {
			atoms[k*size+j] = float32((v - mean) / norm) // without its mean it does not see the patch's
		}
	}
	spread := spreadOf(shape, side, atoms, spreadImages)
	for i, v := range atoms {
		atoms[i] = float32(float64(v) / spread)
	}
	return atoms
}

// below draws numbers below n for the atoms of a side.
func below(side int) func(n int) int {
	random := rand.NewPCG(seed, uint64(side))
	return func(n int) int { return int((random.Uint64() >> 11) % uint64(n)) }
}

// samplesOf are patches of dead leaves, some of every image.
func samplesOf(shape [3]int, side, count int, draw func(n int) int) []float64 {
	samples := make([]float64, 0, count*draws*shape[0]*side*side)
	image, source := make([]float32, shape[0]*shape[1]*shape[2]), synthetic.Leaves(shape)
	for i := range count {
		source.Draw(image, seed, uint64(i))
		for range draws {
			y, x := draw(shape[1]-side+1), draw(shape[2]-side+1)
			samples = append(samples, normalized(image, shape, side, y, x)...)
		}
	}
	return samples
}

// normalized is a patch less its mean and over its contrast.
func normalized(image []float32, shape [3]int, side, y, x int) []float64 {
	var patch []float64
	mean := 0.
	for c := range shape[0] {
		for i := range side * side {
			v := float64(image[(c*shape[1]+y+i/side)*shape[2]+x+i%side])
			patch = append(patch, v)
			mean += v
		}
	}
	n := float64(len(patch))
	mean /= n
	square := 0.
	for i := range patch {
		patch[i] -= mean
		square += patch[i] * patch[i]
	}
	deviation := math.Sqrt(square/n + flat)
	for i := range patch {
		patch[i] /= deviation
	}
	return patch
}

// spreadOf is the standard deviation of the products of patches with atoms, over some images.
func spreadOf(shape [3]int, side int, atoms []float32, count int) float64 {
	p := New("", shape, false, side, atoms).Ready()
	m := p.matcher()
	image, source := make([]float32, shape[0]*shape[1]*shape[2]), synthetic.Leaves(shape)
	var packed gemm.PackedA
	sum, square, n := 0., 0., 0.
	for i := range count {
		source.Draw(image, seed, uint64(i))
		m.read(image, func(y0, y1 int) {
			places := (y1 - y0) * p.cols
			gemm.PackA(&packed, gemm.RowMajor(m.columns, places, p.size()))
			products := make([]float32, places*p.width)
			gemm.MulPacked(gemm.RowMajor(products, places, p.width), &packed, &p.packed, false)
			for ; len(products) > 0; products = products[p.cols*p.width:] {
				row := products[:p.cols*p.width] // its sums keep their bits
				sum += vec.Sum(row)
				square += vec.SumSquares(row)
				n += float64(len(row))
			}
		})
	}
	return math.Sqrt(square/n - sum/n*(sum/n))
}

// DictionaryTime is about how long Dictionary takes on this machine, from a small part of its work.
func DictionaryTime(shape [3]int, side, count int) time.Duration {
	const part, spreads = 50, 10
	size := shape[0] * side * side
	atoms := make([]float32, count*size)
	for i := range atoms {
		atoms[i] = float32(i % 2)
	}
	start := time.Now()
	whiten.SecondMoments(samplesOf(shape, side, images/part, below(side)), size)
	samples := time.Since(start)
	start = time.Now()
	spreadOf(shape, side, atoms, spreadImages/spreads)
	return part*samples + spreads*time.Since(start)
}
