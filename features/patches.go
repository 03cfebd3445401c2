package features

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/synthetic"
	"github.com/privgrad/privgrad/internal/whiten"
)

// Patches compared with a dictionary (Coates and Ng 2011): what every patch of an image,
// less its mean and over its contrast, has in common with atoms, shrunk towards zero, in
// two parts by its sign, and averaged over four cells. Atoms are whitened patches of
// dead leaves, as many of every side.

const (
	patchGrid   = 2    // cells, each way
	patchAtoms  = 512  // of each side
	patchShrink = .25  // in standard deviations of the products
	patchFlat   = .002 // added to a patch's variance
	patchDamp   = .001 // added to the covariance of patches, in units of its largest eigenvalue

	patchSeed   = 1
	patchImages = 2000 // from which patches come
	patchDraws  = 40   // of each
	patchSpread = 100  // images by which products are measured
)

// patchSides are those of patches, in pixels; the largest is last.
var patchSides = []int{4, 6}

var (
	patchLargest  = patchSides[len(patchSides)-1]
	patchChannels = 2 * patchAtoms * len(patchSides)
)

var patchesKind = kind{
	name:   "patches",
	weight: .7,
	damp:   .01,
	halves: true,
	check: func(shape [3]int) string {
		if min(shape[1], shape[2]) < patchLargest+patchGrid-1 {
			return "of 7×7 pixels or more"
		}
		return ""
	},
	depth: func([3]int) int { return patchChannels },
	shapes: func(shape [3]int) map[string][]int {
		all := map[string][]int{}
		for _, side := range patchSides {
			all[atomsName(side)] = []int{patchAtoms, shape[0], side, side}
		}
		return all
	},
	fit: func(shape [3]int, progress func(share float64)) (map[string][]float32, error) {
		all := map[string][]float32{}
		for i, side := range patchSides {
			all[atomsName(side)] = dictionary(shape, side, patchAtoms)
			progress(float64(i+1) / float64(len(patchSides)))
		}
		return all, nil
	},
	fitTime: func(shape [3]int) (all time.Duration) {
		for _, side := range patchSides {
			all += dictionaryTime(shape, side, patchAtoms)
		}
		return all
	},
	open: func(shape [3]int, mirror bool, constants map[string][]float32) layer {
		var all []*patches
		for _, side := range patchSides {
			all = append(all, newPatches("patches", shape, mirror, side, constants[atomsName(side)]).ready())
		}
		return layer{channels: patchChannels, rows: patchGrid, cols: patchGrid, keep: patchGrid, worker: func() func(dst, image []float32) {
			var workers []func(dst, image []float32)
			for _, p := range all {
				workers = append(workers, p.worker())
			}
			return func(dst, image []float32) {
				for i, work := range workers {
					work(dst[2*patchAtoms*i:], image)
				}
			}
		}}
	},
	program: func(b *fixed.Builder, shape [3]int, mirror bool, constants map[string][]float32, image ir.Value) ir.Value {
		var parts []ir.Value
		for _, side := range patchSides {
			atoms := constants[atomsName(side)]
			parts = append(parts, newPatches("patches", shape, mirror, side, atoms).program(b, image))
		}
		return b.Concat(1, []int{patchChannels, patchGrid, patchGrid}, parts...)
	},
}

func atomsName(side int) string { return fmt.Sprintf("atoms%d", side) }

// patches holds what goroutines share, for patches of one side.
type patches struct {
	label      string // of constants
	side       int
	shape      [3]int
	mirror     bool
	flat       float64   // added to a patch's variance
	shrink     float64   // products move as far towards zero
	rows, cols int       // places of a patch
	count      int       // atoms
	atoms      []float32 // these, and the mirrored ones behind them
	width      int       // of both together

	taps   *gemm.Taps   // of a row of places
	packed gemm.PackedB // a column an atom
}

func newPatches(label string, shape [3]int, mirror bool, side int, atoms []float32) *patches {
	p := &patches{label: label, side: side, shape: shape, mirror: mirror, flat: patchFlat, shrink: patchShrink,
		rows: shape[1] - side + 1, cols: shape[2] - side + 1, atoms: withMirrored(atoms, mirror, side)}
	p.count, p.width = len(atoms)/p.size(), len(p.atoms)/p.size()
	return p
}

