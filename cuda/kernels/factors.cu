#include "run.cuh"
#include "squares.cuh"
#include "target.cuh"

enum Clipping { Unclipped, Flat, PerLayer, Automatic };

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

KERNEL __launch_bounds__(threads) factors(const Run *run, int first, int capacity, int clipping, int groups, int parts,
              const double *norm2, int loss, int outputs, const float *targets, float *factor, int *within, int ghosts, GHOSTS(int, group)) {
	__shared__ double scratch[2][threads], ghost[mostGhosts];
	__shared__ int ghostGroups[mostGhosts], spoiled;
	int b = blockX(), t = threadX();
	bool counts = b < liveRows(run, first, capacity) && accepted(loss, outputs, targets[b]);
	for (int i = 0; i < ghosts && counts && clipping != Unclipped; i++) {
		const float *x, *dy;
		int in, out, bias, group;
		CHOOSE_GHOST(i, group)
		double n = ghostNorm(b, x, dy, in, out, bias, scratch);
		if (t == 0)
			ghost[i] = n, ghostGroups[i] = group;
	}
	if (t == 0)
		spoiled = 0;
	barrier();
	double bound = (double)run->scalars[slot::Clip] / sqrt((double)groups);
	for (int g = t; g < groups; g += threads) {
		float f = counts ? 1 : 0;
		if (counts && clipping != Unclipped) {
			double sum = 0;
#pragma unroll 8
			for (int i = g * parts; i < (g + 1) * parts; i++)
				sum += norm2[(int64)i * capacity + b];
			for (int i = 0; i < ghosts; i++)
				if (ghostGroups[i] == g)
					sum += ghost[i];
			if (!finite(sum))
				atomicOr(&spoiled, 1);
			f = factorOf(clipping, bound, sum);
		}
		factor[(int64)g * capacity + b] = f;
	}
	barrier();
	counts = counts && !spoiled;
	for (int g = t; g < groups && !counts; g += threads)
		factor[(int64)g * capacity + b] = 0;
	if (within && t == 0)
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
