package kernels

import "fmt"

// layernorm.cu has the same.
const (
	layerThreads = 256
	layerGroups  = 8 // of a block's threads, which share the rows of an example
)

// Layer normalizations compute in float64 and round what they write once, beside what is added to dx. An example has rows of so many
// elements. A sum over a row takes element i in lane i mod L, in order, then the lanes in a tree of halves: L is 32, a warp, for rows
// of at most layerWarp elements, and else 256.

const layerWarp = 512

// LayerNormMomentBytes is what LayerNorm leaves of an example for the way back: the mean of each row and 1/√(variance+ε), float64.
func LayerNormMomentBytes(rows int) int { return 16 * rows }

func layerNorm(name string, b Batch, rows, size int, args ...uint64) Launch {
	lanes := warp
	if size > layerWarp {
		lanes = layerThreads
	}
	return line("layernorm", fmt.Sprint(name, "_", lanes), ceil(b.Capacity*rows, layerThreads/lanes), layerThreads,
		append(b.args(args...), I(rows), I(size))...)
}

// LayerNorm is y = (x−μ)/√(v+ε)·weight + bias with the mean μ and the variance v, of the population, of each row of size elements. It writes
// μ and 1/√(v+ε) to moments[example][row]. weight and bias have a value for each element of a row; bias 0 is none.
func LayerNorm(b Batch, rows, size int, epsilon float64, x, weight, bias, y, moments Ptr) Launch {
	l := layerNorm("layer_norm", b, rows, size, x, weight, bias, y, moments)
	l.Args = append(l.Args, D(epsilon))
	return l
}

// LayerNormGrad is the gradient at the input: with g = dy·weight and x̂ = (x−μ)/√(v+ε) it is
// (g − mean(g) − x̂·mean(g·x̂))/√(v+ε), the means over a row. Where add is set, it is added to what dx has.
func LayerNormGrad(b Batch, rows, size int, x, dy, weight, moments, dx Ptr, add bool) Launch {
	return layerNorm("layer_norm_grad", b, rows, size, x, dy, weight, moments, dx, flag(add))
}

// LayerNormStore keeps each example's gradient at kept[b·stride…]: Σ dy·x̂ over the rows for each element, then, with a bias,
// Σ dy. It adds the squared norm of what it keeps, in float64, to norm2[b]. stride counts float32 values.
//
// A sum over fewer than 8 rows takes them in order. Of more rows, every eighth belongs to a group, which adds its rows in order from zero; then
// the groups are added in order. The squares are added lane by lane, element i in lane i mod 256, or mod 32 of groups, then the lanes in a
// tree of halves: the relative error of the norm is below γ(size/16+11) with u = 2⁻⁵³.
func LayerNormStore(b Batch, rows, size int, x, dy, moments, kept Ptr, stride int, norm2 Ptr, bias bool) Launch {
	groups := 1
	if rows >= layerGroups {
		groups = layerGroups
	}
	return line("layernorm", fmt.Sprint("layer_norm_store_", groups), b.Capacity, layerThreads,
		b.args(x, dy, moments, kept, I(stride), norm2, flag(bias), I(rows), I(size))...)
}
