// The lattice on which an exact net sums at a clip norm: device.Grid.
#pragma once
#include "common.cuh"

struct Grid {
	double step;  // the largest power of two that is at most clip·2^-20
	uint64 most2; // floor((clip/step)^2)
};

// gridOf takes a finite clip norm above 0. As a float64 it is normal and has at most 24 digits m: clip/step = m/8.
static __device__ __forceinline__ Grid gridOf(float clip) {
	uint64 x = __builtin_bit_cast(uint64, (double)clip);
	uint64 m = 1 << 23 | (x >> 29 & 0x7fffff);
	return {__builtin_bit_cast(double, ((x >> 52) - 20) << 52), m * m >> 6};
}
