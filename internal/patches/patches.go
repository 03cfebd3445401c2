// Package patches compares the patches of images with small images, called atoms (Coates and Ng 2011), and patches of what comes of
// that with random vectors. These are fixed maps: their constants come from synthetic images.
package patches

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
)

const (
	Grid   = 2    // cells of the result, each way
	shrink = .25  // in standard deviations of the products
	flat   = .002 // added to a patch's variance
)

// Patches are compared with atoms, for patches of one side.
type Patches struct {
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

// New describes patches of a side. atoms are images of as many pixels, each way, one after the other.
func New(label string, shape [3]int, mirror bool, side int, atoms []float32) *Patches {
	p := &Patches{label: label, side: side, shape: shape, mirror: mirror, flat: flat, shrink: shrink,
		rows: shape[1] - side + 1, cols: shape[2] - side + 1, atoms: withMirrored(atoms, mirror, side)}
	p.count, p.width = len(atoms)/p.size(), len(p.atoms)/p.size()
	return p
}

// Ready prepares what workers share.
func (p *Patches) Ready() *Patches {
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

// Extent is where cell c of n places begins and ends. Cells overlap where they do not divide n; both are equally long.
func Extent(n, c int) (from, to int) { return c * n / Grid, ((c+1)*n + Grid - 1) / Grid }

// A matcher compares the patches of a few rows of places at a time with the atoms.
type matcher struct {
	*Patches
	columns, inverse []float32
	contrast         func(inverse, image []float32)
}

// mostPlaces are compared at a time, at least one row of them, as images are less wide: they stay in cache.
const mostPlaces = 112

func (p *Patches) matcher() *matcher {
	return &matcher{Patches: p, columns: make([]float32, mostPlaces*p.size()), inverse: make([]float32, p.rows*p.cols), contrast: p.contrast()}
}

// size is the number of values of a patch.
func (p *Patches) size() int { return p.shape[0] * p.side * p.side }

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

// Worker gives a function for one goroutine: it writes the channels of an image, a row of dst for each cell.
func (p *Patches) Worker() func(dst gemm.Matrix, image []float32) {
	m, size := p.matcher(), p.size()
	line := Grid * 2 * p.width // sums over a row of places: of a cell, positive parts, then negative ones
	lines := make([]float32, min(mostPlaces/p.cols, p.rows)*line)
	grid := make([]float32, Grid*line)
	var parts []gemm.Matrix // of rows of places, one for each cell
	var ws gemm.Workspace
	return func(dst gemm.Matrix, image []float32) {
		clear(grid)
		m.read(image, func(y0, y1 int) {
			parts = parts[:0]
			for y := range y1 - y0 {
				places := gemm.RowMajor(m.columns[y*p.cols*size:], p.cols, size)
				for c := range Grid {
					from, to := Extent(p.cols, c)
					parts = append(parts, places.Slice(from, to, 0, size))
				}
			}
			clear(lines[:(y1-y0)*line])
			gemm.AddExcess(lines, parts, &p.packed, float32(p.shrink), &ws)
			for y := y0; y < y1; y++ {
				for c := range Grid {
					if from, to := Extent(p.rows, c); from <= y && y < to {
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
func (p *Patches) arrange(dst gemm.Matrix, grid []float32) {
	for o := range Grid * Grid {
		y, x := o/Grid, o%Grid
		y0, y1 := Extent(p.rows, y)
		x0, x1 := Extent(p.cols, x)
		share := 1 / float32((y1-y0)*(x1-x0))
		from, other := grid[o*2*p.width:], grid[(o-x+Grid-1-x)*2*p.width+p.width-p.count:]
		out := dst.Data[o*dst.RS:][:2*p.count]
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

// Program is Worker: the contrast is a factor at every place, behind the products.
func (p *Patches) Program(b *fixed.Builder, image ir.Value) ir.Value {
	cells := p.cells(b, image)
	if !p.mirror {
		return cells
	}
	const grid = Grid * Grid
	var first, second []int32 // of the atoms in the image, and of the mirrored ones on the other side
	for i := range 2 * p.count * grid {
		sign, k, x := i/(p.count*grid), i/grid%p.count, i%Grid
		at := (sign*p.width+k)*grid + i%grid
		first = append(first, int32(at))
		second = append(second, int32(at+p.count*grid+Grid-1-2*x))
	}
	return b.HalfSum(cells, []int{2 * p.width, Grid, Grid}, []int{2 * p.count, Grid, Grid}, first, second)
}

// cells are the means of excess.
func (p *Patches) cells(b *fixed.Builder, image ir.Value) ir.Value {
	found, shape := p.excess(b, image)
	return Cells(b, found, shape, fmt.Sprintf("%s.cells%d", p.label, p.side))
}

// Cells are means over the cells of maps of a shape. name is that of a constant for it.
func Cells(b *fixed.Builder, maps ir.Value, shape []int, name string) ir.Value {
	rows, cols := shape[1], shape[2]
	return b.Planes(maps, shape, ir.Window{H: rows, W: cols, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, name, shares(rows, cols))
}

// excess is how far products exceed the threshold at every place and, behind it, their negatives.
func (p *Patches) excess(b *fixed.Builder, image ir.Value) (found ir.Value, shape []int) {
	in, window := p.shape[:], ir.Square(p.side, 1, 0)
	plane, both := []int{p.width, p.rows, p.cols}, []int{2 * p.width, p.rows, p.cols}
	one := func(kind ir.Kind, x ...ir.Value) ir.Value {
		return b.Add(ir.Op{Kind: kind, In: x, Shape: plane, Out: plane})
	}
	deviation := b.Add(ir.Op{Kind: ir.Contrast, In: []ir.Value{image}, Shape: in, Out: []int{1, p.rows, p.cols}, Window: window, Epsilon: p.flat})
	products := b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{image}, Shape: in, Out: plane, Window: window},
		b.Constant(p.label+"."+fmt.Sprintf("atoms%d", p.side), []int{p.width, p.shape[0], p.side, p.side}, p.atoms))
	products = one(ir.Divide, products, deviation)
	shrink := b.Scalar(float32(-p.shrink))
	above := one(ir.ReLU, b.Affine(products, plane, ir.None, shrink))
	below := one(ir.ReLU, b.Affine(products, plane, b.Scalar(-1), shrink))
	return b.Concat(1, both, above, below), both
}

// shares are means over the cells of rows by cols places, as weights of every place for each.
func shares(rows, cols int) (all []float32) {
	for o := range Grid * Grid {
		y0, y1 := Extent(rows, o/Grid)
		x0, x1 := Extent(cols, o%Grid)
		for i := range rows * cols {
			share := float32(0)
			if y, x := i/cols, i%cols; y0 <= y && y < y1 && x0 <= x && x < x1 {
				share = 1 / float32((y1-y0)*(x1-x0))
			}
			all = append(all, share)
		}
	}
	return all
}

// contrast gives a function that finds, for every place, 1 over the deviation of the patch there.
func (p *Patches) contrast() func(inverse, image []float32) {
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
