// Squared norms of the gradients of dense ops, from what goes in and what comes back.
#pragma once
#include "lanes.cuh"
#include "tile.cuh"

static const int mostGhosts = 4;

// squares is the squared norm of n values, which all lanes of a warp have: lane l of them adds the squares of values 4l to 4l+3, and of those 128
// behind, and so on, in four sums. What a lane needs of 1,024 values it reads at once.
static __device__ __forceinline__ double squares(const float *x, int n) {
	const int together = 8, values = 4 * 32 * together;
	bool aligned = ((uint32)(uint64)x | (uint32)(4 * n)) % 16 == 0;
	double sums[4] = {};
	for (int begin = 4 * ownLane(); begin - 4 * ownLane() < n; begin += values) {
		float4 v[together];
		if (aligned) {
#pragma unroll
			for (int j = 0; j < together; j++)
				v[j] = begin + 128 * j < n ? four(x + begin + 128 * j) : float4{0, 0, 0, 0};
		} else {
#pragma unroll
			for (int j = 0; j < together; j++)
#pragma unroll
				for (int k = 0; k < 4; k++)
					v[j][k] = begin + 128 * j + k < n ? x[begin + 128 * j + k] : 0;
		}
#pragma unroll
		for (int j = 0; j < together; j++)
#pragma unroll
			for (int k = 0; k < 4; k++)
				sums[k] = fma((double)v[j][k], (double)v[j][k], sums[k]);
	}
	return laneSum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// shortSquares is that of bf16 numbers, a multiple of eight at a multiple of 16 bytes: lane l has values 8l to 8l+7, and those 256 behind.
static __device__ __forceinline__ double shortSquares(const float *x, int n) {
	typedef uint32 uint4 __attribute__((ext_vector_type(4)));
	const int together = 4;
	double sums[4] = {};
	for (int begin = ownLane(); begin - ownLane() < n / 8; begin += 32 * together) {
		uint4 v[together];
#pragma unroll
		for (int j = 0; j < together; j++)
			v[j] = begin + 32 * j < n / 8 ? ((const uint4 *)x)[begin + 32 * j] : uint4{0, 0, 0, 0};
#pragma unroll
		for (int j = 0; j < together; j++)
#pragma unroll
			for (int k = 0; k < 4; k++) {
				double low = fromBits(v[j][k] << 16), high = fromBits(v[j][k] & 0xffff0000);
				sums[k] = fma(high, high, fma(low, low, sums[k]));
			}
	}
	return laneSum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// What GHOSTS say of an op: whether it has a bias, and whether its numbers are of bf16.
enum { HasBias = 1, InBF16 = 2 };

// rowSquares is the squared norm of row b, of n values.
static __device__ __forceinline__ double rowSquares(const float *x, int b, int n, int kind) {
	int64 at = (int64)b * n;
	return kind & InBF16 ? shortSquares(x + at / 2, n) : squares(x + at, n);
}

// ghostNorm is host.Ghost of a gradient, from the squared norms of what goes in and what comes back.
static __device__ __forceinline__ double ghostNorm(double xx, double dd, int kind) {
	double inputs = kind & HasBias ? xx + 1 : xx;
	return inputs > 0x1p126 ? __builtin_inf() : dd * inputs;
}

// GHOSTS are a kernel's parameters for mostGhosts ops, each with something more, and CHOOSE_GHOST sets variables of their
// names, without a number, to those of one.
#define GHOST(N, TYPE, MORE) const float *x##N, const float *dy##N, TYPE MORE##N, int in##N, int out##N, int kind##N
#define GHOSTS(TYPE, MORE) GHOST(0, TYPE, MORE), GHOST(1, TYPE, MORE), GHOST(2, TYPE, MORE), GHOST(3, TYPE, MORE)
#define SET_GHOST(N, MORE) x = x##N, dy = dy##N, MORE = MORE##N, in = in##N, out = out##N, kind = kind##N
#define CHOOSE_GHOST(I, MORE)                                                                                                              \
	switch (I) {                                                                                                                           \
	case 0:                                                                                                                                \
		SET_GHOST(0, MORE);                                                                                                                \
		break;                                                                                                                             \
	case 1:                                                                                                                                \
		SET_GHOST(1, MORE);                                                                                                                \
		break;                                                                                                                             \
	case 2:                                                                                                                                \
		SET_GHOST(2, MORE);                                                                                                                \
		break;                                                                                                                             \
	default:                                                                                                                               \
		SET_GHOST(3, MORE);                                                                                                                \
	}
