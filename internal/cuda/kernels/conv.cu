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