// ready prepares what workers share.
func (p *patches) ready() *patches {
	size := p.size()
	var offsets []int
	for i := range size {
		offsets = append(offsets, i/(p.side*p.side)*p.shape[1]*p.shape[2]+i/p.side%p.side*p.shape[2]+i%p.side)
	}
	p.taps = gemm.NewTaps(offsets, 1, p.cols, p.shape[2])
	gemm.PackB(&p.packed, gemm.RowMajor(p.atoms, p.width, size).T())
	return p
}

// withMirrored are the atoms and, if mirror, their mirror images behind them.
func withMirrored(atoms []float32, mirror bool, side int) []float32 {
	all := slices.Clone(atoms)
	for i := range atoms {
		if mirror {
			all = append(all, atoms[i-i%side+side-1-i%side])
		}
	}
	return all
}

// extent is where cell c of n places begins and ends. Cells overlap where they do not divide n; both are equally long.
func extent(n, c int) (from, to int) { return c * n / patchGrid, ((c+1)*n + patchGrid - 1) / patchGrid }

// A matcher compares the patches of a few rows of places at a time with the atoms.
type matcher struct {
	*patches
	columns, inverse []float32
	contrast         func(inverse, image []float32)
}

// mostPlaces are compared at a time, at least one row of them, as maxSide is less: they stay in cache.
const mostPlaces = 112

func (p *patches) matcher() *matcher {
	return &matcher{patches: p, columns: make([]float32, mostPlaces*p.size()), inverse: make([]float32, p.rows*p.cols), contrast: p.contrast()}
}

// size is the number of values of a patch.
func (p *patches) size() int { return p.shape[0] * p.side * p.side }

// read calls each for a few rows of places at a time, from y0 to y1, the end excluded. Their patches over their contrast are in
// columns then, a row a place.
func (m *matcher) read(image []float32, each func(y0, y1 int)) {
	m.contrast(m.inverse, image)
	size, most := m.size(), mostPlaces/m.cols
	for y0 := 0; y0 < m.rows; y0 += most {
		y1 := min(y0+most, m.rows)
		for y := y0; y < y1; y++ {
			m.taps.Columns(m.columns[(y-y0)*m.cols*size:], image[y*m.shape[2]:])
		}
		for i, f := range m.inverse[y0*m.cols : y1*m.cols] {
			vec.Scale(m.columns[i*size:(i+1)*size], f)
		}
		each(y0, y1)
	}
}

func (p *patches) worker() func(dst, image []float32) {
	m, size := p.matcher(), p.size()
	line := patchGrid * 2 * p.width // sums over a row of places: of a cell, positive parts, then negative ones
	lines := make([]float32, min(mostPlaces/p.cols, p.rows)*line)
	grid := make([]float32, patchGrid*line)
	var parts []gemm.Matrix // of rows of places, one for each cell
	var ws gemm.Workspace
	return func(dst, image []float32) {
		clear(grid)
		m.read(image, func(y0, y1 int) {
			parts = parts[:0]
			for y := range y1 - y0 {
				places := gemm.RowMajor(m.columns[y*p.cols*size:], p.cols, size)
				for c := range patchGrid {
					from, to := extent(p.cols, c)
					parts = append(parts, places.Slice(from, to, 0, size))
				}
			}
			clear(lines[:(y1-y0)*line])
			gemm.AddExcess(lines, parts, &p.packed, float32(p.shrink), &ws)
			for y := y0; y < y1; y++ {
				for c := range patchGrid {
					if from, to := extent(p.rows, c); from <= y && y < to {
						vec.AddVec(grid[c*line:][:line], lines[(y-y0)*line:][:line])
					}
				}
			}
		})
		p.arrange(dst, grid)
	}
}

