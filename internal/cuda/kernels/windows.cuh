// Gradients of convolutions by 3×3 windows, tile by tile: how they are kept, measured and summed, whoever multiplies.
//
// A class Windows, for images of COLS columns, has a tile of FILTERS filters by CHANNELS channels by TAPS. Its block of threads computes a tile's gradient
// from slabs of rows, two of which take turns: while one is multiplied, the next is copied.
//
//   Memory        slabs[2], and gradient[FILTERS][≥ CHANNELS·TAPS]
//   copy          begins to copy what output rows y… of a part need to a slab
//   gradient      computes a part's
//   Results       a thread's: each(f) calls f(filter, channel, tap, value), bias is for filter biasFilter() of the tile, if that is one
#pragma once
#include "geometry.cuh"
#include "run.cuh"

// Part is what a tile's gradient is computed from: as many filters and channels as a tile has, or as there are.
struct Part {
	const float *x, *dy;
	int channels, filters;
};

template <class Windows> struct Tiles {
	static constexpr int CHANNELS = Windows::CHANNELS, FILTERS = Windows::FILTERS, TAPS = 9;
	using Memory = typename Windows::Memory;

	static __device__ __forceinline__ int across(const Geometry &g) { return (g.channels + CHANNELS - 1) / CHANNELS; }
	static __device__ __forceinline__ int count(const Geometry &g) { return across(g) * ((g.out + FILTERS - 1) / FILTERS); }

	// part is tile n of an example.
	static __device__ __forceinline__ Part part(const Geometry &g, const float *x, const float *dy, int n) {
		int o = n / across(g) * FILTERS, c = n % across(g) * CHANNELS;
		return {x + c * g.rows * Windows::COLS, dy + o * g.outRows * Windows::COLS, g.channels - c, g.out - o};
	}

	// write writes tile n's gradient as the weights lie, neighbours by neighbouring lanes. A warp has as many filters as the others.
	static __device__ __forceinline__ void write(Memory &m, const Geometry &g, int n, float *to) {
		constexpr int R = FILTERS / (Windows::THREADS / 32);
		int lane = threadX() % 32, filter = threadX() / 32 * R;
		int c = n % across(g) * CHANNELS, taps = g.channels * TAPS;
		int columns = min(CHANNELS, g.channels - c) * TAPS, filters = g.out - n / across(g) * FILTERS - filter;
		to += (n / across(g) * FILTERS + filter) * taps + c * TAPS;
#pragma unroll
		for (int i = 0; i < R; i++) {
			if (i >= filters)
				break;
#pragma unroll
			for (int k = 0; k < TAPS * CHANNELS / 32; k++)
				if (k * 32 + lane < columns)
					to[i * taps + k * 32 + lane] = m.gradient[filter + i][k * 32 + lane];
		}
	}

	// bias says whether the thread has the bias's gradient for a filter of tile n, and where.
	static __device__ __forceinline__ bool bias(const Geometry &g, int n, int &at) {
		int o = n / across(g) * FILTERS + Windows::biasFilter();
		at = g.out * g.channels * TAPS + o;
		return n % across(g) == 0 && Windows::biasFilter() < FILTERS && o < g.out;
	}
};

template <class Windows>
static __device__ __forceinline__ void windowStore(typename Windows::Memory &m, const Run *run, int first, int capacity, const float *x,
                                                   const float *dy, float *kept, int stride, double *norm2, int bias, Geometry g) {
	using T = Tiles<Windows>;
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * g.image(), dy += b * g.out * g.positions(), kept += kept ? (int64)b * stride : 0;
	// The blocks of an example take turns with its tiles.
	int turn = 0, tiles = T::count(g), step = blocksY();
	double squares = 0;
	Part part = T::part(g, x, dy, blockY());
	Windows::begin(m);
	Windows::copy(m.slabs[0], g, part, 0);
#pragma unroll 1
	for (int tile = blockY(); tile < tiles; tile += step) {
		Part next = T::part(g, x, dy, tile + step);
		typename Windows::Results result;
		Windows::gradient(m, turn, g, part, next, tile + step < tiles, result);
		// What does not exist is zero, or not finite if the example is not.
		result.each([&](int filter, int channel, int tap, float v) INLINE {
			squares = fma(v, v, squares);
			m.gradient[filter][channel * T::TAPS + tap] = v;
		});
		int at;
		if (T::bias(g, tile, at) && bias) {
			squares = fma(result.bias, result.bias, squares);
			if (kept)
				kept[at] = result.bias;
		}
		barrier();
		if (kept)
			T::write(m, g, tile, kept);
		part = next;
	}
	barrier(); // the gradient was written
	squares = blockSum<Windows::THREADS>(squares, (double *)m.gradient);
	if (threadX() == 0)
		norm2[(int64)blockY() * capacity + b] += squares;
}

template <class Windows>
static __device__ __forceinline__ void windowSum(typename Windows::Memory &m, const Run *run, int first, int capacity, const float *x,
                                                 const float *dy, const float *factors, float *parts, int stride, int examples, int bias,
                                                 Geometry g) {
	using T = Tiles<Windows>;
	int tile = blockX(), b = blockY() * examples, end = min(b + examples, liveRows(run, first, capacity)), turn = 0;
	auto part = [&](int b) INLINE { return T::part(g, x + b * g.image(), dy + b * g.out * g.positions(), tile); };
	auto counts = [&](int b) INLINE {
		while (b < end && !(factors[b] > 0))
			b++;
		return b;
	};
	typename Windows::Results result;
	result.each([&](int filter, int channel, int tap, float) INLINE { m.gradient[filter][channel * T::TAPS + tap] = 0; });
	float biases = 0;
	b = counts(b);
	Windows::begin(m);
	if (b < end)
		Windows::copy(m.slabs[0], g, part(b), 0);
#pragma unroll 1
	while (b < end) {
		int next = counts(b + 1);
		float f = factors[b];
		Windows::gradient(m, turn, g, part(b), part(next), next < end, result);
		result.each([&](int filter, int channel, int tap, float v) INLINE {
			float &sum = m.gradient[filter][channel * T::TAPS + tap];
			sum = fmaf(f, v, sum);
		});
		biases = fmaf(f, result.bias, biases);
		b = next;
	}
	barrier();
	parts += (int64)blockY() * stride;
	T::write(m, g, tile, parts);
	int at;
	if (T::bias(g, tile, at) && bias)
		parts[at] = biases;
}

// What is kept or summed of images of W columns, in slabs of ROWS rows.
#define WINDOW_KERNELS(NAME, WINDOWS)                                                                                                      \
	KERNEL __launch_bounds__(128, 2) conv_store_##NAME(const Run *run, int first, int capacity, const float *x, const float *dy,           \
	                                                   float *kept, int stride, double *norm2, int bias, GEOMETRY) {                       \
		windowStore<WINDOWS>(*(WINDOWS::Memory *)memory, run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);         \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(128, 2) conv_sum_##NAME(const Run *run, int first, int capacity, const float *x, const float *dy,             \
	                                                 const float *factors, float *parts, int stride, int examples, int bias, GEOMETRY) {   \
		windowSum<WINDOWS>(*(WINDOWS::Memory *)memory, run, first, capacity, x, dy, factors, parts, stride, examples, bias,                \
		                   GEOMETRY_VALUES);                                                                                               \
	}
