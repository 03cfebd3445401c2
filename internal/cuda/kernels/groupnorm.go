package kernels

import "github.com/privgrad/privgrad/internal/ir"

const normalizeThreads = 256

// Group normalizations compute in float64 and round what they write once, beside what is added to dx. A sum over a group,
// or over a channel's positions, takes element i in lane i mod 256, in order, then the lanes in a tree of halves.

// MomentBytes is what GroupNorm leaves of an example for the way back: the mean of each group and 1/√(variance+ε).
func MomentBytes(op *ir.Op) int { return 16 * op.Groups }

func groupNorm(name string, b Batch, op *ir.Op, args ...uint64) Launch {
	size := ir.Size(op.Shape)
	return Launch{
		Module: "groupnorm", Name: name, Grid: [3]int{b.Capacity, op.Groups, 1}, Block: [3]int{normalizeThreads, 1, 1},
		Args: append(b.args(args...), I(op.Groups), I(size/op.Groups), I(size/op.Shape[0])),
	}
}

// GroupNorm is y = (x−μ)/√(v+ε)·weight + bias with the mean μ and the variance v of each example's groups, which it
// writes to moments; bias 0 is none.
func GroupNorm(b Batch, op *ir.Op, x, weight, bias, y, moments Ptr) Launch {
	l := groupNorm("group_norm", b, op, x, weight, bias, y, moments)
	l.Args = append(l.Args, D(op.Epsilon))
	return l
}

// GroupNormGrad is the gradient at the input: with g = dy·weight and x̂ = (x−μ)/√(v+ε) it is
// (g − mean(g) − x̂·mean(g·x̂))/√(v+ε), the means over a group. Where add is set, it is added to what dx has.
func GroupNormGrad(b Batch, op *ir.Op, x, dy, weight, moments, dx Ptr, add bool) Launch {
	return groupNorm("group_norm_grad", b, op, x, dy, weight, moments, dx, flag(add))
}

// GroupNormStore keeps each example's gradient at kept[b·stride…]: Σ_p dy·x̂ of each channel, then, where the op has a bias,
// Σ_p dy. It adds the squared norm of what it keeps, in float64, to norm2[b].
func GroupNormStore(b Batch, op *ir.Op, x, dy, moments, kept Ptr, stride int, norm2 Ptr) Launch {
	channels := op.Shape[0]
	return line("groupnorm", "group_norm_store", b.Capacity, normalizeThreads, b.args(x, dy, moments, kept, I(stride), norm2, flag(op.Bias != ir.None), I(op.Groups), I(channels), I(ir.Size(op.Shape)/channels))...)
}
