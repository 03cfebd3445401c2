//go:build (!amd64 && !arm64) || noasm

package gemm

import "github.com/privgrad/privgrad/internal/cpu/squares"

const (
	assembly, wide = false, false
	isa            = "portable"
)

func tileShape() (m, n int) { return baseM, baseN }

func tile(tiles, h, kc, step int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, _ []float32, _, _ int) {
	tilePortable(tiles, h, kc, step, a, lda, b, ldb, c, ldc, n, accumulate)
}

func transposeRowsA(_, _ []float32, _, _, _ int) bool { return false }

func transposeColumnsB(_, _ []float32, _, _, _ int) bool { return false }

func copyColumnsA(_, _ []float32, _, _, _ int) bool { return false }

func copyRowsB(_, _ []float32, _, _, _, _ int) bool { return false }

func correlate(h, _ int, a []float32, taps []int32, x []float32, pairs []int32, c []float32, ldc int, accumulate bool, bias []float32, relu bool) {
	correlatePortable(h, a, taps, x, pairs, c, ldc, accumulate, bias, relu)
}

func contract(h, _, inner int, jumps []int32, x []float32, taps []int32, b, c []float32, ldc, n int, accumulate bool) {
	contractPortable(h, inner, jumps, x, taps, b, c, ldc, n, accumulate)
}

func form() squares.Form { return squares.Portable }
