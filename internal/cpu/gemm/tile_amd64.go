//go:build !noasm

package gemm

import "golang.org/x/sys/cpu"

// assembly is a variable so that tests can run the portable code as well.
var assembly = hasAVX2

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// tile computes tiles times h rows of n columns, one below the other, from the start of c; the panels of A are lda apart.
// Meanwhile kc floats ahead, for each tile ldahead further on, come nearer. The indexing before a kernel proves that it
// stays within the slices; a prefetch cannot fault.
func tile(tiles, h, kc int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, ahead []float32, ldahead int) {
	if !assembly {
		tilePortable(tiles, h, kc, a, lda, b, ldb, c, ldc, n, accumulate)
		return
	}
	if wide {
		tileWide(tiles, h, kc, a, lda, b, ldb, c, ldc, n, accumulate, ahead, ldahead)
		return
	}
	width := TileN
	if n <= 8 {
		width = 8
	}
	_, _, _ = a[(tiles-1)*lda+(kc-1)*TileM+h-1], b[(kc-1)*ldb+width-1], c[(tiles*h-1)*ldc+n-1]
	switch h {
	case 1:
		tile1(tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
	case 2:
		tile2(tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
	case 3:
		tile3(tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
	case 4:
		tile4(tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
	case 5:
		tile5(tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
	case 6:
		tile6(tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
	}
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
	if n > 8 {
		transposeB(k, &src[8*ld], ld, n-8, &dst[8])
		return true
	}
	return true // kernels read no more than eight columns of so few
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
	if wide {
		correlateWide[h](kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
		return
	}
	switch h {
	case 1:
		correlate1(kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
	case 2:
		correlate2(kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
	case 3:
		correlate3(kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
	case 4:
		correlate4(kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
	case 5:
		correlate5(kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
	case 6:
		correlate6(kc, &a[0], &taps[0], &x[0], &pairs[0], n, &c[0], ldc, accumulate, first, relu)
	}
}

// contract computes h rows of a gradient. Contract has proved that the kernel stays within x.
func contract(h, rows, inner int, jumps []int32, x []float32, taps []int32, b, c []float32, ldc, n int, accumulate bool) {
	if !assembly {
		contractPortable(h, inner, jumps, x, taps, b, c, ldc, n, accumulate)
		return
	}
	_, _, _, _ = jumps[rows-1], taps[h-1], b[rows*inner*TileN-1], c[(h-1)*ldc+n-1]
	if wide {
		kernel := contractWide[h]
		if n <= wideN/2 {
			kernel = contractWideNarrow[h]
		}
		kernel(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		return
	}
	if n <= group {
		switch h {
		case 1:
			contractNarrow1(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 2:
			contractNarrow2(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 3:
			contractNarrow3(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 4:
			contractNarrow4(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 5:
			contractNarrow5(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 6:
			contractNarrow6(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 7:
			contractNarrow7(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		case 8:
			contractNarrow8(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
		}
		return
	}
	switch h {
	case 1:
		contract1(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
	case 2:
		contract2(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
	case 3:
		contract3(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
	case 4:
		contract4(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
	case 5:
		contract5(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
	case 6:
		contract6(rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, n, accumulate)
	}
}
