#include "activation.cuh"
#include "geometry.cuh"
#include "run.cuh"
#include "tile.cuh"

// Tiles with fewer rows are for convolutions of few filters, or channels; every one has a thread for each of its 64 columns.
using Few = Tile<16, 64, 4, 4>;
using Some = Tile<32, 64, 8, 4>;
using Many = Tile<64, 64, 8, 8>;
static_assert(Few::THREADS == 64 && Some::THREADS == 64 && Many::THREADS == 64);

// conv_forward: the results are filters × the positions of all examples.
template <class Values>
static __device__ __forceinline__ void convForward(const Run *run, int first, int capacity, const float *x, const float *w,
                                                   const float *bias, float *y, int act, Geometry g) {
	__shared__ typename Values::Slab slabs[2];
	int positions = g.positions(), taps = g.taps();
	int n0 = blockX() * 64, end = liveRows(run, first, capacity) * positions;
	int o0 = blockY() * Values::ROWS;
	if (n0 >= end)
		return;
	// A thread loads the column of one position.
	int n = n0 + threadX();
	Corner corner(g, n % positions);
	const float *image = x + n / positions * g.image();
	Tap tap(g, 0);
	float acc[Values::R][Values::C];
	Values::clear(acc);
	auto copy = [&](typename Values::Slab &slab, int k0) INLINE {
		Values::copyTerms(slab.a, [&](float *to, int d, int r) {
			int o = o0 + r, k = k0 + d;
			copyAsync(to, w, o * taps + k, o < g.out && k < taps);
		});
		Values::copyLines(slab.b, [&](float *to, int d, int) {
			int iy = corner.y + tap.y, ix = corner.x + tap.x;
			copyAsync(to, image, tap.plane + iy * g.cols + ix, n < end && k0 + d < taps && g.inside(iy, ix));
			tap.next(g);
		});
	};
	copy(slabs[0], 0);
	for (int k0 = 0, turn = 0; k0 < taps; k0 += DEPTH, turn ^= 1) {
		arrived();
		barrier();
		if (k0 + DEPTH < taps)
			copy(slabs[turn ^ 1], k0 + DEPTH);
		Values::multiply(slabs[turn], acc);
	}
#pragma unroll
	for (int j = 0; j < Values::C; j++) {
		int n = n0 + Values::col(j);
		float *to = y + n / positions * g.out * positions + n % positions;
#pragma unroll
		for (int i = 0; i < Values::R; i++) {
			int o = o0 + Values::row(i);
			if (n < end && o < g.out) {
				float v = bias ? acc[i][j] + bias[o] : acc[i][j];
				to[o * positions] = act ? relu(v) : v;
			}
		}
	}
}

