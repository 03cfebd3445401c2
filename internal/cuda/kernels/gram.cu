#include "geometry.cuh"
#include "run.cuh"

static constexpr int SIDE = 32, TERMS = 16, PADDED = SIDE + 1;

// Pairs holds SIDE positions s and as many t, TERMS terms of each.
struct Pairs {
	double s[TERMS][PADDED], t[TERMS][PADDED];
};

// products adds the terms of the dot products of positions s0… and t0…: term k of position p is f(k, p). A thread has rows
// y and y+16 of s, columns x and x+16 of t.
template <class F>
static __device__ __forceinline__ void products(Pairs &pairs, int s0, int t0, int positions, int terms, double (&dot)[2][2], F f) {
	int d = threadX() % TERMS, line = threadX() / TERMS;
	for (int k0 = 0; k0 < terms; k0 += TERMS) {
		barrier();
#pragma unroll
		for (int half = 0; half < 2; half++) {
			int at = line + half * 16, s = s0 + at, t = t0 + at;
			pairs.s[d][at] = k0 + d < terms && s < positions ? f(k0 + d, s) : 0;
			pairs.t[d][at] = k0 + d < terms && t < positions ? f(k0 + d, t) : 0;
		}
		barrier();
		int end = min(TERMS, terms - k0);
		for (int k = 0; k < end; k++)
#pragma unroll
			for (int i = 0; i < 2; i++)
#pragma unroll
				for (int j = 0; j < 2; j++)
					dot[i][j] = fma(pairs.s[k][line + i * 16], pairs.t[k][d + j * 16], dot[i][j]);
	}
}

// With the second bound registers are given rather than spilled.
KERNEL __launch_bounds__(256, 4) norm_gram(const Run *run, int first, int capacity, const float *x, const float *dy, double *norm2,
                                           double omega, double gamma, int bias, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	__shared__ Pairs pairs;
	__shared__ double scratch[256];
	int b = blockX(), positions = g.positions();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * g.image(), dy += b * g.out * positions;
	double total = 0, bound = 0;
	for (int s0 = 0; s0 < positions; s0 += SIDE)
		for (int t0 = 0; t0 <= s0; t0 += SIDE) {
			double one = bias ? 1 : 0;
			double a[2][2] = {{one, one}, {one, one}}, d[2][2] = {};
			products(pairs, s0, t0, positions, g.taps(), a, [&](int k, int p) { return column(g, x, Corner(g, p), Tap(g, k)); });
			products(pairs, s0, t0, positions, g.out, d, [&](int o, int p) { return dy[o * positions + p]; });
#pragma unroll
			for (int i = 0; i < 2; i++)
#pragma unroll
				for (int j = 0; j < 2; j++) {
					int s = s0 + threadX() / 16 + i * 16, t = t0 + threadX() % 16 + j * 16;
					if (s >= positions || t > s)
						continue;
					double product = a[i][j] * d[i][j];
					total += t == s ? product : 2 * product;
					if (t == s)
						bound += sqrt(product);
				}
		}
	total = blockSum<256>(total, scratch);
	barrier();
	bound = blockSum<256>(bound, scratch);
	if (threadX() != 0)
		return;
	// A NaN is not below zero and stays one.
	double norm = sqrt((total < 0 ? 0 : total) + omega * bound * bound) + gamma * bound;
	norm2[b] += bound <= 0x1.fffffep126 ? norm * norm : (double)quietNaN();
}
