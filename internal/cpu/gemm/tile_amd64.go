//go:build !noasm

package gemm

import (
	"golang.org/x/sys/cpu"

	"github.com/privgrad/privgrad/internal/cpu/squares"
)

// assembly is a variable so that tests can run the portable code as well.
var assembly = hasAVX2

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// isa names the instruction set of the assembly, but for the wide kernels.
const isa = "AVX2+FMA"

// wide says that the AVX-512 kernels are in use; a variable so that tests can run the others as well.
var wide = assembly && hasAVX512

var hasAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2

func tileShape() (m, n int) {
	if wide {
		return wideM, wideN
	}
	return baseM, baseN
}

// Kernels by their number of rows.
type (
	tileKernels      []func(tiles, kc, step int, a *float32, lda int, b *float32, ldb int, c *float32, ldc, n int, accumulate bool, ahead *float32, apart, ldahead int)
	correlateKernels []func(kc int, a *float32, taps *int32, x *float32, pairs *int32, n int, c *float32, ldc int, accumulate bool, bias *float32, relu bool)
	excessKernels    []func(tiles, kc int, a *float32, lda int, b, above, below *float32, ld int, less float32)
	contractKernels  []func(rows, inner int, jumps *int32, x *float32, taps *int32, b, c *float32, ldc, n int, accumulate bool)
	fewKernels       []func(rows, inner int, jumps *int32, x *float32, runs, lanes *int32, d *float32, ldd int, c *float32, accumulate bool)
)

// kernels are those of one width of register; the narrow ones are for half a tile's columns.
type kernels struct {
	tile             tileKernels
	excess           excessKernels
	correlate        correlateKernels
	contract, narrow contractKernels
}

var avx2 = kernels{
	tile:      tileKernels{1: tile1, tile2, tile3, tile4, tile5, tile6},
	excess:    excessKernels{1: excess1, excess2, excess3, excess4, excess5, excess6},
	correlate: correlateKernels{1: correlate1, correlate2, correlate3, correlate4, correlate5, correlate6},
	contract:  contractKernels{1: contract1, contract2, contract3, contract4, contract5, contract6},
	narrow: contractKernels{
		1: contractNarrow1, contractNarrow2, contractNarrow3, contractNarrow4,
		contractNarrow5, contractNarrow6, contractNarrow7, contractNarrow8,
	},
}

var avx512 = kernels{
	tile: tileKernels{
		1: tile1AVX512, tile2AVX512, tile3AVX512, tile4AVX512, tile5AVX512, tile6AVX512, tile7AVX512,
		tile8AVX512, tile9AVX512, tile10AVX512, tile11AVX512, tile12AVX512, tile13AVX512, tile14AVX512,
	},
	excess: excessKernels{
		1: excess1AVX512, excess2AVX512, excess3AVX512, excess4AVX512, excess5AVX512, excess6AVX512, excess7AVX512,
		excess8AVX512, excess9AVX512, excess10AVX512, excess11AVX512, excess12AVX512, excess13AVX512, excess14AVX512,
	},
	correlate: correlateKernels{
		1: correlate1AVX512, correlate2AVX512, correlate3AVX512, correlate4AVX512, correlate5AVX512,
		correlate6AVX512, correlate7AVX512, correlate8AVX512, correlate9AVX512, correlate10AVX512,
		correlate11AVX512, correlate12AVX512, correlate13AVX512, correlate14AVX512,
	},
	contract: contractKernels{
		1: contract1AVX512, contract2AVX512, contract3AVX512, contract4AVX512,
		contract5AVX512, contract6AVX512, contract7AVX512, contract8AVX512,
	},
	narrow: contractKernels{
		1: contractNarrow1AVX512, contractNarrow2AVX512, contractNarrow3AVX512, contractNarrow4AVX512,
		contractNarrow5AVX512, contractNarrow6AVX512, contractNarrow7AVX512, contractNarrow8AVX512,
	},
}

// byRuns are the kernels for runs of taps, by the length of a run.
var byRuns = [...]struct {
	runs   int // of a tile
	kernel func(rows, inner int, jumps *int32, x *float32, runs *int32, b, c *float32, ldc, n int, accumulate bool)
}{3: {5, contractRuns3AVX512}, 4: {4, contractRuns4AVX512}, 5: {3, contractRuns5AVX512}}