KERNEL __launch_bounds__(64) conv_forward_16(const Run *run, int first, int capacity, const float *x, const float *w, const float *bias,
                                             float *y, int act, GEOMETRY) {
	convForward<Few>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(64) conv_forward_32(const Run *run, int first, int capacity, const float *x, const float *w, const float *bias,
                                             float *y, int act, GEOMETRY) {
	convForward<Some>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(64) conv_forward_64(const Run *run, int first, int capacity, const float *x, const float *w, const float *bias,
                                             float *y, int act, GEOMETRY) {
	convForward<Many>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);
}

// convInputGrad: the results are channels × the pixels of one phase of all examples, the terms filters × taps of one channel.
template <class Values>
static __device__ __forceinline__ void convInputGrad(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                     int add, const float *activated, Geometry g) {
	__shared__ typename Values::Slab slabs[2];
	int phases = g.strideY * g.strideX, phase = blockY() % phases;
	Phase y(phase / g.strideX, g.rows, g.strideY, g.top, g.windowRows, g.dilationY);
	Phase x(phase % g.strideX, g.cols, g.strideX, g.left, g.windowCols, g.dilationX);
	int pixels = y.pixels * x.pixels, area = y.taps * x.taps, terms = g.out * area, positions = g.positions();
	int n0 = blockX() * 64, end = liveRows(run, first, capacity) * pixels, c0 = blockY() / phases * Values::ROWS;
	if (n0 >= end)
		return;
	// A thread loads what is read through one pixel: position oy, ox of filter after filter, tap by tap.
	int n = n0 + threadX();
	int gradient = n / pixels * g.out * positions;
	int oyFirst = y.start(n % pixels / x.pixels), oxFirst = x.start(n % x.pixels), oy = oyFirst, ox = oxFirst;
	int oyLast = oyFirst - y.taps * y.back, oxLast = oxFirst - x.taps * x.back;
	float acc[Values::R][Values::C];
	Values::clear(acc);
	auto copy = [&](typename Values::Slab &slab, int k0) INLINE {
		Values::copyTerms(slab.a, [&](float *to, int d, int r) {
			int c = c0 + r, k = k0 + d, o = 0, v = 0, u = 0;
			if (k < terms)
				o = k / area, v = y.first + k % area / x.taps * y.step, u = x.first + k % x.taps * x.step;
			copyAsync(to, w, ((o * g.channels + c) * g.windowRows + v) * g.windowCols + u, c < g.channels && k < terms);
		});
		Values::copyLines(slab.b, [&](float *to, int d, int) {
			bool read = n < end && k0 + d < terms && (unsigned)oy < (unsigned)g.outRows && (unsigned)ox < (unsigned)g.outCols;
			copyAsync(to, dy, gradient + oy * g.outCols + ox, read);
			ox -= x.back;
			if (ox == oxLast) {
				ox = oxFirst;
				oy -= y.back;
			}
			if (oy == oyLast) {
				oy = oyFirst;
				gradient += positions;
			}
		});
	};
	if (terms > 0)
		copy(slabs[0], 0);
	for (int k0 = 0, turn = 0; k0 < terms; k0 += DEPTH, turn ^= 1) {
		arrived();
		barrier();
		if (k0 + DEPTH < terms)
			copy(slabs[turn ^ 1], k0 + DEPTH);
		Values::multiply(slabs[turn], acc);
	}
#pragma unroll
	for (int j = 0; j < Values::C; j++) {
		int n = n0 + Values::col(j);
		int row = y.at + n % pixels / x.pixels * g.strideY, col = x.at + n % x.pixels * g.strideX;
		int image = n / pixels * g.image() + row * g.cols + col;
#pragma unroll
		for (int i = 0; i < Values::R; i++) {
			int c = c0 + Values::row(i);
			if (n < end && c < g.channels) {
				int at = image + c * g.rows * g.cols;
				float d = acc[i][j];
				if (add)
					d += dx[at];
				if (activated)
					d = passBack(ReLU, activated[at], d);
				dx[at] = d;
			}
		}
	}
}

KERNEL __launch_bounds__(64) conv_input_grad_16(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                int add, const float *activated, GEOMETRY) {
	convInputGrad<Few>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(64) conv_input_grad_32(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                int add, const float *activated, GEOMETRY) {
	convInputGrad<Some>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(64) conv_input_grad_64(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                int add, const float *activated, GEOMETRY) {
	convInputGrad<Many>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);
}

static constexpr int POSITION_BLOCK = 64, EXAMPLE_BLOCK = 32;

template <class Gradient> struct Operands {
	typename Gradient::Slab slabs[2];
	Tap taps[Gradient::COLS];
};

using FewGradients = Tile<16, 64, 4, 4>;
using SomeGradients = Tile<32, 64, 4, 4>;
using ManyGradients = Tile<64, 64, 8, 4>;

// gradientTile computes filters o0… by columns k0… of one example's gradient. Column taps is of ones, which makes it the
// bias's, where cols counts it. Whoever measures, keeps or sums a gradient has these bits.
template <class Gradient>
static __device__ __forceinline__ void gradientTile(const Geometry &g, const float *x, const float *dy, int o0, int k0, int cols,
                                                    Operands<Gradient> &shared, float (&result)[Gradient::R][Gradient::C]) {
	int positions = g.positions(), taps = g.taps();
	barrier(); // the last tile was read
	if (threadX() < Gradient::COLS)
		shared.taps[threadX()] = Tap(g, k0 + threadX());
	barrier();
	// Every block of positions begins with a slab of its own.
	auto copy = [&](typename Gradient::Slab &slab, int p0) INLINE {
		int p = p0 + threadX() % DEPTH;
		bool exists = p < positions;
		Corner corner(g, p);
		Gradient::copyTerms(slab.a, [&](float *to, int, int r) { copyAsync(to, dy, (o0 + r) * positions + p, exists && o0 + r < g.out); });
		Gradient::copyTerms(slab.b, [&](float *to, int, int c) {
			int k = k0 + c;
			if (k == taps && k < cols) {
				*to = exists ? 1 : 0;
				return;
			}
			Tap t = shared.taps[c];
			int y = corner.y + t.y, x0 = corner.x + t.x;
			copyAsync(to, x, t.plane + y * g.cols + x0, exists && k < taps && g.inside(y, x0));
		});
	};
	Gradient::clear(result);
	float block[Gradient::R][Gradient::C];
	Gradient::clear(block);
	static_assert(POSITION_BLOCK % DEPTH == 0);
	copy(shared.slabs[0], 0);
#pragma unroll 1
	for (int p0 = 0, turn = 0; p0 < positions; p0 += DEPTH, turn ^= 1) {
		arrived();
		barrier();
		if (p0 + DEPTH < positions)
			copy(shared.slabs[turn ^ 1], p0 + DEPTH);
		Gradient::multiply(shared.slabs[turn], block);
		if ((p0 + DEPTH) % POSITION_BLOCK != 0 && p0 + DEPTH < positions)
			continue;
		Gradient::each([&](int i, int j, int, int) {
			result[i][j] += block[i][j];
			block[i][j] = 0;
		});
	}
}

template <class Gradient>
static __device__ __forceinline__ void convStore(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                 int stride, double *norm2, int bias, Geometry g) {
	__shared__ Operands<Gradient> shared;
	__shared__ double scratch[Gradient::THREADS];
	int b = blockX(), width = bias ? g.taps() + 1 : g.taps();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * g.image(), dy += b * g.out * g.positions();
	// The blocks of an example take turns with its tiles.
	int across = (width + Gradient::COLS - 1) / Gradient::COLS, tiles = across * ((g.out + Gradient::ROWS - 1) / Gradient::ROWS);
	double squares = 0;
	for (int tile = blockY(); tile < tiles; tile += blocksY()) {
		int o0 = tile / across * Gradient::ROWS, k0 = tile % across * Gradient::COLS;
		float result[Gradient::R][Gradient::C];
		gradientTile(g, x, dy, o0, k0, width, shared, result);
		Gradient::each([&](int i, int j, int row, int col) {
			int o = o0 + row, k = k0 + col;
			if (o >= g.out || k >= width)
				return;
			squares = fma(result[i][j], result[i][j], squares);
			if (kept)
				kept[(int64)b * stride + place(g, o, k)] = result[i][j];
		});
	}
	squares = blockSum<Gradient::THREADS>(squares, scratch);
	if (threadX() == 0)
		norm2[(int64)blockY() * capacity + b] += squares;
}

KERNEL __launch_bounds__(64) conv_store_16(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                           int stride, double *norm2, int bias, GEOMETRY) {
	convStore<FewGradients>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(128, 4) conv_store_32(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                            int stride, double *norm2, int bias, GEOMETRY) {
	convStore<SomeGradients>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(128) conv_store_64(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                            int stride, double *norm2, int bias, GEOMETRY) {
	convStore<ManyGradients>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);
}

template <class Gradient>
static __device__ __forceinline__ void convSum(const Run *run, int first, int capacity, const float *x, const float *dy,
                                               const float *factors, float *parts, int stride, int bias, Geometry g) {
	__shared__ Operands<Gradient> shared;
	int width = bias ? g.taps() + 1 : g.taps(), across = (width + Gradient::COLS - 1) / Gradient::COLS;
	int o0 = blockX() / across * Gradient::ROWS, k0 = blockX() % across * Gradient::COLS, b0 = blockY() * EXAMPLE_BLOCK;
	float sum[Gradient::R][Gradient::C];
	Gradient::clear(sum);
	for (int b = b0; b < min(b0 + EXAMPLE_BLOCK, liveRows(run, first, capacity)); b++) {
		float f = factors[b];
		if (!(f > 0))
			continue;
		float result[Gradient::R][Gradient::C];
		gradientTile(g, x + b * g.image(), dy + b * g.out * g.positions(), o0, k0, width, shared, result);
		Gradient::each([&](int i, int j, int, int) { sum[i][j] = fmaf(f, result[i][j], sum[i][j]); });
	}
	Gradient::each([&](int i, int j, int row, int col) {
		int o = o0 + row, k = k0 + col;
		if (o < g.out && k < width)
			parts[(int64)blockY() * stride + place(g, o, k)] = sum[i][j];
	});
}

KERNEL __launch_bounds__(64) conv_sum_16(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                         float *parts, int stride, int bias, GEOMETRY) {
	convSum<FewGradients>(run, first, capacity, x, dy, factors, parts, stride, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(128) conv_sum_32(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                          float *parts, int stride, int bias, GEOMETRY) {
	convSum<SomeGradients>(run, first, capacity, x, dy, factors, parts, stride, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(128) conv_sum_64(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                          float *parts, int stride, int bias, GEOMETRY) {
	convSum<ManyGradients>(run, first, capacity, x, dy, factors, parts, stride, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(256) sum_parts(const float *parts, int stride, int count, int size, double *sum) {
	int j = index();
	if (j >= size)
		return;
	double total = sum[j];
	for (int i = 0; i < count; i++)
		total += parts[(int64)i * stride + j];
	sum[j] = total;
}
