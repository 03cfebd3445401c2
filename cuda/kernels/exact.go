package kernels

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// GridScale is host.Scale on the device, for exact nets: what each live
// example's whole gradient is multiplied by before it is truncated to integers,
// its clipping factor over the grid step γ of the run's Clip. grads is float32
// [example][n], rows stride elements apart: all parameters of an example, in any
// order. scale is float64 [example].
//
// It is 0 for an example that counts as zero: with a target that the loss does
// not accept, a norm that is not finite, or integers whose Σk², computed
// exactly, is above (C/γ)². Dead examples up to capacity get 0.
//
// The norm is added in float64, element i in lane i mod 256 in order, the lanes in a tree
// of halves. The bits of a scale may therefore differ from another device's where
// the norm rounds otherwise; the bound on the integers holds whatever it is.
func GridScale(run, grads Ptr, n, stride int, loss plan.Loss, outputs int, targets, scale Ptr, capacity int) Launch {
	return Launch{
		Module: "exact", Name: "grid_scale", Grid: line(capacity), Block: line(256),
		Args: []uint64{run, grads, I(n), I(stride), I(int(loss)), I(outputs), targets, scale},
	}
}

// GridCombine adds truncated gradients to integers:
//
//	sum[i] += Σ trunc(grads[example·stride + i] · scale[example]),   i < n,
//
// over the live examples whose scale is not 0. The product is rounded once to
// float64, as GridScale did. sum is int64; no addition rounds.
func GridCombine(run, scale, grads Ptr, stride, n int, sum Ptr) Launch {
	return Launch{
		Module: "exact", Name: "grid_combine", Grid: line(blocks(n, 32)), Block: [3]int{32, 8, 1},
		Args: []uint64{run, scale, grads, I(stride), I(n), sum},
	}
}

// GridRelease sets dst[i] = γ·(sum[i] + noise[i]), rounded once to float32, and then
// sum[i] = 0, i < n. noise is int64, drawn on the host by package exact; where
// the run's scalar std is 0 it is not read. γ is the step of the run's Clip.
func GridRelease(run, dst, sum, noise Ptr, n int, std device.Slot) Launch {
	return Launch{
		Module: "exact", Name: "grid_release", Grid: line(blocks(n, 256)), Block: line(256),
		Args: []uint64{run, dst, sum, noise, I(n), I(int(std))},
	}
}
