package features

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/whiten"
)

// Patches of patches, as in convolutional kernel networks (Mairal 2016): what patches have in common with atoms is averaged
// over a few places, and reduced to directions in which it varies most. Patches of this are compared with random vectors of
// signs. What exceeds a threshold counts, whatever its sign: so a feature sees which pairs of atoms are found together. A fast
// Hadamard transform makes the products (Le, Sarlós and Smola 2013).

const (
	pairsMean       = 5    // places that are averaged, each way, or a few more
	pairsDirections = 56   // that are kept of the first layer
	pairsSide       = 3    // of a patch of the second layer
	pairsShrink     = 1    // in standard deviations of its products
	pairsFlat       = .001 // added to its variance
	pairsVectors    = 512  // of signs, for patches of each size: a power of eight, and at least as many as such a patch has values
	pairsLanes      = 16   // places of a transform are a multiple: kernels are slow on what is left over

	pairsSeed   = 5
	pairsImages = 1000 // over which the first layer's covariance is measured
	pairsPowers = 4    // of the covariance, by which random directions turn to those of most variance
	pairsDamp   = .001 // added to the covariance, in units of its mean diagonal
	pairsLeast  = 21   // pixels, each way
)

// pairsSizes are the patches of the first layer: pixels each way, atoms without their mirror images, and places from one
// average to the next.
var pairsSizes = []struct{ side, atoms, stride int }{{4, 32, 3}, {6, 64, 2}, {8, 64, 3}}

var pairsChannels = pairsVectors * len(pairsSizes)

var pairsKind = kind{
	name:   "pairs",
	weight: 1,
	damp:   .01,
	halves: true,
	check: func(shape [3]int) string {
		if min(shape[1], shape[2]) < pairsLeast {
			return "of 21×21 pixels or more"
		}
		return ""
	},
	depth: func([3]int) int { return pairsChannels },
	shapes: func(shape [3]int) map[string][]int {
		all := map[string][]int{}
		for _, s := range pairsSizes {
			all[atomsName(s.side)] = []int{s.atoms, shape[0], s.side, s.side}
			all[projectName(s.side)] = []int{pairsDirections, 4 * s.atoms}
			all[offsetName(s.side)] = []int{pairsDirections}
		}
		return all
	},
	fit: func(shape [3]int, progress func(share float64)) (map[string][]float32, error) {
		all := map[string][]float32{}
		for i, s := range pairsSizes {
			all[atomsName(s.side)] = dictionary(shape, s.side, s.atoms)
			project, offset, err := newPairs(shape, false, s.side, s.stride, all).directions(shape)
			if err != nil {
				return nil, err
			}
			all[projectName(s.side)], all[offsetName(s.side)] = project, offset
			progress(float64(i+1) / float64(len(pairsSizes)))
		}
		return all, nil
	},
	fitTime: func(shape [3]int) (all time.Duration) {
		for _, s := range pairsSizes {
			random := randoms(rand.New(rand.NewPCG(1, 2)), []int{s.atoms, shape[0], s.side, s.side})
			first := newPairs(shape, false, s.side, s.stride, map[string][]float32{atomsName(s.side): random}).firstLayer()
			all += dictionaryTime(shape, s.side, s.atoms) + momentsTime(first, Leaves, shape, pairsImages)
		}
		return all
	},
	open: func(shape [3]int, mirror bool, constants map[string][]float32) layer {
		var all []*pairs
		for _, s := range pairsSizes {
			all = append(all, newPairs(shape, mirror, s.side, s.stride, constants).ready())
		}
		return layer{channels: pairsChannels, rows: patchGrid, cols: patchGrid, keep: patchGrid, worker: func() func(dst, image []float32) {
			var workers []func(dst gemm.Matrix, image []float32)
			for _, p := range all {
				workers = append(workers, p.worker())
			}
			return func(dst, image []float32) {
				grid := gemm.RowMajor(dst, patchGrid*patchGrid, pairsChannels)
				for i, work := range workers {
					work(grid.Slice(0, patchGrid*patchGrid, i*pairsVectors, (i+1)*pairsVectors), image)
				}
			}
		}}
	},
	program: func(b *fixed.Builder, shape [3]int, mirror bool, constants map[string][]float32, image ir.Value) ir.Value {
		var parts []ir.Value
		for _, s := range pairsSizes {
			parts = append(parts, newPairs(shape, mirror, s.side, s.stride, constants).program(b, image))
		}
		return b.Concat(1, []int{pairsChannels, patchGrid, patchGrid}, parts...)
	},
}