// arrange makes means of sums, and with mirroring the average of both images: what the
// mirrored atoms find on the one side is what the atoms find on the other in the mirror image.
func (p *patches) arrange(dst, grid []float32) {
	for o := range patchGrid * patchGrid {
		y, x := o/patchGrid, o%patchGrid
		y0, y1 := extent(p.rows, y)
		x0, x1 := extent(p.cols, x)
		share := 1 / float32((y1-y0)*(x1-x0))
		from, other := grid[o*2*p.width:], grid[(o-x+patchGrid-1-x)*2*p.width+p.width-p.count:]
		out := dst[o*patchChannels:][:2*p.count]
		for k := range p.count {
			if p.mirror {
				out[k] = .5 * share * (from[k] + other[k])
				out[p.count+k] = .5 * share * (from[p.width+k] + other[p.width+k])
			} else {
				out[k], out[p.count+k] = share*from[k], share*from[p.width+k]
			}
		}
	}
}

// program is worker: the contrast is a factor at every place, behind the products.
func (p *patches) program(b *fixed.Builder, image ir.Value) ir.Value {
	cells := p.cells(b, image)
	if !p.mirror {
		return cells
	}
	const grid = patchGrid * patchGrid
	var first, second []int32 // of the atoms in the image, and of the mirrored ones on the other side
	for i := range 2 * p.count * grid {
		sign, k, x := i/(p.count*grid), i/grid%p.count, i%patchGrid
		at := (sign*p.width+k)*grid + i%grid
		first = append(first, int32(at))
		second = append(second, int32(at+p.count*grid+patchGrid-1-2*x))
	}
	return b.HalfSum(cells, []int{2 * p.width, patchGrid, patchGrid}, []int{2 * p.count, patchGrid, patchGrid}, first, second)
}

// cells are the means of excess.
func (p *patches) cells(b *fixed.Builder, image ir.Value) ir.Value {
	found, shape := p.excess(b, image)
	return b.Planes(found, shape, ir.Window{H: p.rows, W: p.cols, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1},
		fmt.Sprintf("%s.cells%d", p.label, p.side), p.shares())
}

// excess is how far products exceed the threshold at every place and, behind it, their negatives.
func (p *patches) excess(b *fixed.Builder, image ir.Value) (found ir.Value, shape []int) {
	in, window := p.shape[:], ir.Square(p.side, 1, 0)
	plane, both := []int{p.width, p.rows, p.cols}, []int{2 * p.width, p.rows, p.cols}
	one := func(kind ir.Kind, x ...ir.Value) ir.Value {
		return b.Add(ir.Op{Kind: kind, In: x, Shape: plane, Out: plane})
	}
	deviation := b.Add(ir.Op{Kind: ir.Contrast, In: []ir.Value{image}, Shape: in, Out: []int{1, p.rows, p.cols}, Window: window, Epsilon: p.flat})
	products := b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{image}, Shape: in, Out: plane, Window: window},
		b.Constant(p.label+"."+atomsName(p.side), []int{p.width, p.shape[0], p.side, p.side}, p.atoms))
	products = one(ir.Divide, products, deviation)
	shrink := b.Scalar(float32(-p.shrink))
	above := one(ir.ReLU, b.Affine(products, plane, ir.None, shrink))
	below := one(ir.ReLU, b.Affine(products, plane, b.Scalar(-1), shrink))
	return b.Concat(1, both, above, below), both
}

// shares are means over cells, as weights of every place for each.
func (p *patches) shares() (all []float32) {
	for o := range patchGrid * patchGrid {
		y0, y1 := extent(p.rows, o/patchGrid)
		x0, x1 := extent(p.cols, o%patchGrid)
		for i := range p.rows * p.cols {
			share := float32(0)
			if y, x := i/p.cols, i%p.cols; y0 <= y && y < y1 && x0 <= x && x < x1 {
				share = 1 / float32((y1-y0)*(x1-x0))
			}
			all = append(all, share)
		}
	}
	return all
}

