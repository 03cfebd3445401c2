//go:build !noasm

package gemm

import "golang.org/x/sys/cpu"

// assembly is a variable so that tests can run the portable code as well.
var assembly = hasAVX2

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// Kernels by their number of rows.
type (
	tileKernels      []func(tiles, kc int, a *float32, lda int, b *float32, ldb int, c *float32, ldc, n int, accumulate bool, ahead *float32, ldahead int)
	correlateKernels []func(kc int, a *float32, taps *int32, x *float32, pairs *int32, n int, c *float32, ldc int, accumulate bool, bias *float32, relu bool)
	contractKernels  []func(rows, inner int, jumps *int32, x *float32, taps *int32, b, c *float32, ldc, n int, accumulate bool)
)

// kernels are those of one width of register; the narrow ones are for half a tile's columns.
type kernels struct {
	tile             tileKernels
	correlate        correlateKernels
	contract, narrow contractKernels
}

var avx2 = kernels{
	tile:      tileKernels{1: tile1, tile2, tile3, tile4, tile5, tile6},
	correlate: correlateKernels{1: correlate1, correlate2, correlate3, correlate4, correlate5, correlate6},
	contract:  contractKernels{1: contract1, contract2, contract3, contract4, contract5, contract6},
	narrow: contractKernels{
		1: contractNarrow1, contractNarrow2, contractNarrow3, contractNarrow4,
		contractNarrow5, contractNarrow6, contractNarrow7, contractNarrow8,
	},
}

func inUse() *kernels {
	if wide {
		return &avx512
	}
	return &avx2
}

// tile computes tiles times h rows of n columns, one below the other, from the start of c; the panels of A are lda apart.
// Meanwhile kc floats ahead, for each tile ldahead further on, come nearer. The indexing before a kernel proves that it
// stays within the slices; a prefetch cannot fault.
func tile(tiles, h, kc int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, ahead []float32, ldahead int) {
	if !assembly {
		tilePortable(tiles, h, kc, a, lda, b, ldb, c, ldc, n, accumulate)
		return
	}
	width := TileN
	if n <= TileN/2 {
		width = TileN / 2
	}
	_, _, _ = a[(tiles-1)*lda+(kc-1)*TileM+h-1], b[(kc-1)*ldb+width-1], c[(tiles*h-1)*ldc+n-1]
	inUse().tile[h](tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
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

// copyColumnsA packs k columns of h contiguous values, ld apart, as a panel of A; it reports false where there is no
// kernel for it.
func copyColumnsA(dst, src []float32, k, ld, h int) bool {
	if !assembly || !wide && h < TileM {
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

// copyRowsB packs rows of whole groups of TileN values, ld apart, as panels of B stride apart.
func copyRowsB(dst, src []float32, rows, groups, ld, stride int) {
	if !assembly {
		copyRowsPortable(dst, src, rows, groups, ld, stride)
		return
	}
	_, _ = dst[(groups-1)*stride+rows*TileN-1], src[(rows-1)*ld+groups*TileN-1]
	if wide {
		copyBAVX512(rows, groups, &src[0], ld, &dst[0], stride)
		return
	}
	copyB(rows, groups, &src[0], ld, &dst[0], stride)
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