func projectName(side int) string { return fmt.Sprintf("project%d", side) } // from the first layer to directions
func offsetName(side int) string  { return fmt.Sprintf("offset%d", side) }  // added there

// pairs holds what goroutines share, for patches of one size.
type pairs struct {
	mirror     bool
	first      *patches
	stride     int
	rows, cols int    // means of the first layer
	window     [2]int // places of a mean
	project    []float32
	offset     []float32
	second     *patches  // of the directions, without atoms
	signs      []float32 // by which values of a patch are multiplied before they are transformed

	packed  [2]gemm.PackedA // project, for the image and for its mirror image
	sharing gemm.PackedA    // means over cells: a row a cell, a column a place
	pitch   int             // of places in a transform
}

func newPairs(shape [3]int, mirror bool, side, stride int, constants map[string][]float32) *pairs {
	p := &pairs{
		mirror: mirror, stride: stride, first: newPatches("pairs", shape, true, side, constants[atomsName(side)]),
		project: constants[projectName(side)], offset: constants[offsetName(side)],
	}
	count := func(places int) (means, window int) {
		means = (places-pairsMean)/stride + 1
		return means, places - (means-1)*stride // all places count
	}
	p.rows, p.window[0] = count(p.first.rows)
	p.cols, p.window[1] = count(p.first.cols)
	random := rand.NewPCG(pairsSeed, uint64(side))
	for range pairsVectors {
		p.signs = append(p.signs, float32(1-2*int(random.Uint64()>>63)))
	}
	p.second = newPatches(fmt.Sprintf("pairs.signs%d", side), [3]int{pairsDirections, p.rows, p.cols}, false, pairsSide, nil)
	p.second.shrink, p.second.flat = pairsShrink, pairsFlat
	return p
}

// ready prepares what workers share.
func (p *pairs) ready() *pairs {
	p.first.ready()
	turned := slices.Clone(p.project) // of atoms and mirrored ones exchanged
	for i := range turned {
		at := i % p.first.width
		turned[i] = p.project[i-at+(at+p.first.count)%p.first.width]
	}
	channels := 2 * p.first.width
	gemm.PackA(&p.packed[0], gemm.RowMajor(p.project, pairsDirections, channels))
	gemm.PackA(&p.packed[1], gemm.RowMajor(turned, pairsDirections, channels))

	second := p.second
	p.pitch = ((second.rows-1)*p.cols + second.cols + pairsLanes - 1) / pairsLanes * pairsLanes
	sharing, shares, grid := []float32{}, second.shares(), patchGrid*patchGrid
	for cell := range grid {
		line := make([]float32, p.pitch)
		for i, share := range shares[cell*second.rows*second.cols:][:second.rows*second.cols] {
			line[i/second.cols*p.cols+i%second.cols] = .5 * share // as in program
		}
		sharing = append(sharing, line...)
	}
	gemm.PackA(&p.sharing, gemm.RowMajor(sharing, grid, p.pitch))
	return p
}

// firstLayer is the means of what patches have in common with atoms.
func (p *pairs) firstLayer() layer {
	p.first.ready()
	return layer{channels: 2 * p.first.width, rows: p.rows, cols: p.cols, keep: p.cols, worker: p.means}
}