// runsOfTile is how many runs of so many taps the kernel for them takes; 0 if there is none.
func runsOfTile(run int) int {
	if run < len(byRuns) {
		return byRuns[run].runs
	}
	return 0
}

// contractRuns computes as many runs of taps as its kernel takes. Contract has proved that the kernel stays within x.
func contractRuns(run int, p *product, starts []int32, c []float32, ldc int) {
	_, _, _, _ = p.jumps[p.rows-1], starts[byRuns[run].runs-1], p.b[p.rows*p.inner*TileN-1], c[(byRuns[run].runs*run-1)*ldc+p.n-1]
	byRuns[run].kernel(p.rows, p.inner, &p.jumps[0], &p.x[0], &starts[0], &p.b[0], &c[0], ldc, p.n, p.accumulate)
}

// contractFew sums over rows of positions for h channels of delta, ldd apart, into h rows of sums. Contract has proved
// that the kernel stays within x.
func contractFew(h, rows, inner int, jumps []int32, x []float32, s *laneSet, delta []float32, ldd int, sums *[fewM * wideN]float32, accumulate bool) {
	_, _ = jumps[rows-1], delta[(h-1)*ldd+rows*inner-1]
	few[h](rows, inner, &jumps[0], &x[0], &s.runs[0], &s.lanes[0], &delta[0], ldd, &sums[0], accumulate)
}

var few = fewKernels{
	1: contractFew1AVX512, contractFew2AVX512, contractFew3AVX512, contractFew4AVX512,
	contractFew5AVX512, contractFew6AVX512, contractFew7AVX512, contractFew8AVX512,
}

func inUse() *kernels {
	if wide {
		return &avx512
	}
	return &avx2
}

// tile computes tiles times h rows of n columns, one below the other, from the start of c, in blocks of step of kc that are
// added one after the other; the panels of A are lda apart. Meanwhile kc floats ahead and kc that are far behind them, for
// each tile ldahead further on, come nearer. The indexing before a kernel proves that it stays within the slices; a prefetch
// cannot fault.
func tile(tiles, h, kc, step int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, ahead []float32, apart, ldahead int) {
	if !assembly {
		tilePortable(tiles, h, kc, step, a, lda, b, ldb, c, ldc, n, accumulate)
		return
	}
	width := TileN
	if n <= TileN/2 {
		width = TileN / 2
	}
	_, _, _ = a[(tiles-1)*lda+(kc-1)*TileM+h-1], b[(kc-1)*ldb+width-1], c[(tiles*h-1)*ldc+n-1]
	inUse().tile[h](tiles, kc, step, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], apart, ldahead)
}

// summing says whether there is excess.
func summing() bool { return assembly }

// excess adds up what lies beyond ±threshold in tiles times h rows: the panels of A are lda apart, the sums ld, and those below
// lie n behind those above.
func excess(tiles, h, kc int, a []float32, lda int, b, sums []float32, n, ld int, threshold float32) {
	_, _, _ = a[(tiles-1)*lda+(kc-1)*TileM+h-1], b[kc*TileN-1], sums[(tiles-1)*ld+n+TileN-1]
	inUse().excess[h](tiles, kc, &a[0], lda, &b[0], &sums[0], &sums[n], ld, -threshold)
}

// packing says whether there is tilePack. With AVX2 it would cost what it saves.
func packing() bool { return wide }

// tilePack is tile for one tile of TileN columns that packs the panel of B, whose rows lie ldb apart, on its way.
func tilePack(h, kc, step int, a, b []float32, ldb int, packed, c []float32, ldc int, accumulate bool) {
	_, _, _, _ = a[(kc-1)*TileM+h-1], b[(kc-1)*ldb+TileN-1], packed[kc*TileN-1], c[(h-1)*ldc+TileN-1]
	packTiles[h](kc, step, &a[0], &b[0], ldb, &packed[0], &c[0], ldc, accumulate)
}

var packTiles = [...]func(kc, step int, a *float32, b *float32, ldb int, packed *float32, c *float32, ldc int, accumulate bool){
	1: tilePack1AVX512, tilePack2AVX512, tilePack3AVX512, tilePack4AVX512, tilePack5AVX512, tilePack6AVX512, tilePack7AVX512,
	tilePack8AVX512, tilePack9AVX512, tilePack10AVX512, tilePack11AVX512, tilePack12AVX512, tilePack13AVX512, tilePack14AVX512,
}

