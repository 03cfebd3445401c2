// Squared norms of the gradients of dense ops, from what goes in and what comes back.
#pragma once
#include "common.cuh"

static const int threads = 128, mostGhosts = 4;

// squares is the squared norm of n values; the first thread of the block has it.
static __device__ __forceinline__ double squares(const float *x, int n, double *scratch) {
	double sum = 0;
	for (int i = threadX(); i < n; i += threads)
		sum += (double)x[i] * (double)x[i];
	return blockSum<threads>(sum, scratch);
}

// ghostNorm is host.Ghost of example b's gradient; the first thread of the block has it.
static __device__ __forceinline__ double ghostNorm(int b, const float *x, const float *dy, int in, int out, int bias,
                                                   double (*scratch)[threads]) {
	double xx = squares(x + (int64)b * in, in, scratch[0]), dd = squares(dy + (int64)b * out, out, scratch[1]);
	double inputs = bias ? xx + 1 : xx;
	return inputs > 0x1p126 ? __builtin_inf() : dd * inputs;
}

// GHOSTS are a kernel's parameters for mostGhosts ops, each with something more, and CHOOSE_GHOST sets variables of their
// names, without a number, to those of one.
#define GHOST(N, TYPE, MORE) const float *x##N, const float *dy##N, TYPE MORE##N, int in##N, int out##N, int bias##N
#define GHOSTS(TYPE, MORE) GHOST(0, TYPE, MORE), GHOST(1, TYPE, MORE), GHOST(2, TYPE, MORE), GHOST(3, TYPE, MORE)
#define SET_GHOST(N, MORE) x = x##N, dy = dy##N, MORE = MORE##N, in = in##N, out = out##N, bias = bias##N
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