// means gives the worker of the first layer.
func (p *pairs) means() func(dst, image []float32) {
	f, m := p.first, p.first.matcher()
	products := make([]float32, mostPlaces*f.width)
	line := make([]float32, p.cols*2*f.width) // sums over places of a row
	share := 1 / float32(p.window[0]*p.window[1])
	shrink := float32(f.shrink)
	var packed gemm.PackedA
	return func(dst, image []float32) {
		clear(dst)
		m.read(image, func(y0, y1 int) {
			places := (y1 - y0) * f.cols
			gemm.PackA(&packed, gemm.RowMajor(m.columns, places, f.size()))
			gemm.MulPacked(gemm.RowMajor(products, places, f.width), &packed, &f.packed, false)
			for y := y0; y < y1; y++ {
				clear(line)
				for c := range p.cols {
					above, below := line[2*c*f.width:][:f.width], line[(2*c+1)*f.width:][:f.width]
					for x := range p.window[1] {
						found := products[((y-y0)*f.cols+c*p.stride+x)*f.width:][:f.width]
						vec.AddExcess(above, 1, found, shrink)
						vec.AddExcess(below, -1, found, shrink)
					}
				}
				for r := range p.rows {
					if from := r * p.stride; from <= y && y < from+p.window[0] {
						vec.AddVec(dst[r*len(line):][:len(line)], line)
					}
				}
			}
		})
		vec.Scale(dst, share)
	}
}

// directions finds those in which the first layer varies most over dead leaves, and scales them so that they have variance 1
// and no covariance. Powers of the covariance turn random directions to them. What comes out changes little where
// the covariance changes by rounding, as eigenvectors would not.
func (p *pairs) directions(shape [3]int) (project, offset []float32, err error) {
	l := p.firstLayer()
	n := l.channels
	mean, values, diagonal, err := covarianceOf(l, Leaves, shape, pairsImages, func(float64) {})
	if err != nil {
		return nil, nil, err
	}
	for i := range n {
		values[i*n+i] += pairsDamp
	}
	covariance := mat.NewDense(n, n, values)
	random := rand.NewPCG(pairsSeed, 0)
	start := make([]float64, n*pairsDirections)
	for i := range start {
		start[i] = float64(1 - 2*int(random.Uint64()>>63))
	}
	basis := mat.NewDense(n, pairsDirections, start)
	var moved, within, linear mat.Dense
	for range pairsPowers {
		moved.Mul(covariance, basis)
		var qr mat.QR
		qr.Factorize(&moved)
		var q mat.Dense
		qr.QTo(&q)
		basis.Copy(q.Slice(0, n, 0, pairsDirections))
	}
	moved.Mul(covariance, basis)
	within.Mul(basis.T(), &moved)
	root := whiten.InverseFactor(within.RawMatrix().Data, pairsDirections)
	if root == nil {
		return nil, nil, singular(shape, n)
	}
	linear.Mul(root, basis.T())
	linear.Scale(1/math.Sqrt(diagonal), &linear)
	for i := range pairsDirections {
		less := 0.
		for j, v := range linear.RawRowView(i) {
			project = append(project, float32(v))
			less -= v * float64(mean[j])
		}
		offset = append(offset, float32(less))
	}
	return project, offset, nil
}

// worker computes as program does, with a Hadamard transform in place of products.
func (p *pairs) worker() func(dst gemm.Matrix, image []float32) {
	means, l := p.means(), p.cols*p.rows
	maps := make([]float32, l*2*p.first.width)
	directions := make([]float32, pairsDirections*l+pairsLanes)
	contrast, inverse := p.second.contrast(), make([]float32, p.second.rows*p.second.cols)
	over := make([]float32, p.pitch)               // 1 over the norm of a patch; 0 between rows of places
	patch := make([]float32, pairsVectors*p.pitch) // values of patches over their norm, place by place; the last ones stay 0
	products := make([]float32, pairsVectors*p.pitch)
	others := make([]float32, pairsVectors*p.pitch)
	var columns, excess gemm.PackedB
	images := p.packed[:1]
	if p.mirror {
		images = p.packed[:]
	}
	return func(dst gemm.Matrix, image []float32) {
		means(maps, image)
		gemm.PackB(&columns, gemm.RowMajor(maps, l, 2*p.first.width).T())
		for k := range images {
			gemm.MulPacked(gemm.RowMajor(directions, pairsDirections, l), &images[k], &columns, false)
			for m, offset := range p.offset {
				plane := directions[m*l:][:l]
				vec.Normalize(plane, plane, 0, 1, offset)
			}
			if k == 1 {
				for line := range slices.Chunk(directions[:pairsDirections*l], p.cols) {
					slices.Reverse(line)
				}
			}
			contrast(inverse, directions)
			for y := range p.second.rows {
				copy(over[y*p.cols:], inverse[y*p.second.cols:][:p.second.cols])
			}
			vec.Scale(over, float32(1/math.Sqrt(float64(p.second.size()))))
			for i := range p.second.size() {
				m, r, c := i/(pairsSide*pairsSide), i/pairsSide%pairsSide, i%pairsSide
				vec.Mul(patch[i*p.pitch:][:p.pitch], directions[m*l+r*p.cols+c:], over)
			}
			for i, sign := range p.signs {
				vec.Normalize(products[i*p.pitch:][:p.pitch], patch[i*p.pitch:], 0, sign, 0)
			}
			vec.Hadamard(products, pairsVectors)
			clear(others)
			vec.AddExcess(others, 1, products, pairsShrink)
			vec.AddExcess(others, -1, products, pairsShrink)
			gemm.PackB(&excess, gemm.RowMajor(others, pairsVectors, p.pitch).T())
			gemm.MulPacked(dst, &p.sharing, &excess, k > 0)
		}
	}
}

