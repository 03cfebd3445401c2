// Gradients of the weights of convolutions: kept an example each, measured, or summed.
#include "convgrad3.cuh"
#include "run.cuh"

extern __shared__ __attribute__((aligned(16))) char memory[];

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
                                               const float *factors, float *parts, int stride, int examples, int bias, Geometry g) {
	__shared__ Operands<Gradient> shared;
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

KERNEL __launch_bounds__(64) conv_sum_16(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                         float *parts, int stride, int examples, int bias, GEOMETRY) {
	convSum<FewGradients>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(128) conv_sum_32(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                          float *parts, int stride, int examples, int bias, GEOMETRY) {
	convSum<SomeGradients>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, GEOMETRY_VALUES);
}

KERNEL __launch_bounds__(128) conv_sum_64(const Run *run, int first, int capacity, const float *x, const float *dy, const float *factors,
                                          float *parts, int stride, int examples, int bias, GEOMETRY) {
	convSum<ManyGradients>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, GEOMETRY_VALUES);
}

template <class Windows>
static __device__ __forceinline__ void windowStore(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                   int stride, double *norm2, int bias, Geometry g) {
	auto &m = *(typename Windows::Memory *)memory;
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * g.image(), dy += b * g.out * g.positions(), kept += kept ? (int64)b * stride : 0;
	// The blocks of an example take turns with its tiles.
	int turn = 0, tiles = Windows::tiles(g), step = blocksY();
	double squares = 0;
	Part part = Windows::part(g, x, dy, blockY());
	Windows::copy(m.slabs[0], g, part, 0);
#pragma unroll 1
	for (int tile = blockY(); tile < tiles; tile += step) {
		Part next = Windows::part(g, x, dy, tile + step);
		typename Windows::Results result;
		Windows::gradient(m, turn, g, part, next, tile + step < tiles, result);
		double own = 0;
#pragma unroll
		for (int i = 0; i < Windows::R; i++) {
			if (Windows::filter() + i >= part.filters)
				break;
#pragma unroll
			for (int t = 0; t < Windows::TAPS; t++) {
				float v = result.taps[i][t];
				own = fma(v, v, own);
				Windows::place(m, i, t) = v;
			}
		}
		if (Windows::lane() < part.channels)
			squares += own;
		int at;
		if (Windows::bias(g, tile, at) && bias) {
			squares = fma(result.bias, result.bias, squares);
			if (kept)
				kept[at] = result.bias;
		}
		barrier();
		if (kept)
			Windows::write(m, g, tile, kept);
		part = next;
	}
	barrier(); // the gradient was written
	squares = blockSum<Windows::THREADS>(squares, (double *)m.gradient);
	if (threadX() == 0)
		norm2[(int64)blockY() * capacity + b] += squares;
}

template <class Windows>
static __device__ __forceinline__ void windowSum(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                 const float *factors, float *parts, int stride, int examples, int bias, Geometry g) {
	auto &m = *(typename Windows::Memory *)memory;
	int tile = blockX(), b = blockY() * examples, end = min(b + examples, liveRows(run, first, capacity)), turn = 0;
	auto part = [&](int b) INLINE { return Windows::part(g, x + b * g.image(), dy + b * g.out * g.positions(), tile); };
	auto counts = [&](int b) INLINE {
		while (b < end && !(factors[b] > 0))
			b++;
		return b;
	};
#pragma unroll
	for (int i = 0; i < Windows::R; i++)
#pragma unroll
		for (int t = 0; t < Windows::TAPS; t++)
			Windows::place(m, i, t) = 0;
	float biases = 0;
	b = counts(b);
	if (b < end)
		Windows::copy(m.slabs[0], g, part(b), 0);
#pragma unroll 1
	while (b < end) {
		int next = counts(b + 1);
		float f = factors[b];
		typename Windows::Results result;
		Windows::gradient(m, turn, g, part(b), part(next), next < end, result);
#pragma unroll
		for (int i = 0; i < Windows::R; i++)
#pragma unroll
			for (int t = 0; t < Windows::TAPS; t++)
				Windows::place(m, i, t) = fmaf(f, result.taps[i][t], Windows::place(m, i, t));
		biases = fmaf(f, result.bias, biases);
		b = next;
	}
	barrier();
	parts += (int64)blockY() * stride;
	Windows::write(m, g, tile, parts);
	int at;
	if (Windows::bias(g, tile, at) && bias)
		parts[at] = biases;
}

// Slabs of two rows of 32 would be too much for two blocks on a processor.
#define WINDOW_KERNELS(W, ROWS)                                                                                                            \
	KERNEL __launch_bounds__(128, 2) conv_store_3x3_##W(const Run *run, int first, int capacity, const float *x, const float *dy,          \
	                                                    float *kept, int stride, double *norm2, int bias, GEOMETRY) {                      \
		windowStore<Windows<W, ROWS>>(run, first, capacity, x, dy, kept, stride, norm2, bias, GEOMETRY_VALUES);                            \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(128, 2) conv_sum_3x3_##W(const Run *run, int first, int capacity, const float *x, const float *dy,            \
	                                                  const float *factors, float *parts, int stride, int examples, int bias, GEOMETRY) {  \
		windowSum<Windows<W, ROWS>>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, GEOMETRY_VALUES);                 \
	}
WINDOW_KERNELS(8, 8)
WINDOW_KERNELS(16, 4)
WINDOW_KERNELS(32, 1)

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
