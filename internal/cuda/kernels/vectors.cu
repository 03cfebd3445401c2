#include "run.cuh"

KERNEL __launch_bounds__(256) axpy(const Run *run, int slot, int n, const float *x, float *y) {
	int i = index();
	if (i < n)
		y[i] = fmaf(run->scalars[slot], x[i], y[i]);
}

enum { threads = 256, dotBlock = 4096 }; // vectors.go has the same

// blockDot is the inner product of a block's elements; products of float32 are exact.
template <class T> static __device__ __forceinline__ double blockDot(int n, const T *x, const T *y, double *scratch) {
	int begin = blockX() * dotBlock;
	double sum = 0;
	for (int i = begin + threadX(); i < min(begin + dotBlock, n); i += threads)
		sum += (double)x[i] * (double)y[i];
	return blockSum<threads>(sum, scratch);
}

// total is the sum of n parts.
static __device__ __forceinline__ double total(int n, const double *parts, double *scratch) {
	double sum = 0;
	for (int i = threadX(); i < n; i += threads)
		sum += parts[i];
	return blockSum<threads>(sum, scratch);
}

KERNEL __launch_bounds__(threads) dot_parts(int n, const float *x, const float *y, double *parts) {
	__shared__ double scratch[threads];
	double sum = blockDot(n, x, y, scratch);
	if (threadX() == 0)
		parts[blockX()] = sum;
}

KERNEL __launch_bounds__(threads) dot_sum(int n, const double *parts, double *dst) {
	__shared__ double scratch[threads];
	double sum = total(n, parts, scratch);
	if (threadX() == 0)
		*dst = sum;
}

KERNEL __launch_bounds__(threads) square_parts(int n, const double *x, double *parts) {
	__shared__ double scratch[threads];
	double sum = blockDot(n, x, x, scratch);
	if (threadX() == 0)
		parts[blockX()] = sum;
}

KERNEL __launch_bounds__(threads) add_norm(int n, const double *parts, double *dst) {
	__shared__ double scratch[threads];
	double sum = total(n, parts, scratch);
	if (threadX() == 0)
		*dst += sqrt(sum);
}
