#include "run.cuh"
#include "tile.cuh"

using Large = Tile<128, 128, 8, 8>;

template <class T>
static __device__ __forceinline__ void denseForward(const Run *run, int first, int capacity, const float *x, const float *w,
                                                    const float *bias, float *y, int in, int out) {
	__shared__ typename T::Slab slab;
	int live = liveRows(run, first, capacity), b0 = blockX() * T::ROWS, o0 = blockY() * T::COLS;
	if (b0 >= live)
		return;
	float acc[T::R][T::C];
	T::clear(acc);
	for (int i0 = 0; i0 < in; i0 += DEPTH) {
		barrier();
		T::alongTerms(slab.a, [&](int d, int r) {
			int b = b0 + r, i = i0 + d;
			return b < live && i < in ? x[b * in + i] : 0;
		});
		T::alongTerms(slab.b, [&](int d, int r) {
			int o = o0 + r, i = i0 + d;
			return o < out && i < in ? w[o * in + i] : 0;
		});
		barrier();
		T::multiply(slab, acc);
	}
	T::each([&](int i, int j, int row, int col) {
		int b = b0 + row, o = o0 + col;
		if (b < live && o < out)
			y[b * out + o] = bias ? acc[i][j] + bias[o] : acc[i][j];
	});
}

template <class T>
static __device__ __forceinline__ void denseInputGrad(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                      int in, int out, int add) {
	__shared__ typename T::Slab slab;
	int live = liveRows(run, first, capacity), b0 = blockX() * T::ROWS, i0 = blockY() * T::COLS;
	if (b0 >= live)
		return;
	float acc[T::R][T::C];
	T::clear(acc);
	for (int o0 = 0; o0 < out; o0 += DEPTH) {
		barrier();
		T::alongTerms(slab.a, [&](int d, int r) {
			int b = b0 + r, o = o0 + d;
			return b < live && o < out ? dy[b * out + o] : 0;
		});
		T::alongLines(slab.b, [&](int d, int c) {
			int i = i0 + c, o = o0 + d;
			return i < in && o < out ? w[o * in + i] : 0;
		});
		barrier();
		T::multiply(slab, acc);
	}
	T::each([&](int i, int j, int row, int col) {
		int b = b0 + row, at = i0 + col;
		if (b < live && at < in) {
			float *to = dx + b * in + at;
			*to = add ? *to + acc[i][j] : acc[i][j];
		}
	});
}

KERNEL __launch_bounds__(256) dense_forward_128(const Run *run, int first, int capacity, const float *x, const float *w,
                                                const float *bias, float *y, int in, int out) {
	denseForward<Large>(run, first, capacity, x, w, bias, y, in, out);
}

KERNEL __launch_bounds__(256) dense_input_grad_128(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                   int in, int out, int add) {
	denseInputGrad<Large>(run, first, capacity, dy, w, dx, in, out, add);
}

// denseSum: column in, where cols counts it, is of ones, and its sums are the bias's.
template <class T>
static __device__ __forceinline__ void denseSum(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                const float *factors, double *sumW, double *sumB, int in, int cols, int out) {
	constexpr int BLOCK = 32;
	__shared__ typename T::Slab slab;
	__shared__ float factor[BLOCK];
	int live = liveRows(run, first, capacity), i0 = blockX() * T::COLS, o0 = blockY() * T::ROWS;
	double total[T::R][T::C] = {};
	for (int b0 = 0; b0 < live; b0 += BLOCK) {
		barrier();
		if (threadX() < BLOCK) {
			int b = b0 + threadX();
			factor[threadX()] = b < live ? factors[b] : 0;
		}
		float acc[T::R][T::C];
		T::clear(acc);
		for (int s = 0; s < BLOCK; s += DEPTH) {
			barrier();
			T::alongLines(slab.a, [&](int d, int r) {
				int o = o0 + r;
				float f = factor[s + d];
				float scaled = o < out && f > 0 ? f * dy[(b0 + s + d) * out + o] : 0;
				// Automatic clipping may scale up. Where that overflows, the inputs are next to nothing: the product is left out,
				// for ∞·0 would be no number.
				return fabsf(scaled) <= 3.402823466e38f ? scaled : 0;
			});
			// What an example holds that is left out may be no number, and that times zero is none either.
			T::alongLines(slab.b, [&](int d, int c) {
				int i = i0 + c;
				if (!(factor[s + d] > 0) || i >= cols)
					return 0.f;
				return i < in ? x[(b0 + s + d) * in + i] : 1.f;
			});
			barrier();
			T::multiply(slab, acc);
		}
		T::each([&](int i, int j, int, int) { total[i][j] += acc[i][j]; });
	}
	T::each([&](int i, int j, int row, int col) {
		int o = o0 + row, at = i0 + col;
		if (o < out && at < cols) {
			double *to = at < in ? sumW + o * in + at : sumB + o;
			*to += total[i][j];
		}
	});
}

KERNEL __launch_bounds__(128) dense_sum_64(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                           double *sumW, double *sumB, int in, int cols, int out) {
	denseSum<Tile<64, 64, 8, 4>>(run, first, capacity, x, dy, factors, sumW, sumB, in, cols, out);
}

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
