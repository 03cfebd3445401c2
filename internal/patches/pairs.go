package patches

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/whiten"
)

const (
	Directions = 56                      // that are kept of the first layer
	Vectors    = 1 << (3 * vectorsPower) // of signs: at least as many as a patch of the second layer has values

	vectorsPower = 3    // of eight
	meanPlaces   = 5    // places that are averaged, each way, or a few more
	secondSide   = 3    // of a patch of the second layer
	secondShrink = 1    // in standard deviations of its products
	secondFlat   = .001 // added to its variance
	lanes        = 16   // places of a transform are a multiple: kernels are slow on what is left over

	pairsSeed      = 5
	powers         = 4    // of the covariance, by which random directions turn to those of most variance
	directionsDamp = .001 // added to the covariance, in units of its mean diagonal
)

// Pairs are patches of patches, for patches of one size. What patches have in common with atoms is averaged over a few places, and
// reduced to directions in which it varies most. Patches of this are compared with random vectors of signs, by a fast Hadamard
// transform. How far products exceed a threshold counts, whatever their sign.
type Pairs struct {
	mirror     bool
	first      *Patches
	stride     int
	rows, cols int    // means of the first layer
	window     [2]int // places of a mean
	project    []float32
	offset     []float32
	second     *Patches  // of the directions, without atoms
	signs      []float32 // by which values of a patch are multiplied before they are transformed

	packed  [2]gemm.PackedA // project, for the image and for its mirror image
	sharing gemm.PackedA    // means over cells: a row a cell, a column a place
	pitch   int             // of places in a transform
}

// Constants of pairs: atoms without their mirror images, Directions rows of the map to directions, and what is added to each.
type Constants struct{ Atoms, Project, Offset []float32 }

// NewPairs describes pairs of a side. The averages are stride places apart.
func NewPairs(shape [3]int, mirror bool, side, stride int, c Constants) *Pairs {
	p := &Pairs{mirror: mirror, stride: stride, first: New("pairs", shape, true, side, c.Atoms), project: c.Project, offset: c.Offset}
	count := func(places int) (means, window int) {
		means = (places-meanPlaces)/stride + 1
		return means, places - (means-1)*stride // all places count
	}
	p.rows, p.window[0] = count(p.first.rows)
	p.cols, p.window[1] = count(p.first.cols)
	random := rand.NewPCG(pairsSeed, uint64(side))
	for range Vectors {
		p.signs = append(p.signs, float32(1-2*int(random.Uint64()>>63)))
	}
	p.second = New(fmt.Sprintf("pairs.signs%d", side), [3]int{Directions, p.rows, p.cols}, false, secondSide, nil)
	p.second.shrink, p.second.flat = secondShrink, secondFlat
	return p
}

// Ready prepares what workers share.
func (p *Pairs) Ready() *Pairs {
	p.first.Ready()
	turned := slices.Clone(p.project) // of atoms and mirrored ones exchanged
	for i := range turned {
		at := i % p.first.width
		turned[i] = p.project[i-at+(at+p.first.count)%p.first.width]
	}
	channels := 2 * p.first.width
	gemm.PackA(&p.packed[0], gemm.RowMajor(p.project, Directions, channels))
	gemm.PackA(&p.packed[1], gemm.RowMajor(turned, Directions, channels))

	second := p.second
	p.pitch = ((second.rows-1)*p.cols + second.cols + lanes - 1) / lanes * lanes
	sharing, shares, grid := []float32{}, shares(second.rows, second.cols), Grid*Grid
	for cell := range grid {
		line := make([]float32, p.pitch)
		for i, share := range shares[cell*second.rows*second.cols:][:second.rows*second.cols] {
			line[i/second.cols*p.cols+i%second.cols] = .5 * share // as in Program
		}
		sharing = append(sharing, line...)
	}
	gemm.PackA(&p.sharing, gemm.RowMajor(sharing, grid, p.pitch))
	return p
}

// First is the first layer: its channels, its grid, and what gives functions that write all channels of an image, place by place.
func (p *Pairs) First() (channels, rows, cols int, worker func() func(dst, image []float32)) {
	p.first.Ready()
	return 2 * p.first.width, p.rows, p.cols, p.means
}