// contrast gives a function that finds, for every place, 1 over the deviation of the patch there.
func (p *patches) contrast() func(inverse, image []float32) {
	height, width := p.shape[1], p.shape[2]
	sum, square := make([]float32, height*width), make([]float32, height*width)
	return func(inverse, image []float32) {
		clear(sum)
		clear(square)
		for c := range p.shape[0] {
			plane := image[c*height*width:][:height*width]
			vec.AddVec(sum, plane)
			vec.MixSquares(square, 1, 1, plane)
		}
		box(sum, height, width, p.side)
		box(square, height, width, p.side)
		n := float32(p.shape[0] * p.side * p.side)
		for i := range inverse {
			at := i/p.cols*width + i%p.cols
			mean := sum[at] / n
			variance := max(square[at]/n-mean*mean, 0)
			inverse[i] = 1 / float32(math.Sqrt(float64(variance+float32(p.flat))))
		}
	}
}

// box replaces every place of a plane that a patch begins at by the sum over the patch.
func box(plane []float32, height, width, side int) {
	for y := range height {
		line := plane[y*width:][:width]
		for x := range width - side + 1 {
			for _, v := range line[x+1 : x+side] {
				line[x] += v
			}
		}
	}
	for y := range height - side + 1 {
		for k := 1; k < side; k++ {
			vec.AddVec(plane[y*width:][:width], plane[(y+k)*width:])
		}
	}
}

// dictionary makes atoms, for products of deviation 1 on dead leaves.
func dictionary(shape [3]int, side, count int) []float32 {
	size := shape[0] * side * side
	below := patchBelow(side)
	samples := patchSamples(shape, side, patchImages, below)
	root := whiten.InverseRoot(whiten.SecondMoments(samples, size), size, func(eigenvalues []float64) float64 {
		return patchDamp * eigenvalues[len(eigenvalues)-1]
	})

	atoms := make([]float32, count*size)
	atom, whitened := make([]float64, size), make([]float64, size)
	taken := map[string]bool{} // synthetic patches may be equal; atoms are not
	for k := range count {
		var sample []float64
		var text string
		for again := true; again; again = taken[text] {
			sample = samples[below(len(samples)/size)*size:][:size]
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
	spread := spreadOf(shape, side, atoms, patchSpread)
	for i, v := range atoms {
		atoms[i] = float32(float64(v) / spread)
	}
	return atoms
}

// patchBelow draws numbers below n for the atoms of a side.
func patchBelow(side int) func(n int) int {
	random := rand.NewPCG(patchSeed, uint64(side))
	return func(n int) int { return int((random.Uint64() >> 11) % uint64(n)) }
}

// patchSamples are patches of dead leaves, some of every image.
func patchSamples(shape [3]int, side, images int, below func(n int) int) []float64 {
	samples := make([]float64, 0, images*patchDraws*shape[0]*side*side)
	image, source := make([]float32, volume(shape)), synthetic.Leaves(shape)
	for i := range images {
		source.Draw(image, patchSeed, uint64(i))
		for range patchDraws {
			y, x := below(shape[1]-side+1), below(shape[2]-side+1)
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
	deviation := math.Sqrt(square/n + patchFlat)
	for i := range patch {
		patch[i] /= deviation
	}
	return patch
}

// spreadOf is the standard deviation of the products of patches with atoms, over some images.
func spreadOf(shape [3]int, side int, atoms []float32, images int) float64 {
	p := newPatches("", shape, false, side, atoms).ready()
	m := p.matcher()
	image, source := make([]float32, volume(shape)), synthetic.Leaves(shape)
	var packed gemm.PackedA
	sum, square, count := 0., 0., 0.
	for i := range images {
		source.Draw(image, patchSeed, uint64(i))
		m.read(image, func(y0, y1 int) {
			places := (y1 - y0) * p.cols
			gemm.PackA(&packed, gemm.RowMajor(m.columns, places, p.size()))
			products := make([]float32, places*p.width)
			gemm.MulPacked(gemm.RowMajor(products, places, p.width), &packed, &p.packed, false)
			for ; len(products) > 0; products = products[p.cols*p.width:] {
				row := products[:p.cols*p.width] // its sums keep their bits
				sum += vec.Sum(row)
				square += vec.SumSquares(row)
				count += float64(len(row))
			}
		})
	}
	return math.Sqrt(square/count - sum/count*(sum/count))
}
