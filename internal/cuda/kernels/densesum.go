package kernels

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
)

// DenseSums is the function of this name for values in pixels, with their parts. f·dy is computed in float32, left out where it overflows, and cut off to
// the precision, toward zero; x is as it lies. So an example's share is never longer than the norm that NormGhosts measures. A block of 16 examples is
// a chain of products on tensor cores, from zero; the blocks' sums are added in float32, and the parts in float64, in the orders of that function. A bias
// has its order, and the float32 values of f·dy.
func (m Math) DenseSums(b Batch, parts Ptr, sums ...Sum) []Launch {
	return denseSums(fmt.Sprint("densesum_", device.Precision(m)), b, parts, sums, func(parts int) tile { return m.sumTile(parts, sums) })
}

var tensorSumTiles = []tile{{rows: 64, cols: 64}, {rows: 128, cols: 64}, {rows: 128, cols: 128}}

// sumTile is the tile by which the busiest multiprocessor has least to do. What it copies and reads bounds it, and grows with a tile's sides. A block
// alone takes twice as long.
func (m Math) sumTile(parts int, sums []Sum) tile {
	cost := func(t tile) int {
		return max(ceil(parts*t.blocks(sums), processors), 2) * (t.rows + t.cols)
	}
	t := slices.MinFunc(tensorSumTiles, func(a, b tile) int { return cmp.Compare(cost(a), cost(b)) })
	// Two slabs of examples and of their factors, and what four warps exchange of 32 columns.
	const examples, pad, own = 2 * sumBlock, 8, 16 * (32 + 8)
	t.shared = 4*(2*examples+denseWarps*own) + m.ElementBytes(Pixels)*2*examples*(t.rows+t.cols+2*pad)
	return t
}

// denseSumTiles are launches with every tile that there is, for what they ask of a GPU.
func (m Math) denseSumTiles() (all []Launch) {
	saved := tensorSumTiles
	defer func() { tensorSumTiles = saved }()
	for _, t := range saved {
		tensorSumTiles = []tile{t}
		all = append(all, m.DenseSums(Batch{}, 0)...)
	}
	return all
}
