//go:build !amd64 || noasm

package gemm

const assembly = false

func tile(h, kc int, a, b []float32, ldb int, c []float32, ldc, n int, accumulate bool) {
	tilePortable(h, kc, a, b, ldb, c, ldc, n, accumulate)
}

func transposeRowsA(_, _ []float32, _, _, _ int) bool { return false }

func transposeColumnsB(_, _ []float32, _, _, _ int) bool { return false }
