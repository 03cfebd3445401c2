// The products of convolutions on tensor cores, in the Precision of whoever includes this: conv.cu without its tiles. What goes
// into gradients of weights is cut off, as norm_gram does it too.
#pragma once
#include "activation.cuh"
#include "geometry.cuh"
#include "mma.cuh"
#include "run.cuh"

// convForward: the results are filters × the positions of all examples.
template <int ROWS>
static __device__ __forceinline__ void convForward(const Run *run, int first, int capacity, const float *x, const float *w,
                                                   const float *bias, float *y, int act, Geometry g) {
	using P = Product<Precision, ROWS, 64, Terms, Lines>;
	__shared__ typename P::Slab slabs[2];
	int positions = g.positions(), taps = g.taps();
	int n0 = blockX() * P::COLS, end = liveRows(run, first, capacity) * positions, o0 = blockY() * ROWS;
	if (n0 >= end)
		return;
	// A thread loads the column of one position.
	int n = n0 + P::Right::line(0);
	Corner corner(g, n % positions);
	const float *image = x + n / positions * g.image();
	Tap tap;
	typename P::Results acc;
	clear(acc);
	P::template add<Chain>(
	    slabs, acc, 0, taps, [&](int k, int r, bool) { return o0 + r < g.out && k < taps ? w[(o0 + r) * taps + k] : 0; },
	    [&](int k, int, bool begins) {
		    if (begins)
			    tap = Tap(g, k);
		    float v = n < end && k < taps ? column(g, image, corner, tap) : 0;
		    tap.next(g);
		    return v;
	    });
	P::each([&](int r, int c, int e, int row, int col) {
		int o = o0 + row, n = n0 + col;
		if (n < end && o < g.out) {
			float v = bias ? acc[r][c][e] + bias[o] : acc[r][c][e];
			y[(n / positions * g.out + o) * positions + n % positions] = act ? relu(v) : v;
		}
	});
}

KERNEL __launch_bounds__(THREADS) conv_forward_16(const Run *run, int first, int capacity, const float *x, const float *w,
                                                  const float *bias, float *y, int act, GEOMETRY) {
	convForward<16>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS) conv_forward_32(const Run *run, int first, int capacity, const float *x, const float *w,
                                                  const float *bias, float *y, int act, GEOMETRY) {
	convForward<32>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS) conv_forward_64(const Run *run, int first, int capacity, const float *x, const float *w,
                                                  const float *bias, float *y, int act, GEOMETRY) {
	convForward<64>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);
}

// convInputGrad: the results are channels × the pixels of one phase of all examples, the terms filters × taps of one channel.
template <int ROWS>
static __device__ __forceinline__ void convInputGrad(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                     int add, const float *activated, Geometry g) {
	using P = Product<Precision, ROWS, 64, Terms, Lines>;
	__shared__ typename P::Slab slabs[2];
	int phases = g.strideY * g.strideX, phase = blockY() % phases;
	Phase y(phase / g.strideX, g.rows, g.strideY, g.top, g.windowRows, g.dilationY);
	Phase x(phase % g.strideX, g.cols, g.strideX, g.left, g.windowCols, g.dilationX);
	int pixels = y.pixels * x.pixels, area = y.taps * x.taps, terms = g.out * area, positions = g.positions();
	int n0 = blockX() * P::COLS, end = liveRows(run, first, capacity) * pixels, c0 = blockY() / phases * ROWS;
	if (n0 >= end)
		return;
	// A thread loads what is read through one pixel: position oy, ox of filter after filter, tap by tap.
	int n = n0 + P::Right::line(0);
	const float *gradients = dy + n / pixels * g.out * positions, *gradient = gradients;
	int oyFirst = y.start(n % pixels / x.pixels), oxFirst = x.start(n % x.pixels), oy = 0, ox = 0;
	int oyLast = oyFirst - y.taps * y.back, oxLast = oxFirst - x.taps * x.back;
	typename P::Results acc;
	clear(acc);
	P::template add<Chain>(
	    slabs, acc, 0, terms,
	    [&](int k, int r, bool) {
		    int c = c0 + r;
		    if (c >= g.channels || k >= terms)
			    return 0.f;
		    int o = k / area, v = y.first + k % area / x.taps * y.step, u = x.first + k % x.taps * x.step;
		    return w[((o * g.channels + c) * g.windowRows + v) * g.windowCols + u];
	    },
	    [&](int k, int, bool begins) {
		    if (begins) {
			    gradient = gradients + k / area * positions;
			    oy = oyFirst - k % area / x.taps * y.back;
			    ox = oxFirst - k % x.taps * x.back;
		    }
		    bool read = n < end && k < terms && (unsigned)oy < (unsigned)g.outRows && (unsigned)ox < (unsigned)g.outCols;
		    float value = read ? gradient[oy * g.outCols + ox] : 0;
		    ox -= x.back;
		    if (ox == oxLast) {
			    ox = oxFirst;
			    oy -= y.back;
		    }
		    if (oy == oyLast) {
			    oy = oyFirst;
			    gradient += positions;
		    }
		    return value;
	    });
	P::each([&](int r, int c, int e, int row, int col) {
		int n = n0 + col, channel = c0 + row;
		if (n >= end || channel >= g.channels)
			return;
		int i = y.at + n % pixels / x.pixels * g.strideY, j = x.at + n % x.pixels * g.strideX;
		int at = n / pixels * g.image() + (channel * g.rows + i) * g.cols + j;
		float d = add ? dx[at] + acc[r][c][e] : acc[r][c][e];
		dx[at] = activated ? passBack(ReLU, activated[at], d) : d;
	});
}

