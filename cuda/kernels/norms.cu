#include "run.cuh"

static const int threads = 128;

// squares is the squared norm of n values; the first thread of the block has it.
static __device__ double squares(const float *x, int n, double *scratch) {
	double sum = 0;
	for (int i = threadX(); i < n; i += threads)
		sum += (double)x[i] * (double)x[i];
	return blockSum<threads>(sum, scratch);
}

// What one dense op is measured by.
#define LAYER(N) const float *x##N, const float *dy##N, double *norm2##N, int in##N, int out##N, int bias##N
#define CASE(N)                                                                                                                            \
	case N:                                                                                                                                \
		x = x##N, dy = dy##N, norm2 = norm2##N, in = in##N, out = out##N, bias = bias##N;                                                  \
		break;

KERNEL __launch_bounds__(threads) norm_ghost(const Run *run, int first, int capacity, LAYER(0), LAYER(1), LAYER(2), LAYER(3)) {
	__shared__ double scratch[2][threads];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	const float *x, *dy;
	double *norm2;
	int in, out, bias;
	switch (blockY()) {
		CASE(0)
		CASE(1)
		CASE(2)
	default:
		CASE(3)
	}
	double xx = squares(x + (int64)b * in, in, scratch[0]), dd = squares(dy + (int64)b * out, out, scratch[1]);
	if (threadX() == 0)
		norm2[b] += dd * (bias ? xx + 1 : xx);
}
