// What sums of dense layers' clipped gradients have in common, in all precisions.
#pragma once
#include "lanes.cuh"

// Sums go over parts of the examples: PART of them in float32, in blocks of CHAIN that are added one after the other. The parts are
// added in float64. A block of threads has one part, or all parts one after the other.
static constexpr int CHAIN = 16, PART = 256;

// scaled is f·d. Automatic clipping may scale up. Where that overflows, the inputs are next to nothing: the product is left out,
// for ∞·0 would be no number. An example whose factor is 0 may hold what is no number, and is left out too.
static __device__ __forceinline__ float scaled(float f, float d) {
	float v = f * d;
	return fabsf(v) <= 3.402823466e38f ? v : 0;
}

// factorOf is 0 for an example that is left out, or dead.
static __device__ __forceinline__ float factorOf(const float *factors, int b, int live) {
	float f = factors[max(min(b, live - 1), 0)];
	return b < live && f > 0 ? f : 0;
}

// Totals is where parts go: to sums in float64, to which they are added, or where there are parts, each to a place of its own.
struct Totals {
	double *sum;
	float *part;
};

// biases adds up the part of a bias that a warp has, 32 outputs from o0 on, in the order of the weights' sums. E are elements of which width
// lie in a row, and value gives their float32.
template <class E, class F>
static __device__ __forceinline__ void biases(const E *dy, int width, int out, int live, const float *factors, int o0, int begins, int end, Totals to, F value) {
	if (o0 >= out)
		return;
	int o = min(o0 + ownLane(), out - 1);
	float part = 0;
#pragma unroll 1
	for (int b0 = begins; b0 < end; b0 += 2 * CHAIN) {
		float sum[2] = {};
#pragma unroll
		for (int d = 0; d < 2 * CHAIN; d++) {
			float f = factorOf(factors, b0 + d, live);
			sum[d / CHAIN] += scaled(f, value(dy[hidden(f > 0 ? (b0 + d) * width + o : 0)]));
		}
		part = part + sum[0] + sum[1];
		if (b0 + 2 * CHAIN < end && (b0 + 2 * CHAIN) % PART > 0)
			continue;
		if (o0 + ownLane() < out) {
			if (to.part)
				to.part[o] = part;
			else
				to.sum[o] += (double)part;
		}
		part = 0;
	}
}

// SUM_ARGUMENTS are what the sums of four ops' gradients are made of; start is the first block of an op, place where its parts are in those of
// all. CHOOSE_SUM sets variables of their names, without a number, to those of the op that has the block, whose tile it is.
#define SUM(N, E) \
	int start##N, const E *x##N, const E *dy##N, const float *factors##N, double *sumW##N, double *sumB##N, int in##N, int out##N, int place##N
#define SUM_ARGUMENTS(E) SUM(0, E), SUM(1, E), SUM(2, E), SUM(3, E)
#define SET_SUM(N) \
	tile -= start##N, x = x##N, dy = dy##N, factors = factors##N, sumW = sumW##N, sumB = sumB##N, in = in##N, out = out##N, place = place##N
#define CHOOSE_SUM(E)                            \
	const E *x, *dy;                             \
	const float *factors;                        \
	double *sumW, *sumB;                         \
	int in, out, place, tile = blockX();         \
	if (tile >= start3)                          \
		SET_SUM(3);                              \
	else if (tile >= start2)                     \
		SET_SUM(2);                              \
	else if (tile >= start1)                     \
		SET_SUM(1);                              \
	else                                         \
		SET_SUM(0);