// means gives the worker of the first layer.
func (p *Pairs) means() func(dst, image []float32) {
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

// Find gives the constants of the directions in which the first layer varies most, scaled so that they have variance 1 and no
// covariance. It takes the mean of the first layer over synthetic images, and its covariance over its mean diagonal. Powers of the covariance turn random
// directions to them. What comes out changes little where the covariance changes by rounding, as eigenvectors would not. It is nil where the
// covariance has no inverse root.
func Find(mean []float32, covariance []float64, diagonal float64) (project, offset []float32) {
	n := len(mean)
	values := slices.Clone(covariance)
	for i := range n {
		values[i*n+i] += directionsDamp
	}
	damped := mat.NewDense(n, n, values)
	random := rand.NewPCG(pairsSeed, 0)
	start := make([]float64, n*Directions)
	for i := range start {
		start[i] = float64(1 - 2*int(random.Uint64()>>63))
	}
	basis := mat.NewDense(n, Directions, start)
	var moved, within, linear mat.Dense
	for range powers {
		moved.Mul(damped, basis)
		var qr mat.QR
		qr.Factorize(&moved)
		var q mat.Dense
		qr.QTo(&q)
		basis.Copy(q.Slice(0, n, 0, Directions))
	}
	moved.Mul(damped, basis)
	within.Mul(basis.T(), &moved)
	root := whiten.InverseFactor(within.RawMatrix().Data, Directions)
	if root == nil {
		return nil, nil
	}
	linear.Mul(root, basis.T())
	linear.Scale(1/math.Sqrt(diagonal), &linear)
	for i := range Directions {
		less := 0.
		for j, v := range linear.RawRowView(i) {
			project = append(project, float32(v))
			less -= v * float64(mean[j])
		}
		offset = append(offset, float32(less))
	}
	return project, offset
}

// Worker computes as Program does, with a Hadamard transform in place of products.
func (p *Pairs) Worker() func(dst gemm.Matrix, image []float32) {
	means, l := p.means(), p.cols*p.rows
	maps := make([]float32, l*2*p.first.width)
	directions := make([]float32, Directions*l+lanes)
	contrast, inverse := p.second.contrast(), make([]float32, p.second.rows*p.second.cols)
	over := make([]float32, p.pitch)          // 1 over the norm of a patch; 0 between rows of places
	patch := make([]float32, Vectors*p.pitch) // values of patches over their norm, place by place; the last ones stay 0
	products := make([]float32, Vectors*p.pitch)
	others := make([]float32, Vectors*p.pitch)
	var columns, excess gemm.PackedB
	images := p.packed[:1]
	if p.mirror {
		images = p.packed[:]
	}
	return func(dst gemm.Matrix, image []float32) {
		means(maps, image)
		gemm.PackB(&columns, gemm.RowMajor(maps, l, 2*p.first.width).T())
		for k := range images {
			gemm.MulPacked(gemm.RowMajor(directions, Directions, l), &images[k], &columns, false)
			for m, offset := range p.offset {
				plane := directions[m*l:][:l]
				vec.Normalize(plane, plane, 0, 1, offset)
			}
			if k == 1 {
				for line := range slices.Chunk(directions[:Directions*l], p.cols) {
					slices.Reverse(line)
				}
			}
			contrast(inverse, directions)
			for y := range p.second.rows {
				copy(over[y*p.cols:], inverse[y*p.second.cols:][:p.second.cols])
			}
			vec.Scale(over, float32(1/math.Sqrt(float64(p.second.size()))))
			for i := range p.second.size() {
				m, r, c := i/(secondSide*secondSide), i/secondSide%secondSide, i%secondSide
				vec.Mul(patch[i*p.pitch:][:p.pitch], directions[m*l+r*p.cols+c:], over)
			}
			for i, sign := range p.signs {
				vec.Normalize(products[i*p.pitch:][:p.pitch], patch[i*p.pitch:], 0, sign, 0)
			}
			vec.Hadamard(products, vectorsPower)
			clear(others)
			vec.AddExcess(others, 1, products, secondShrink)
			vec.AddExcess(others, -1, products, secondShrink)
			gemm.PackB(&excess, gemm.RowMajor(others, Vectors, p.pitch).T())
			gemm.MulPacked(dst, &p.sharing, &excess, k > 0)
		}
	}
}

// Program is Worker: where that transforms, this has a convolution with signs.
func (p *Pairs) Program(b *fixed.Builder, image ir.Value) ir.Value {
	found, shape := p.first.excess(b, image)
	area := p.window[0] * p.window[1]
	share := slices.Repeat([]float32{1 / float32(area)}, area)
	maps := b.Planes(found, shape, ir.Window{H: p.window[0], W: p.window[1], StrideH: p.stride, StrideW: p.stride, DilationH: 1, DilationW: 1}, fmt.Sprintf("pairs.means%d", p.first.side), share)
	means := []int{shape[0], p.rows, p.cols}
	second := *p.second
	second.atoms = p.vectors()
	second.count, second.width = Vectors, Vectors
	project := b.Constant(fmt.Sprintf("pairs.project%d", p.first.side), []int{Directions, shape[0], 1, 1}, p.project)
	offset := b.Constant(fmt.Sprintf("pairs.offset%d", p.first.side), []int{Directions, 1, 1}, p.offset)
	cells := func(maps ir.Value) ir.Value {
		u := b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{maps}, Shape: means, Out: second.shape[:], Window: ir.Square(1, 1, 0)}, project)
		return second.cells(b, b.Affine(u, second.shape[:], ir.None, offset))
	}
	all, signs := cells(maps), []int{2 * Vectors, Grid, Grid}
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
	for i := range Vectors * Grid * Grid {
		above = append(above, int32(i))
		below = append(below, int32(i+Vectors*Grid*Grid))
	}
	return b.HalfSum(all, signs, []int{Vectors, Grid, Grid}, above, below)
}

// vectors are those that a patch of the second layer is compared with: rows of Hadamard's matrix, times signs, over the norm.
func (p *Pairs) vectors() []float32 {
	n := p.second.size()
	share := float32(1 / math.Sqrt(float64(n)))
	all := make([]float32, 0, Vectors*n)
	for k := range Vectors {
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