// readingRows says whether there are mulTiles and turnEight. There are none for the wider registers of AVX-512.
func readingRows() bool { return assembly && !wide }

// mulTiles computes tiles times h rows, one below the other, of TileN columns, or of half as many if narrow, from rows a, lda
// apart, and a panel of B. Meanwhile kc floats ahead, and for each tile lda further on, come nearer.
func mulTiles(narrow bool, tiles, h, kc int, a []float32, lda int, b, c []float32, ldc int, accumulate bool, ahead []float32) {
	kernels, width := byRows[:], TileN
	if narrow {
		kernels, width = byRowsNarrow[:], TileN/2
	}
	_, _, _ = a[(tiles*h-1)*lda+kc-1], b[(kc-1)*TileN+width-1], c[(tiles*h-1)*ldc+width-1]
	kernels[h](tiles, kc, &a[0], lda, &b[0], &c[0], ldc, accumulate, &ahead[0], lda)
}

type rowsKernel func(tiles, kc int, a *float32, lda int, b, c *float32, ldc int, accumulate bool, ahead *float32, ldahead int)

// By their number of rows.
var (
	byRows       = [...]rowsKernel{1: rows1, rows2, rows3, rows4, rows5, rows6}
	byRowsNarrow = [...]rowsKernel{
		1: rowsNarrow1, rowsNarrow2, rowsNarrow3, rowsNarrow4, rowsNarrow5, rowsNarrow6,
		rowsNarrow7, rowsNarrow8, rowsNarrow9, rowsNarrow10, rowsNarrow11, rowsNarrow12,
	}
)

// turnEight writes eight rows of groups of eight floats, lds apart, as columns of dst, and adds eight values of bias from at
// on, unless it is nil.
func turnEight(groups int, src []float32, lds int, bias []float32, at int, dst []float32, ldd int) {
	var first *float32
	if bias != nil {
		first = &bias[at : at+8][0]
	}
	_, _ = src[7*lds+8*groups-1], dst[(8*groups-1)*ldd+7]
	turnBack(groups, &src[0], lds, first, &dst[0], ldd)
}

// transposeRowsA packs h rows of k values, ld apart, as a panel of A; it reports false where there is no kernel for it.
func transposeRowsA(dst, src []float32, k, ld, h int) bool {
	if !assembly {
		return false
	}
	_, _ = dst[k*TileM-1], src[(h-1)*ld+k-1]
	if wide {
		transposeRowsAWide(dst, src, k, ld, h)
		return true
	}
	transposeA(k, &src[0], ld, h, &dst[0])
	return true
}

// copyColumnsA packs k columns of h contiguous values, ld apart, as a panel of A if there is a kernel for it.
func copyColumnsA(dst, src []float32, k, ld, h int) bool {
	if !assembly || !wide && len(src) < (k-1)*ld+TileM { // the narrow kernel copies whole columns
		return false
	}
	_, _ = dst[k*TileM-1], src[(k-1)*ld+h-1]
	if wide {
		copyAAVX512(k, &src[0], ld, h, &dst[0])
		return true
	}
	copyA(k, &src[0], ld, &dst[0])
	return true
}

// copyRowsB packs rows of whole groups of TileN values, ld apart, as panels of B stride apart if there is a kernel for it.
func copyRowsB(dst, src []float32, rows, groups, ld, stride int) bool {
	if !assembly {
		return false
	}
	_, _ = dst[(groups-1)*stride+rows*TileN-1], src[(rows-1)*ld+groups*TileN-1]
	if wide {
		copyBAVX512(rows, groups, &src[0], ld, &dst[0], stride)
	} else {
		copyB(rows, groups, &src[0], ld, &dst[0], stride)
	}
	return true
}

