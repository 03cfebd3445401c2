//go:build !amd64 || noasm

package gemm

const assembly, wide = false, false

func tileShape() (m, n int) { return baseM, baseN }

func tile(tiles, h, kc int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, _ []float32, _, _ int) {
	tilePortable(tiles, h, kc, a, lda, b, ldb, c, ldc, n, accumulate)
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

func runsOfTile(int) int { return 0 }

func contractRuns(int, *product, []int32, []float32, int) {}

func contractFew(_, _, _ int, _ []int32, _ []float32, _ *laneSet, _ []float32, _ int, _ *[fewM * wideN]float32, _ bool) {
}

func lanesFor(slots int) int { return min(slots, mostLanes) }

func readSquares(lanes, channels, rows int, x []float32, plane, pitch int, v []float32, step, stride int) {
	readSquaresPortable(lanes, channels, rows, x, plane, pitch, v, step, stride)
}

func writeSquares(lanes, channels, rows, squares int, m []float32, step, stride int, y []float32, ldy, pitch int, accumulate bool, bias []float32, relu bool) {
	writeSquaresPortable(lanes, channels, rows, squares, m, step, stride, y, ldy, pitch, accumulate, bias, relu)
}

func squareRows() int { return baseM }

func spreadSquares(rows, inner int, d []float32, pitch int, b []float32, stride int) {
	spreadSquaresPortable(rows, inner, d, pitch, b, stride)
}

func contractSquares(rows, inner int, v []float32, channel, row, strideV int, b []float32, strideB int, p []float32, more bool, c []float32, ldc, n, skip int, accumulate bool) {
	contractSquaresPortable(rows, inner, v, channel, row, strideV, b, strideB, p, more, c, ldc, n, skip, accumulate)
}
