//go:build !noasm

package gemm

import "golang.org/x/sys/cpu"

// The tile of the AVX-512 kernels: twenty-eight accumulators of sixteen.
const (
	wideM = 14
	wideN = 32
)

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
var (
	tilesWide = [...]func(tiles, kc int, a *float32, lda int, b *float32, ldb int, c *float32, ldc, n int, accumulate bool, ahead *float32, ldahead int){
		1:  tile1AVX512,
		2:  tile2AVX512,
		3:  tile3AVX512,
		4:  tile4AVX512,
		5:  tile5AVX512,
		6:  tile6AVX512,
		7:  tile7AVX512,
		8:  tile8AVX512,
		9:  tile9AVX512,
		10: tile10AVX512,
		11: tile11AVX512,
		12: tile12AVX512,
		13: tile13AVX512,
		14: tile14AVX512,
	}
	correlateWide = [...]func(kc int, a *float32, taps *int32, x *float32, pairs *int32, n int, c *float32, ldc int, accumulate bool, bias *float32, relu bool){
		1:  correlate1AVX512,
		2:  correlate2AVX512,
		3:  correlate3AVX512,
		4:  correlate4AVX512,
		5:  correlate5AVX512,
		6:  correlate6AVX512,
		7:  correlate7AVX512,
		8:  correlate8AVX512,
		9:  correlate9AVX512,
		10: correlate10AVX512,
		11: correlate11AVX512,
		12: correlate12AVX512,
		13: correlate13AVX512,
		14: correlate14AVX512,
	}
	contractWide = [...]func(rows, inner int, jumps *int32, x *float32, taps *int32, b, c *float32, ldc, n int, accumulate bool){
		1: contract1AVX512,
		2: contract2AVX512,
		3: contract3AVX512,
		4: contract4AVX512,
		5: contract5AVX512,
		6: contract6AVX512,
		7: contract7AVX512,
		8: contract8AVX512,
	}
	contractWideNarrow = [...]func(rows, inner int, jumps *int32, x *float32, taps *int32, b, c *float32, ldc, n int, accumulate bool){
		1: contractNarrow1AVX512,
		2: contractNarrow2AVX512,
		3: contractNarrow3AVX512,
		4: contractNarrow4AVX512,
		5: contractNarrow5AVX512,
		6: contractNarrow6AVX512,
		7: contractNarrow7AVX512,
		8: contractNarrow8AVX512,
	}
)

// tileWide is tile in wider registers.
func tileWide(tiles, h, kc int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, ahead []float32, ldahead int) {
	width := wideN
	if n <= wideN/2 {
		width = wideN / 2
	}
	_, _, _ = a[(tiles-1)*lda+(kc-1)*wideM+h-1], b[(kc-1)*ldb+width-1], c[(tiles*h-1)*ldc+n-1]
	tilesWide[h](tiles, kc, &a[0], lda, &b[0], ldb, &c[0], ldc, n, accumulate, &ahead[0], ldahead)
}

// transposeRowsAWide packs h rows of k values, ld apart, as a panel of A. It needs AVX2 alone.
func transposeRowsAWide(dst, src []float32, k, ld, h int) {
	transposeLowAAVX512(k, &src[0], ld, min(h, 8), &dst[0])
	if h > 8 {
		transposeAAVX512(k, &src[8*ld], ld, h-8, &dst[8])
	}
}

// transposeColumnsBWide packs n columns of k contiguous values, ld apart, as a panel of B. It needs AVX2 alone.
func transposeColumnsBWide(dst, src []float32, k, ld, n int) {
	for j := 0; j < n; j += 8 {
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
