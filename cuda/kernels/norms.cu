#include "run.cuh"

static const int threads = 128;

// squares is the squared norm of n values; the first thread of the block has it.
static __device__ double squares(const float *x, int n, double *scratch) {
	double sum = 0;
	for (int i = threadX(); i < n; i += threads)
		sum += (double)x[i] * (double)x[i];
	return blockSum<threads>(sum, scratch);
}

KERNEL __launch_bounds__(threads) norm_ghost(const Run *run, int first, int capacity, const float *x, const float *dy, double *norm2,
              int in, int out, int bias) {
	__shared__ double scratch[2][threads];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	double xx = squares(x + (int64)b * in, in, scratch[0]), dd = squares(dy + (int64)b * out, out, scratch[1]);
	if (threadX() == 0)
		norm2[b] += dd * (bias ? xx + 1 : xx);
}
