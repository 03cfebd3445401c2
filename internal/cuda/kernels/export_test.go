package kernels

import (
	"math"
	"math/big"

	"github.com/privgrad/privgrad/internal/ir"
)

// What follows only tests ask, of what a device does by another way.

// NormGhost is NormGhosts of one op.
func NormGhost(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	return NormGhosts(b, Ghost{Op: op, X: x, Dy: dy, Norm2: norm2})
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

// Fused is a·b + c, rounded once.
func Fused(a, b, c float32) float32 {
	// The product is exact in float64. The sum is rounded there, and once more at the end. That differs only
	// where the first rounding ends midway between two float32s, or below the normal ones.
	s := float64(a)*float64(b) + float64(c)
	if s != s || math.Float64bits(s)&(1<<29-1) != 1<<28 && math.Abs(s) >= 0x1p-125 {
		return float32(s)
	}
	x := func(v float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(v)) }
	y := x(a)
	y.Add(y.Mul(y, x(b)), x(c))
	f, _ := y.Float32()
	return f
}
