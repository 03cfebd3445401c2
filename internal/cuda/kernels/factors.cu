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

// Warps share the work: each has a row of a ghost's, then every so many a group.
KERNEL __launch_bounds__(256) factors(const Run *run, int first, int capacity, int clipping, int groups, int parts, const double *norm2, int loss,
                                      int outputs, const float *targets, float *factor, int *within, int ghosts, GHOSTS(int, group)) {
	__shared__ double rows[mostGhosts][2];
	__shared__ float leading;
	__shared__ int spoiled;
	const int ghostGroups[] = {group0, group1, group2, group3}, kinds[] = {kind0, kind1, kind2, kind3};
	int b = blockX(), warp = threadX() / 32, lane = ownLane();
	double bound = (double)run->scalars[slot::Clip] / sqrt((double)groups);
	float target = targets[b];
	bool counts = b < liveRows(run, first, capacity) && accepted(loss, outputs, target), measures = counts && clipping != Unclipped;
	auto measured = [&](int g) INLINE {
		const double *part = norm2 + (int64)g * parts * capacity + b;
		double sum = 0;
#pragma unroll 1
		for (int i = lane; i < parts; i += 32)
			sum += part[(int64)i * capacity];
		return laneSum(sum);
	};
	double own = 0;
	if (measures && warp < groups)
		own = measured(warp);
	if (measures && warp < 2 * ghosts) {
		const float *x, *dy;
		int in, out, kind, group;
		CHOOSE_GHOST(warp / 2, group)
		int n = warp % 2 ? out : in;
		double sum = rowSquares(warp % 2 ? dy : x, b, n, kind);
		if (lane == 0)
			rows[warp / 2][warp % 2] = sum;
	}
	if (threadX() == 0)
		spoiled = 0;
	barrier();
	for (int g = warp; g < groups; g += threadsX() / 32) {
		float f = counts ? 1 : 0;
		if (measures) {
			double sum = g == warp ? own : measured(g);
#pragma unroll
			for (int i = 0; i < mostGhosts; i++)
				if (i < ghosts && ghostGroups[i] == g)
					sum += ghostNorm(rows[i][0], rows[i][1], kinds[i]);
			if (lane == 0 && !finite(sum))
				atomicOr(&spoiled, 1);
			f = factorOf(clipping, bound, sum);
		}
		if (lane == 0)
			factor[(int64)g * capacity + b] = f;
		if (threadX() == 0 && g == 0)
			leading = f;
	}
	barrier();
	for (int g = threadX(); g < groups && spoiled; g += threadsX())
		factor[(int64)g * capacity + b] = 0;
	if (within && threadX() == 0)
		within[b] = !counts || spoiled ? 0 : leading == 1 ? 1 : -1;
}

static const int threads = 128;

KERNEL __launch_bounds__(threads) count(const Run *run, int first, int capacity, const int *within, double *count) {
	__shared__ double scratch[threads];
	int n = 0;
	for (int b = threadX(); b < liveRows(run, first, capacity); b += threads)
		n += within[b];
	double sum = blockSum<threads>(n, scratch); // of integers: exact
	if (threadX() == 0)
		*count += 0.5 * sum;
}
