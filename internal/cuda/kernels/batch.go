package kernels

import "math"

// Batch is what a launch works on: rows First … First+Capacity−1 of a run, of
// which the first clamp(live−First, 0, Capacity) are live. Buffers of values hold
// Capacity examples, [example][element] without gaps, and are of less than
// MaxElements elements; example b is row First+b.
//
// A kernel computes live examples. It does not touch what dead ones have, unless
// its comment says so; what lies there, NaN included, never reaches a live one.
type Batch struct {
	Run             Ptr
	First, Capacity int
}

func (b Batch) args(more ...uint64) []uint64 {
	return append([]uint64{b.Run, I(b.First), I(b.Capacity)}, more...)
}

// MaxElements bounds the elements of a buffer of values, and of an op's parameters: kernels
// count them in int32. Stored gradients may be larger, as their stride is one of int64.
const MaxElements = 1<<31 - 1<<16

// D is a float64 argument.
func D(x float64) uint64 { return math.Float64bits(x) }

// flag is an integer argument, 0 or 1.
func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func ceil(n, d int) int { return (n + d - 1) / d }
