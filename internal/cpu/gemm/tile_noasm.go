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

// packing says that no tile packs B.
func packing() bool { return false }

func tilePack(_, _, _ int, _, _ []float32, _ int, _, _ []float32, _ int, _ bool) { agree(0, 1) }

// readingRows says that no kernel reads rows where they lie.
func readingRows() bool { return false }

func mulTiles(bool, int, int, int, []float32, int, []float32, []float32, int, bool, []float32) {
	agree(0, 1)
}

func turnEight(int, []float32, int, []float32, int, []float32, int) { agree(0, 1) }

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

func (p *Picker) runs(first, h, channels int, c, x, delta []float32, at []int32) {
	p.runsPortable(first, h, channels, c, x, delta, at)
}

func form() squares.Form { return squares.Portable }
