package exact

import (
	"encoding/binary"
	"math"
)

const (
	// MinGrid and MaxGrid bound the grid step of a release, a power of two.
	MinGrid = 0x1p-100
	MaxGrid = 0x1p100
	// mostUnits is where a release clamps, in grid steps: with noise on top everything is exact in a float64.
	mostUnits = 0x1p49
)

// Release sets dst[i] to grid·(round(src[i]/grid) + draw first+i), rounded once to float32: the nearest multiple of
// the grid step, of two the even one, plus a rounded Gaussian in integers. The grid step is a power of two in
// [MinGrid, MaxGrid]. What lies beyond ±2⁴⁹ grid steps counts as these, and so does an infinity; a NaN counts as the
// lower one. dst may be src.
//
// Draws are Add's. Those outside [0, Draws), and another grid step, set dst to NaN: a visible failure.
func (g *Sampler) Release(dst, src []float32, grid float64, step uint64, first int) {
	release(g, dst, src, grid, step, first)
}

// Release64 is Release of float64 numbers, which is exact: a multiple of the grid step.
func (g *Sampler) Release64(dst, src []float64, grid float64, step uint64, first int) {
	release(g, dst, src, grid, step, first)
}

func release[T float32 | float64](g *Sampler, dst, src []T, grid float64, step uint64, first int) {
	if !g.holds(first, len(dst)) || !isGrid(grid) {
		for i := range dst {
			dst[i] = T(math.NaN())
		}
		return
	}
	buf := chunks.Get().(*buffer)
	defer chunks.Put(buf)
	for len(dst) > 0 {
		words := g.words(buf, step, first, len(dst))
		n := len(words) / 8
		for i, x := range src[:n] {
			k := units(float64(x), grid) + g.draw(binary.LittleEndian.Uint64(words[8*i:]), step, first+i)
			dst[i] = T(float64(k) * grid)
		}
		dst, src, first = dst[n:], src[n:], first+n
	}
}

func isGrid(grid float64) bool {
	fraction, _ := math.Frexp(grid)
	return fraction == 0.5 && grid >= MinGrid && grid <= MaxGrid
}

// units is round(x/grid). The product is exact, or so small that both round to 0.
func units(x, grid float64) int64 {
	most := mostUnits * grid
	if !(x > -most) { // NaN too
		x = -most
	}
	return int64(math.RoundToEven(min(x, most) * (1 / grid)))
}
