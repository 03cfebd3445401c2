#include "run.cuh"

KERNEL __launch_bounds__(256) axpy(const Run *run, int slot, int n, const float *x, float *y) {
	int i = index();
	if (i < n)
		y[i] = fmaf(run->scalars[slot], x[i], y[i]);
}

enum { threads = 256, dotBlock = 4096 }; // vectors.go has the same

KERNEL __launch_bounds__(threads) dot_parts(int n, const float *x, const float *y, double *parts) {
	__shared__ double scratch[threads];
	int begin = blockX() * dotBlock;
	double sum = 0;
	for (int i = begin + threadX(); i < min(begin + dotBlock, n); i += threads)
		sum += (double)x[i] * y[i]; // the product is exact
	double total = blockSum<threads>(sum, scratch);
	if (threadX() == 0)
		parts[blockX()] = total;
}

KERNEL __launch_bounds__(threads) dot_sum(int n, const double *parts, double *dst) {
	__shared__ double scratch[threads];
	double sum = 0;
	for (int i = threadX(); i < n; i += threads)
		sum += parts[i];
	double total = blockSum<threads>(sum, scratch);
	if (threadX() == 0)
		*dst = total;
}
