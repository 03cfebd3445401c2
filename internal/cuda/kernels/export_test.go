package kernels

import "github.com/privgrad/privgrad/internal/ir"

// What follows only tests ask, of what a device does by another way.

// ConvForward is y[b][o][p] = (Σ_k w[o][k]·column[b][k][p]) + bias[o]: fused operations
// in the order of the taps k from zero, then the bias; bias 0 is none. Taps that read padding may be left out.
func ConvForward(b Batch, op *ir.Op, x, w, bias, y Ptr) Launch {
	return ConvActivated(b, op, noActivation, x, w, bias, y)
}

// ConvInputGrad is the gradient at the input, dx[b][c][i][j] = Σ weights[o][c][u][v]·dy[b][o][p], over the
// filters o in order and for each over its taps (u, v) in row-major order where a position p exists that reads
// (i, j) through the tap: fused from zero. Where add is set, the sum is added to what dx has.
func ConvInputGrad(b Batch, op *ir.Op, dy, weights, dx Ptr, add bool) Launch {
	return convInputGrad(b, op, dy, weights, dx, add, 0)
}

// NormGhost adds the squared norm of each live example's gradient of a dense
// op to norm2[b], float64:
//
//	‖dy‖²·(‖x‖² + 1)   with a bias,   ‖dy‖²·‖x‖²   without,
//
// and infinity where inputs are too long, as host.Ghost.
//
// Squares are exact in float64 and added there: element i in lane (i div 4) mod 32 of a warp, in order, in the (i mod 4)-th of its sums;
// then a lane's sums two by two, then the lanes in a tree of halves. The relative
// error is below γ(n/64+20) with u = 2⁻⁵³, n the longer row; this and nothing else separates it
// from the norm of the rounded f·dy times x that DenseSum adds up, so that the margin of the
// factors covers it (docs/proofs/rounding.md, `ghost`). Dead examples' norms stay as they are.
func NormGhost(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	return NormGhosts(b, Ghost{Op: op, X: x, Dy: dy, Norm2: norm2})
}

// FusesBackward reports whether the launch of an op's input gradient can take it on
// through the activation that gave the input.
func FusesBackward(op *ir.Op, act ir.Kind) bool {
	return FusesForward(op, act) || op.Kind == ir.MaxPool || op.Kind == ir.AvgPool
}

// Keystream writes n blocks of 64 bytes of the stream of a key to dst, from block
// first of (draw, tensor) on: what Release draws from, for checks of a device
// against package stream.
func Keystream(dst Ptr, n int, key Ptr, draw uint64, tensor, first uint32) Launch {
	return Launch{
		Module: "noise", Name: "keystream", Grid: [3]int{ceil(n, noiseThreads), 1, 1}, Block: [3]int{noiseThreads, 1, 1},
		Args: []uint64{dst, I(n), key, draw, uint64(tensor), uint64(first)},
	}
}

// Draws writes the integers that digits make, for checks of a device: dst[3i], int64, i < n, is what Release makes
// of words[i], uint64, at a deviation, by rows, dst[3i+1] what it makes of it by cells, both the least int64 where it is open,
// and dst[3i+2] what it makes then of the word and of 64 bytes more, more[64i].
func Draws(dst, words, more Ptr, n int, std float64, table Ptr) Launch {
	return Launch{
		Module: "noise", Name: "draws", Grid: [3]int{n, 1, 1}, Block: [3]int{warp, 1, 1},
		Args: []uint64{dst, words, more, D(std), table},
	}
}