// transposeColumnsB packs n columns of k contiguous values, ld apart, as a panel of B; it reports false where there is
// no kernel for it. What kernels do not read beyond n stays unspecified.
func transposeColumnsB(dst, src []float32, k, ld, n int) bool {
	if !assembly {
		return false
	}
	_, _ = dst[k*TileN-1], src[(n-1)*ld+k-1]
	if wide {
		transposeColumnsBWide(dst, src, k, ld, n)
		return true
	}
	transposeB(k, &src[0], ld, min(n, 8), &dst[0])
	if n > 8 { // kernels read no more than eight columns of fewer
		transposeB(k, &src[8*ld], ld, n-8, &dst[8])
	}
	return true
}

// correlate computes h rows of outputs. Correlate has proved that the kernel stays within x and c.
func correlate(h, kc int, a []float32, taps []int32, x []float32, pairs []int32, c []float32, ldc int, accumulate bool, bias []float32, relu bool) {
	if !assembly {
		correlatePortable(h, a, taps, x, pairs, c, ldc, accumulate, bias, relu)
		return
	}
	_ = a[(kc-1)*TileM+h-1]
	n := len(pairs) / pairWords
	var first *float32
	if bias != nil {
		first = &bias[:h][0]
	}
	inUse().correlate[h](kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
}

// contract computes h rows of a gradient. Contract has proved that the kernel stays within x.
func contract(h, rows, inner int, jumps []int32, x []float32, taps []int32, b, c []float32, ldc, n int, accumulate bool) {
	if !assembly {
		contractPortable(h, inner, jumps, x, taps, b, c, ldc, n, accumulate)
		return
	}
	_, _, _, _ = jumps[rows-1], taps[h-1], b[rows*inner*TileN-1], c[(h-1)*ldc+n-1]
	byRows := inUse().contract
	if n <= TileN/2 {
		byRows = inUse().narrow
	}
	byRows[h](rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
}

// runs sums h runs of taps, from number first on, over every channel's windows. Contract has proved that the kernel stays
// within x, as long as at names outputs of the window's channel.
func (p *Picker) runs(first, h, channels int, c, x, delta []float32, at []int32) {
	if !assembly {
		p.runsPortable(first, h, channels, c, x, delta, at)
		return
	}
	t := p.taps
	k := len(t.offsets)
	_, _, _ = at[channels*p.windows-1], t.starts[first+h-1], c[(channels-1)*k+h*t.run-1]
	byPicks[h](channels, p.windows, &delta[0], &at[0], t.Outputs(), &p.places[0], &x[0], &t.starts[first], &c[0], k, t.run)
}

// byPicks are the kernels by the number of runs. They need AVX2 alone: few runs would fill a wider register.
var byPicks = [...]func(channels, windows int, delta *float32, at *int32, outputs int, places *int32, x *float32, runs *int32, c *float32, ldc, run int){
	1: picks1, picks2, picks3, picks4, picks5, picks6, picks7, picks8,
}

// transposeRowsAWide is transposeRowsA for wider panels. It needs AVX2 alone where the wide kernels are not in use.
func transposeRowsAWide(dst, src []float32, k, ld, h int) {
	if wide {
		switch h {
		case 12:
			turnA12AVX512(k, &src[0], ld, &dst[0])
			return
		case 13:
			turnA13AVX512(k, &src[0], ld, &dst[0])
			return
		case 14:
			turnA14AVX512(k, &src[0], ld, &dst[0])
			return
		}
	}
	transposeLowAAVX512(k, &src[0], ld, min(h, 8), &dst[0])
	if h > 8 {
		transposeAAVX512(k, &src[8*ld], ld, h-8, &dst[8])
	}
}

// transposeColumnsBWide is transposeColumnsB for wider panels. It needs AVX2 alone where the wide kernels are not in use.
func transposeColumnsBWide(dst, src []float32, k, ld, n int) {
	j := 0
	for ; wide && j+16 <= n; j += 16 {
		turnBAVX512(k, &src[j*ld], ld, &dst[j])
	}
	for ; j < n; j += 8 {
		transposeBAVX512(k, &src[j*ld], ld, min(n-j, 8), &dst[j])
	}
	from, to := (n+7)&^7, wideN
	if n <= wideN/2 {
		to = wideN / 2
	}
	if from < to {
		for p := range k {
			clear(dst[p*wideN+from : p*wideN+to])
		}
	}
}

// form is that of transforms to and from the products in use.
func form() squares.Form {
	switch {
	case wide:
		return squares.AVX512
	case assembly:
		return squares.AVX2
	}
	return squares.Portable
}
