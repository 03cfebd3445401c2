// Package gemm multiplies float32 matrices on one goroutine, in panels packed for one register tile (Goto and van de
// Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008).
//
// Bits. K is cut into blocks by K alone. Within a block every element is one chain of multiply-adds from zero in
// ascending order; the blocks are added in order, the first to C when accumulating. So Mul, MulPacked and Weights.Mul agree, and a
// caller may cut M and N anywhere. With AVX2 and FMA each multiply-add rounds once, and the kernels for AVX-512 and NEON
// give the same bits; elsewhere, and under the build tag noasm, the compiler decides, the same way for every element.
// With γ(n) = nu/(1−nu) and u = 2⁻²⁴ the error of an element is at most γ(blockK + ⌈K/blockK⌉ + 2) Σ|a||b|.
//
// The kernels are chosen when the program starts. GODEBUG=cpu.avx512f=off leaves AVX-512 unused; with cpu.avx2=off the code
// is portable.
//
// A NaN or an infinity reaches only the elements whose row of A or column of B holds it. Shapes that disagree and views
// that leave their data fail as an index out of range does, before anything is read or written.
package gemm

import "github.com/privgrad/privgrad/internal/pages"

//go:generate go run -C ../gen .

// A register tile of the kernels in use has TileM rows of A and TileN columns of B, and so have panels of packed operands.
var TileM, TileN = tileShape()

// Cut gives part i of n rows or columns, parts being whole tiles: how threads share a product.
func Cut(n, tile, i, parts int) (lo, hi int) {
	tiles := (n + tile - 1) / tile
	return min(tiles*i/parts*tile, n), min(tiles*(i+1)/parts*tile, n)
}

// The tile of the AVX2 and NEON kernels and of the portable code.
const (
	baseM = 6
	baseN = 16
)

// The tile of the AVX-512 kernels: twenty-eight accumulators of sixteen.
const (
	wideM = 14
	wideN = 32
)

const (
	blockK  = 320  // longest block of K: its share of a panel of B stays in the first-level cache
	blockM  = 324  // rows of A in a block: with blockK they stay in a second-level cache of 512 KiB
	blockN  = 2048 // columns of B that Mul packs at a time
	inPlace = 4    // up to so many panels of A packing a row-major B costs more than it saves
)

// ISA names the instruction set of the kernels in use.
func ISA() string {
	switch {
	case wide:
		return "AVX-512"
	case assembly:
		return isa
	}
	return "portable"
}

// Matrix is a view: element (i, j) is Data[i*RS + j*CS].
type Matrix struct {
	Data       []float32
	Rows, Cols int
	RS, CS     int
}

// RowMajor views data as rows by cols without gaps.
func RowMajor(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, RS: cols, CS: 1}
}

// T is the transposed view.
func (m Matrix) T() Matrix {
	return Matrix{Data: m.Data, Rows: m.Cols, Cols: m.Rows, RS: m.CS, CS: m.RS}
}

// Slice views rows i0 to i1 and columns j0 to j1, the ends excluded.
func (m Matrix) Slice(i0, i1, j0, j1 int) Matrix {
	within(i0, i1, m.Rows)
	within(j0, j1, m.Cols)
	m.Rows, m.Cols = i1-i0, j1-j0
	if m.Rows == 0 || m.Cols == 0 {
		m.Data = nil
	} else {
		m.Data = m.Data[i0*m.RS+j0*m.CS:]
	}
	return m
}

// check fails unless every element lies within Data; an index is linear in i and j, so the corners decide.
func (m Matrix) check() {
	within(0, m.Rows, m.Rows)
	within(0, m.Cols, m.Cols)
	if m.Rows == 0 || m.Cols == 0 {
		return
	}
	i, j := (m.Rows-1)*m.RS, (m.Cols-1)*m.CS
	_, _, _, _ = m.Data[0], m.Data[i], m.Data[j], m.Data[i+j]
}

