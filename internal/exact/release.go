package exact

import (
	"math"
	"sync"
)

const (
	// MinGrid and MaxGrid bound the grid step of a release, a power of two.
	MinGrid = 0x1p-100
	MaxGrid = 0x1p100
	// mostUnits is where a release clamps, in grid steps: with noise on top everything is exact in a float64.
	mostUnits = 0x1p49
)

// Release sets dst[i] to γ·(round(src[i]/γ) + draw first+i), rounded once to float32: the nearest multiple of a grid
// step γ, of two the even one, and a rounded Gaussian in grid steps. γ is a power of two in [MinGrid, MaxGrid]. What lies
// beyond ±2⁴⁹·γ counts as that, infinities too, and a NaN as -2⁴⁹·γ. src is as long as dst, and may be dst.
//
// Draws are Add's. Those outside [0, Draws), and another γ, set dst to NaN: a visible failure.
func (g *Sampler) Release(dst, src []float32, gridStep float64, step uint64, first int) {
	release(g, dst, src, gridStep, step, first, use.release)
}

// Release64 is Release of float64 numbers, which are not rounded a second time.
func (g *Sampler) Release64(dst, src []float64, gridStep float64, step uint64, first int) {
	release(g, dst, src, gridStep, step, first, nil)
}

func release[T float32 | float64](g *Sampler, dst, src []T, gridStep float64, step uint64, first int, kernel func(dst, src []T, words []byte, f *Fixed, r *grid) int) {
	r := grids.Get().(*grid)
	defer grids.Put(r)
	if !r.set(gridStep) || !g.holds(first, len(dst)) {
		for i := range dst {
			dst[i] = T(math.NaN())
		}
		return
	}
	g.each(len(dst), step, first,
		func(from, to int, words []byte) int {
			if kernel == nil {
				return 0
			}
			return kernel(dst[from:to], src[from:to], words, g.fixed, r)
		},
		func(i int, k int64) { dst[i] = T(float64(r.units(float64(src[i]))+k) * r.step) })
}

// A grid is what a release rounds to.
type grid struct{ step, per, least, most float64 }

// grids are kept, for what kernels are given by address would else be new at every release.
var grids = sync.Pool{New: func() any { return new(grid) }}

// set is false for what is no step of a grid.
func (r *grid) set(step float64) bool {
	fraction, _ := math.Frexp(step)
	most := mostUnits * step
	*r = grid{step, 1 / step, -most, most}
	return fraction == 0.5 && step >= MinGrid && step <= MaxGrid
}

// units is round(x/γ). The product is exact, or so small that it rounds to 0 in any case.
func (r *grid) units(x float64) int64 {
	if !(x > r.least) { // NaN too
		x = r.least
	}
	return int64(math.RoundToEven(min(x, r.most) * r.per))
}

// Units sets dst[i] to round(src[i]/γ), as Release rounds: to even, and clamped to ±2⁴⁹. It is false for a γ
// that is no step of a grid.
func Units[T float32 | float64](dst []int64, src []T, gridStep float64) bool {
	var r grid
	if !r.set(gridStep) {
		return false
	}
	for i, x := range src {
		dst[i] = r.units(float64(x))
	}
	return true
}

// Clamp limits integers to what Release takes, ±2⁴⁹.
func Clamp(k []int64) {
	for i, x := range k {
		if x > mostUnits || x < -mostUnits { // hardly ever: nothing is written
			k[i] = max(min(x, mostUnits), -mostUnits)
		}
	}
}
