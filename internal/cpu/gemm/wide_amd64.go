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

var avx512 = kernels{
	tile: tileKernels{
		1: tile1AVX512, tile2AVX512, tile3AVX512, tile4AVX512, tile5AVX512, tile6AVX512, tile7AVX512,
		tile8AVX512, tile9AVX512, tile10AVX512, tile11AVX512, tile12AVX512, tile13AVX512, tile14AVX512,
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
