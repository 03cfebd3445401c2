//go:build !noasm

package gemm

import "golang.org/x/sys/cpu"

// assembly is a variable so that tests can run the portable code as well.
var assembly = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// tile computes the h by n tile at the start of c. The indexing before a kernel proves that it stays within the slices.
func tile(h, kc int, a, b []float32, ldb int, c []float32, ldc, n int, accumulate bool) {
	if !assembly {
		tilePortable(h, kc, a, b, ldb, c, ldc, n, accumulate)
		return
	}
	width := TileN
	if n <= 8 {
		width = 8
	}
	_, _, _ = a[(kc-1)*TileM+h-1], b[(kc-1)*ldb+width-1], c[(h-1)*ldc+n-1]
	switch h {
	case 1:
		tile1(kc, &a[0], &b[0], ldb, &c[0], ldc, n, accumulate)
	case 2:
		tile2(kc, &a[0], &b[0], ldb, &c[0], ldc, n, accumulate)
	case 3:
		tile3(kc, &a[0], &b[0], ldb, &c[0], ldc, n, accumulate)
	case 4:
		tile4(kc, &a[0], &b[0], ldb, &c[0], ldc, n, accumulate)
	case 5:
		tile5(kc, &a[0], &b[0], ldb, &c[0], ldc, n, accumulate)
	case 6:
		tile6(kc, &a[0], &b[0], ldb, &c[0], ldc, n, accumulate)
	}
}

// transposeRowsA packs h rows of k values, ld apart, as a panel of A; it reports false where there is no kernel for it.
func transposeRowsA(dst, src []float32, k, ld, h int) bool {
	if !assembly {
		return false
	}
	_, _ = dst[k*TileM-1], src[(h-1)*ld+k-1]
	transposeA(k, &src[0], ld, h, &dst[0])
	return true
}

// transposeColumnsB packs n columns of k contiguous values, ld apart, as a panel of B; it reports false where there is
// no kernel for it.
func transposeColumnsB(dst, src []float32, k, ld, n int) bool {
	if !assembly {
		return false
	}
	_, _ = dst[k*TileN-1], src[(n-1)*ld+k-1]
	transposeB(k, &src[0], ld, min(n, 8), &dst[0])
	if n > 8 {
		transposeB(k, &src[8*ld], ld, n-8, &dst[8])
		return true
	}
	for p := 0; p < k; p++ {
		clear(dst[p*TileN+8:][:8])
	}
	return true
}
