// Gradients of the weights of convolutions: kept an example each, measured, or summed.
#include "geometry.cuh"
#include "run.cuh"
#include "tile.cuh"

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