var nothing [1]struct{}

// agree fails unless x equals y.
func agree(x, y int) { _ = nothing[x^y] }

// within fails unless 0 <= from <= to <= n.
func within(from, to, n int) {
	if from < 0 || from > to || to > n {
		agree(0, 1)
	}
}

// Workspace is the memory of one goroutine's products. The zero value is ready.
type Workspace struct {
	a, b []float32 // packed blocks of the operands; in a sums that are turned round, in b products that are added up
	Left PackedA   // for whom packs a left operand
}

// grow returns n floats that keep the memory of buf where it is large enough.
func grow(buf []float32, n int) []float32 {
	if cap(buf) < n {
		return pages.Make[float32](n)
	}
	return buf[:n]
}

// Mul computes C = A·B, or C += A·B when accumulate is set. C must have CS = 1 and share no memory with A and B.
func Mul(c, a, b Matrix, accumulate bool, ws *Workspace) {
	mul(c, a, b, accumulate, blockLen(a.Cols, blockK), ws)
}

// Sum computes C += A·B with K cut into about equal blocks of at most most, for sums over many terms: the error of an
// element is then at most γ(most + ⌈K/most⌉ + 2) of the terms' magnitudes and |c|.
func Sum(c, a, b Matrix, most int, ws *Workspace) {
	within(1, most, blockK)
	mul(c, a, b, true, blockLen(a.Cols, most), ws)
}

func mul(c, a, b Matrix, accumulate bool, step int, ws *Workspace) {
	m, n, k := c.Rows, c.Cols, a.Cols
	a.check()
	b.check()
	c.checkResult(a.Rows, k, b.Rows, b.Cols)
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		c.sumOfNothing(accumulate)
		return
	}
	height, width := split(m), min((n+TileN-1)/TileN, blockN/TileN)
	// Short blocks are packed together and run one after the other on a tile of C while it is in cache.
	long := max(blockK/step, 1) * step
	// B is packed panel by panel, each when it is needed first: so it is in cache, and nothing of it goes to memory where no
	// other block of A needs it. Without a kernel that packs, a row-major one is packed in long contiguous reads.
	stretch, deep := TileN, blockM/TileM
	switch {
	case b.CS == 1 && !packing():
		stretch = blockN
	case height.panels <= deep:
		width = 1
	}
	ws.a = grow(ws.a, min(height.panels, deep)*min(long, k)*TileM)
	ws.b = grow(ws.b, width*min(long, k)*TileN)
	for j0 := 0; j0 < n; j0 += blockN {
		j1 := min(j0+blockN, n)
		packed := j0 // columns of this block before it are read where they are
		if b.CS == 1 && height.panels <= inPlace {
			packed = j1 - (j1-j0)%TileN
		}
		for p0 := 0; p0 < k; p0 += long {
			kc := min(long, k-p0)
			b := b.Slice(p0, p0+kc, 0, n)
			for i := 0; i < height.panels; i += deep {
				end := min(i+deep, height.panels)
				packA(ws.a, kc*TileM, a.Slice(0, m, p0, p0+kc), height, i, end)
				t := tiles{height: height, first: i, end: end, kc: kc, step: step, a: ws.a, strideA: kc * TileM, accumulate: accumulate || p0 > 0}
				if packed > j0 {
					t.mul(c, j0, packed, b.Data[j0:], b.RS, TileN)
				}
				for j := packed; j < j1; j += stretch {
					end := min(j+stretch, j1)
					panels := ws.b[(j-packed)/TileN%width*kc*TileN:]
					switch {
					case i > 0:
					case b.CS == 1 && packing() && end-j == TileN:
						t.mulPack(c, j, panels, b.Data[j:], b.RS)
						continue
					default:
						packB(panels, kc*TileN, b.Slice(0, kc, j, end))
						t.ahead = b.Slice(0, kc, end, min(end+TileN, j1)).T()
					}
					t.mul(c, j, end, panels, TileN, kc*TileN)
				}
			}
		}
	}
}