// program is worker: where that transforms, this has a convolution with signs.
func (p *pairs) program(b *fixed.Builder, image ir.Value) ir.Value {
	found, shape := p.first.excess(b, image)
	area := p.window[0] * p.window[1]
	share := slices.Repeat([]float32{1 / float32(area)}, area)
	maps := b.Planes(found, shape, ir.Window{H: p.window[0], W: p.window[1], StrideH: p.stride, StrideW: p.stride, DilationH: 1, DilationW: 1}, fmt.Sprintf("pairs.means%d", p.first.side), share)
	means := []int{shape[0], p.rows, p.cols}
	second := *p.second
	second.atoms = p.vectors()
	second.count, second.width = pairsVectors, pairsVectors
	project := b.Constant("pairs."+projectName(p.first.side), []int{pairsDirections, shape[0], 1, 1}, p.project)
	offset := b.Constant("pairs."+offsetName(p.first.side), []int{pairsDirections, 1, 1}, p.offset)
	cells := func(maps ir.Value) ir.Value {
		u := b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{maps}, Shape: means, Out: second.shape[:], Window: ir.Square(1, 1, 0)}, project)
		return second.cells(b, b.Affine(u, second.shape[:], ir.None, offset))
	}
	all, signs := cells(maps), []int{2 * pairsVectors, patchGrid, patchGrid}
	if p.mirror {
		var index []int32
		for i := range shape[0] * p.rows * p.cols {
			x, line := i%p.cols, i/p.cols
			atom := line / p.rows % p.first.width
			other := line + ((atom+p.first.count)%p.first.width-atom)*p.rows
			index = append(index, int32(other*p.cols+p.cols-1-x))
		}
		flipped := b.Add(ir.Op{Kind: ir.Pick, In: []ir.Value{maps}, Shape: means, Out: means, Index: index})
		all = b.Add(ir.Op{Kind: ir.Add, In: []ir.Value{all, cells(flipped)}, Shape: signs, Out: signs})
	}
	var above, below []int32
	for i := range pairsVectors * patchGrid * patchGrid {
		above = append(above, int32(i))
		below = append(below, int32(i+pairsVectors*patchGrid*patchGrid))
	}
	return b.HalfSum(all, signs, []int{pairsVectors, patchGrid, patchGrid}, above, below)
}

// vectors are those that a patch of the second layer is compared with: rows of Hadamard's matrix, times signs, over the norm.
func (p *pairs) vectors() []float32 {
	n := p.second.size()
	share := float32(1 / math.Sqrt(float64(n)))
	all := make([]float32, 0, pairsVectors*n)
	for k := range pairsVectors {
		for i := range n {
			v := share * p.signs[i]
			if bits.OnesCount(uint(k&i))%2 == 1 {
				v = -v
			}
			all = append(all, v)
		}
	}
	return all
}
