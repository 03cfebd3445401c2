//go:build !amd64 || noasm

package gemm

// What follows has kernels for amd64 alone.

// summing says that no tile adds up what lies beyond a threshold.
func summing() bool { return false }

func excess(_, _, _ int, _ []float32, _ int, _, _ []float32, _, _ int, _ float32) { agree(0, 1) }

// packing says that no tile packs B.
func packing() bool { return false }

func tilePack(_, _, _ int, _, _ []float32, _ int, _, _ []float32, _ int, _ bool) { agree(0, 1) }

// readingRows says that no kernel reads rows where they lie.
func readingRows() bool { return false }

func mulTiles(bool, int, int, int, []float32, int, []float32, []float32, int, bool, []float32) {
	agree(0, 1)
}

func turnEight(int, []float32, int, []float32, int, []float32, int) { agree(0, 1) }

func runsOfTile(int) int { return 0 }

func contractRuns(int, *product, []int32, []float32, int) {}

func contractFew(_, _, _ int, _ []int32, _ []float32, _ *laneSet, _ []float32, _ int, _ *[fewM * wideN]float32, _ bool) {
}

func (p *Picker) runs(first, h, channels int, c, x, delta []float32, at []int32) {
	p.runsPortable(first, h, channels, c, x, delta, at)
}