// checkResult fails unless m is a result that the tiles can write, of an ra by ca and an rb by cb matrix.
func (m Matrix) checkResult(ra, ca, rb, cb int) {
	m.check()
	agree(m.CS, 1)
	agree(m.Rows, ra)
	agree(ca, rb)
	agree(m.Cols, cb)
}

func (m Matrix) sumOfNothing(accumulate bool) {
	if accumulate {
		return
	}
	for i := range m.Rows {
		clear(m.Data[i*m.RS:][:m.Cols])
	}
}

// blockLen is the length of every block of K but the last; the blocks are about equal.
func blockLen(k, most int) int {
	n := max((k+most-1)/most, 1)
	return ((k+n-1)/n + 7) &^ 7
}

// A partition cuts rows into panels whose heights differ by at most one: no tile is nearly empty.
type partition struct {
	panels, base, taller int // the first taller panels have base+1 rows
}

func split(m int) partition { return splitBy(m, TileM) }

func splitBy(m, most int) partition {
	n := (m + most - 1) / most
	return partition{n, m / n, m % n}
}

// panel returns the first row and the height of panel i.
func (p partition) panel(i int) (row, h int) {
	if i < p.taller {
		return i * (p.base + 1), p.base + 1
	}
	return i*p.base + p.taller, p.base
}

// tiles multiplies panels first to end, the end excluded, of a packed block of A.
type tiles struct {
	height     partition
	first, end int
	kc, step   int // rows of B, and how many of them make a block
	a          []float32
	strideA    int // from panel to panel
	accumulate bool
	ahead      Matrix // rows that are packed next, as wide as B is deep: in cache by then, if they lie row by row
}

// mul computes columns j0 to j1 of C from panels of B whose rows lie ldb and whose beginnings strideB apart.
func (t *tiles) mul(c Matrix, j0, j1 int, b []float32, ldb, strideB int) {
	taller := max(t.first, min(t.height.taller, t.end))
	for j := j0; j < j1; j += TileN {
		panel, n := b[(j-j0)/TileN*strideB:], min(TileN, j1-j)
		t.level(c, t.first, taller, j, n, panel, ldb)
		t.level(c, taller, t.end, j, n, panel, ldb)
	}
}

// mulPack computes TileN columns from j on, and packs the panel of B for them, whose rows lie ldb apart.
func (t *tiles) mulPack(c Matrix, j int, panel, b []float32, ldb int) {
	row, h := t.height.panel(t.first)
	tilePack(h, t.kc, t.step, t.a, b, ldb, panel, c.Data[row*c.RS+j:], c.RS, t.accumulate)
	rest := *t
	rest.first++
	rest.a = t.a[min(t.strideA, len(t.a)):]
	rest.mul(c, j, j+TileN, panel, TileN, 0)
}

// level computes n columns from j on, of panels first to end, which are of equal height.
func (t *tiles) level(c Matrix, first, end, j, n int, b []float32, ldb int) {
	for i := first; i < end; {
		count := end - i
		ahead, apart, ldahead := b, 0, 0 // in cache already
		if q := i - t.first; t.ahead.CS == 1 && q < t.ahead.Rows {
			count = min(count, t.ahead.Rows-q)
			ahead, ldahead = t.ahead.Data[q*t.ahead.RS:], t.ahead.RS
			if tiles := t.end - t.first; tiles < t.ahead.Rows {
				apart = tiles * t.ahead.RS // the rows after those of all tiles, as many again
			}
		}
		row, h := t.height.panel(i)
		tile(count, h, t.kc, t.step, t.a[(i-t.first)*t.strideA:], t.strideA, b, ldb, c.Data[row*c.RS+j:], c.RS, n, t.accumulate, ahead, apart, ldahead)
		i += count
	}
}