KERNEL __launch_bounds__(THREADS) conv_input_grad_16(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                     int add, const float *activated, GEOMETRY) {
	convInputGrad<16>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS) conv_input_grad_32(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                     int add, const float *activated, GEOMETRY) {
	convInputGrad<32>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS) conv_input_grad_64(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                     int add, const float *activated, GEOMETRY) {
	convInputGrad<64>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);
}

static constexpr int EXAMPLE_BLOCK = 32;

template <int ROWS> using Gradient = Product<Precision, ROWS, 64, Terms, Terms>;

template <class P> struct Shared {
	typename P::Slab slabs[2];
	Tap taps[P::COLS];
};

// gradientTile computes filters o0… by columns k0… of one example's gradient. Column taps is of ones, which makes it the
// bias's, where cols counts it. Whoever measures, keeps or sums a gradient has these bits, from the same registers of the same lanes.
template <class P>
static __device__ __forceinline__ void gradientTile(const Geometry &g, const float *x, const float *dy, int o0, int k0, int cols,
                                                    Shared<P> &shared, typename P::Results &result) {
	int positions = g.positions(), taps = g.taps();
	barrier(); // the last tile's taps may be in use
	if (threadX() < P::COLS)
		shared.taps[threadX()] = Tap(g, k0 + threadX());
	barrier();
	clear(result);
	P::template add<Parts>(
	    shared.slabs, result, 0, positions,
	    [&](int p, int r, bool) { return o0 + r < g.out && p < positions ? dy[(o0 + r) * positions + p] : 0; },
	    [&](int p, int c, bool) {
		    int k = k0 + c;
		    if (k >= cols || p >= positions)
			    return 0.f;
		    return k < taps ? column(g, x, Corner(g, p), shared.taps[c]) : 1.f;
	    });
}

template <class P>
static __device__ __forceinline__ void convStore(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                 int stride, double *norm2, int bias, Geometry g) {
	__shared__ Shared<P> shared;
	__shared__ double scratch[THREADS];
	int b = blockX(), width = bias ? g.taps() + 1 : g.taps();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * g.image(), dy += b * g.out * g.positions();
	double squares = 0;
	// As in conv.cu, the blocks of an example take turns with its tiles.
	int across = (width + P::COLS - 1) / P::COLS, tiles = across * ((g.out + P::ROWS - 1) / P::ROWS);
	for (int tile = blockY(); tile < tiles; tile += blocksY()) {
		int o0 = tile / across * P::ROWS, k0 = tile % across * P::COLS;
		typename P::Results result;
		gradientTile<P>(g, x, dy, o0, k0, width, shared, result);
		P::each([&](int r, int c, int e, int row, int col) {
			int o = o0 + row, k = k0 + col;
			if (o >= g.out || k >= width)
				return;
			squares = fma(result[r][c][e], result[r][c][e], squares);
			if (kept)
				kept[(int64)b * stride + place(g, o, k)] = result[r][c][e];
		});
	}
	squares = blockSum<THREADS>(squares, scratch);
	if (threadX() == 0)
		norm2[(int64)blockY() * capacity + b] += squares;
}

KERNEL __launch_bounds__(THREADS) conv_store_16(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                int stride, double *norm2, int bias, GEOMETRY) {
	convStore<Gradient<16>>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);
}

// With the second bound registers are given rather than spilled.
KERNEL __launch_bounds__(THREADS, 4) conv_store_32(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                int stride, double *norm2, int bias, GEOMETRY) {
	convStore<Gradient<32>>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS, 2) conv_store_64(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                int stride, double *norm2, int bias, GEOMETRY) {
	convStore<Gradient<64>>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);
}

template <class P>
static __device__ __forceinline__ void convSum(const Run *run, int first, int capacity, const float *x, const float *dy,
                                               const float *factors, float *parts, int stride, int bias, Geometry g) {
	__shared__ Shared<P> shared;
	int width = bias ? g.taps() + 1 : g.taps(), across = (width + P::COLS - 1) / P::COLS;
	int o0 = blockX() / across * P::ROWS, k0 = blockX() % across * P::COLS, b0 = blockY() * EXAMPLE_BLOCK;
	typename P::Results sum;
	clear(sum);
	for (int b = b0; b < min(b0 + EXAMPLE_BLOCK, liveRows(run, first, capacity)); b++) {
		float f = factors[b];
		if (!(f > 0))
			continue;
		typename P::Results result;
		gradientTile<P>(g, x + b * g.image(), dy + b * g.out * g.positions(), o0, k0, width, shared, result);
		P::each([&](int r, int c, int e, int, int) { sum[r][c][e] = fmaf(f, result[r][c][e], sum[r][c][e]); });
	}
	P::each([&](int r, int c, int e, int row, int col) {
		int o = o0 + row, k = k0 + col;
		if (o < g.out && k < width)
			parts[(int64)blockY() * stride + place(g, o, k)] = sum[r][c][e];
	});
}

KERNEL __launch_bounds__(THREADS) conv_sum_16(const Run *run, int first, int capacity, const float *x, const float *dy,
                                              const float *factors, float *parts, int stride, int bias, GEOMETRY) {
	convSum<Gradient<16>>(run, first, capacity, x, dy, factors, parts, stride, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS) conv_sum_32(const Run *run, int first, int capacity, const float *x, const float *dy,
                                              const float *factors, float *parts, int stride, int bias, GEOMETRY) {
	convSum<Gradient<32>>(run, first, capacity, x, dy, factors, parts, stride, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(THREADS) conv_sum_64(const Run *run, int first, int capacity, const float *x, const float *dy,
                                              const float *factors, float *parts, int stride, int bias, GEOMETRY) {
	convSum<Gradient<64>>(run, first, capacity, x, dy, factors, parts, stride, bias, GEOMETRY_VALUES);
}
