#include "run.cuh"

KERNEL __launch_bounds__(256) dense_store(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                          int stride, double *norm2, int in, int out, int bias) {
	__shared__ double scratch[256];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * in, dy += b * out, kept += (int64)b * stride;
	double squares = 0;
	int weights = in * out;
	for (int e = threadX(); e < (bias ? weights + out : weights); e += 256) {
		float v = e < weights ? dy[e / in] * x[e % in] : dy[e - weights];
		kept[e] = v;
		squares = fma(v, v, squares);
	}
	squares = blockSum<256>(squares, scratch);
	if (threadX() == 0)
		norm2[b] += squares;
}
