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

KERNEL __launch_bounds__(64) factors(const Run *run, int first, int capacity, int clipping, int groups, const double *norm2, int loss,
              int outputs, const float *targets, float *factor, int *within) {
	int b = (int)index();
	if (b >= capacity)
		return;
	bool counts = b < liveRows(run, first, capacity) && accepted(loss, outputs, targets[b]);
	if (clipping != Unclipped)
		for (int g = 0; g < groups && counts; g++)
			counts = finite(norm2[(int64)g * capacity + b]);
	double bound = (double)run->scalars[0] / sqrt((double)groups);
	for (int g = 0; g < groups; g++) {
		float f = !counts ? 0 : clipping == Unclipped ? 1 : factorOf(clipping, bound, norm2[(int64)g * capacity + b]);
		factor[(int64)g * capacity + b] = f;
		if (within && g == 0)
			within[b] = !counts ? 0 : f == 1 ? 1 : -1;
	}
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
