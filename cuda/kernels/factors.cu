#include "run.cuh"
#include "target.cuh"

enum Clipping { Unclipped, Flat, PerLayer, Automatic };

static const int threads = 128; // of count

// down rounds x, which is not negative, down.
static __device__ float down(double x) {
	float y = (float)x;
	return (double)y > x ? fromBits(bits(y) - 1) : y;
}

// factor is host.Factors for one norm.
static __device__ float factorOf(int clipping, double bound, double norm2) {
	const double margin = 0x1p-22, gamma = 0.01;
	double norm = sqrt(norm2) * (1 + margin);
	if (clipping == Automatic)
		return down(bound / (norm + gamma));
	return norm <= bound ? 1 : down(bound / norm);
}

KERNEL __launch_bounds__(64) factors(const Run *run, int first, int capacity, int clipping, int groups, int parts, const double *norm2, int loss,
              int outputs, const float *targets, float *factor, int *within) {
	int b = (int)index();
	if (b >= capacity)
		return;
	bool counts = b < liveRows(run, first, capacity) && accepted(loss, outputs, targets[b]);
	double bound = (double)run->scalars[0] / sqrt((double)groups);
	for (int g = 0; g < groups; g++) {
		float f = counts ? 1 : 0;
		if (counts && clipping != Unclipped) {
			double sum = 0;
#pragma unroll 8
			for (int i = g * parts; i < (g + 1) * parts; i++)
				sum += norm2[(int64)i * capacity + b];
			counts = finite(sum);
			f = factorOf(clipping, bound, sum);
		}
		factor[(int64)g * capacity + b] = f;
	}
	for (int g = 0; g < groups && !counts; g++)
		factor[(int64)g * capacity + b] = 0;
	if (within)
		within[b] = !counts ? 0 : factor[b] == 1 ? 1 : -1;
}

KERNEL __launch_bounds__(threads) count(const Run *run, int first, int capacity, const int *within, double *count) {
	__shared__ double scratch[threads];
	int n = 0;
	for (int b = threadX(); b < liveRows(run, first, capacity); b += threads)
		n += within[b];
	double sum = blockSum<threads>(n, scratch); // of integers: exact
	if (threadX() == 0)
		*count += 0.5 * sum;
}
