// Gradients of the weights of convolutions: kept an example each, measured, or summed.
#include "geometry.cuh"
#include "run.cuh"
#include "tile.cuh"

static constexpr int POSITION_BLOCK = 64;

using Gradient = Tile<64, 64, 8, 8>;

struct Operands {
	Gradient::Slab slabs[2];
	Tap taps[Gradient::COLS];
};

// gradientTile computes filters o0… by columns k0… of one example's gradient. Column taps is of ones, which makes it the
// bias's, where cols counts it. Whoever measures, keeps or sums a gradient has these bits.
static __device__ __forceinline__ void gradientTile(const Geometry &g, const float *x, const float *dy, int o0, int k0, int cols,
                                                    Operands &shared, float (&result)[Gradient::R][Gradient::C]) {
	int positions = g.positions(), taps = g.taps();
	if (threadX() < Gradient::COLS)
		shared.taps[threadX()] = Tap(g, k0 + threadX());
	barrier();
	// Every block of positions begins with a slab of its own.
	auto copy = [&](Gradient::Slab &slab, int p0) INLINE {
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

KERNEL __launch_bounds__(64, 4) conv_store_64(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                            int stride, double *norm2, int bias, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	__shared__ Operands shared;
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

KERNEL __launch_bounds__(64, 4) conv_sum_64(const Run *run, int first, int capacity, const float *x, const float *dy,
                                          const float *factors, float *parts, int stride, int examples, int bias, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	__shared__ Operands shared;
	int width = bias ? g.taps() + 1 : g.taps(), across = (width + Gradient::COLS - 1) / Gradient::COLS;
	int o0 = blockX() / across * Gradient::ROWS, k0 = blockX() % across * Gradient::COLS, b0 = blockY() * examples;
	float sum[Gradient::R][Gradient::C];
	Gradient::clear(sum);
	for (int b = b0; b < min(b0 + examples, liveRows(run, first, capacity)); b++) {
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

static constexpr int LANES = 32, GROUPS = 8;

// sum_parts: every eighth part belongs to a warp, 32 neighbouring values to a block.
KERNEL __launch_bounds__(LANES *GROUPS) sum_parts(const float *parts, int stride, int count, int weights, int biases, double *sum, double *biasSum) {
	__shared__ double groups[GROUPS][LANES];
	int lane = threadX() % LANES, group = threadX() / LANES, j = blockX() * LANES + lane;
	double total = 0;
	if (j < weights + biases)
#pragma unroll 8
		for (int i = group; i < count; i += GROUPS)
			total += parts[(int64)i * stride + j];
	groups[group][lane] = total;
	barrier();
	if (group > 0 || j >= weights + biases)
		return;
	double *to = j < weights ? sum + j : biasSum + (j - weights);
	total = *to;
#pragma unroll
	for (int i = 0; i < GROUPS; i++)
		total += groups[i][lane];
	*to = total;
}
