// The products of dense layers on tensor cores, in the Precision of whoever includes this. Dense layers' gradients are never
// longer than from float32 factors: what goes into them is cut off, not rounded to nearest.
#pragma once
#include "activation.cuh"
#include "mma.cuh"
#include "run.cuh"

template <int COLS>
static __device__ __forceinline__ void denseForward(const Run *run, int first, int capacity, const float *x, const float *w,
                                                    const float *bias, float *y, int in, int out, int act) {
	using P = Product<Precision, 64, COLS, Terms, Terms>;
	__shared__ typename P::Slab slabs[2];
	int live = liveRows(run, first, capacity), b0 = blockX() * P::ROWS, o0 = blockY() * P::COLS;
	if (b0 >= live)
		return;
	typename P::Results acc;
	clear(acc);
	P::template add<Chain>(
	    slabs, acc, 0, in, [&](int i, int r, bool) { return b0 + r < live && i < in ? x[(b0 + r) * in + i] : 0; },
	    [&](int i, int c, bool) { return o0 + c < out && i < in ? w[(o0 + c) * in + i] : 0; });
	P::each([&](int r, int c, int e, int row, int col) {
		int b = b0 + row, o = o0 + col;
		if (b < live && o < out) {
			float v = bias ? acc[r][c][e] + bias[o] : acc[r][c][e];
			y[b * out + o] = act ? relu(v) : v;
		}
	});
}

KERNEL __launch_bounds__(THREADS) dense_forward_16(const Run *run, int first, int capacity, const float *x, const float *w,
                                                   const float *bias, float *y, int in, int out, int act) {
	denseForward<16>(run, first, capacity, x, w, bias, y, in, out, act);
}

KERNEL __launch_bounds__(THREADS) dense_forward_64(const Run *run, int first, int capacity, const float *x, const float *w,
                                                   const float *bias, float *y, int in, int out, int act) {
	denseForward<64>(run, first, capacity, x, w, bias, y, in, out, act);
}

KERNEL __launch_bounds__(THREADS) dense_input_grad_64(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                      int in, int out, int add, const float *activated) {
	using P = Product<Precision, 64, 64, Terms, Lines>;
	__shared__ P::Slab slabs[2];
	int live = liveRows(run, first, capacity), b0 = blockX() * P::ROWS, i0 = blockY() * P::COLS;
	if (b0 >= live)
		return;
	P::Results acc;
	clear(acc);
	P::add<Chain>(
	    slabs, acc, 0, out, [&](int o, int r, bool) { return b0 + r < live && o < out ? dy[(b0 + r) * out + o] : 0; },
	    [&](int o, int c, bool) { return i0 + c < in && o < out ? w[o * in + i0 + c] : 0; });
	P::each([&](int r, int c, int e, int row, int col) {
		int b = b0 + row, i = i0 + col;
		if (b < live && i < in) {
			int at = b * in + i;
			float d = add ? dx[at] + acc[r][c][e] : acc[r][c][e];
			dx[at] = activated ? passBack(ReLU, activated[at], d) : d;
		}
	});
}

// denseSum: column in, where cols counts it, is of ones, and its sums are the bias's.
template <int ROWS>
static __device__ __forceinline__ void denseSum(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                const float *factors, double *sumW, double *sumB, int in, int cols, int out) {
	using P = Product<Precision, ROWS, 64, Lines, Lines>;
	constexpr int BLOCK = 32;
	__shared__ typename P::Slab slabs[2];
	__shared__ float factor[BLOCK];
	int live = liveRows(run, first, capacity), i0 = blockX() * P::COLS, o0 = blockY() * P::ROWS;
	double total[P::R][P::C][4] = {};
	for (int b0 = 0; b0 < live; b0 += BLOCK) {
		barrier();
		if (threadX() < BLOCK) {
			int b = b0 + threadX();
			factor[threadX()] = b < live ? factors[b] : 0;
		}
		barrier();
		typename P::Results acc;
		clear(acc);
		P::template add<Parts>(
		    slabs, acc, 0, BLOCK,
		    [&](int b, int r, bool) {
			    float f = factor[b];
			    float scaled = o0 + r < out && f > 0 ? f * dy[(b0 + b) * out + o0 + r] : 0;
			    // As in gemm.cu: automatic clipping may scale up, and what overflows is left out.
			    return fabsf(scaled) <= 3.402823466e38f ? scaled : 0;
		    },
		    [&](int b, int c, bool) {
			    int i = i0 + c;
			    if (!(factor[b] > 0) || i >= cols)
				    return 0.f;
			    return i < in ? x[(b0 + b) * in + i] : 1.f;
		    });
		P::each([&](int r, int c, int e, int, int) { total[r][c][e] += acc[r][c][e]; });
	}
	P::each([&](int r, int c, int e, int row, int col) {
		int o = o0 + row, i = i0 + col;
		if (o < out && i < cols) {
			double *to = i < in ? sumW + o * in + i : sumB + o;
			*to += total[r][c][e];
		}
	});
}

KERNEL __launch_bounds__(THREADS) dense_sum_16(const Run *run, int first, int capacity, const float *x, const float *dy,
                                               const float *factors, double *sumW, double *sumB, int in, int cols, int out) {
	denseSum<16>(run, first, capacity, x, dy, factors, sumW, sumB, in, cols, out);
}

KERNEL __launch_bounds__(THREADS) dense_sum_64(const Run *run, int first, int capacity, const float *x, const float *dy,
                                               const float *factors, double *sumW, double *sumB, int in, int cols, int out) {
	denseSum<64>(run, first, capacity, x, dy, factors, sumW, sumB, in, cols, out);
}
