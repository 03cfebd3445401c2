// Gradients of convolutions by 3×3 windows at every position of an image of W columns. A lane has a channel, a warp eight
// filters: the eight by nine results in a lane's registers read every pixel once for its three taps in a row. No column is
// ever formed, and no slab holds one.
#include "geometry.cuh"
#include "run.cuh"
#include "tile.cuh"

extern __shared__ __attribute__((aligned(16))) char memory[];

static constexpr int POSITION_BLOCK = 64;

// Part is what a tile's gradient is computed from: 32 filters by 32 channels, or as many as there are.
struct Part {
	const float *x, *dy;
	int channels, filters;
};

template <int W, int ROWS> struct Windows {
	static constexpr int CHANNELS = 32, FILTERS = 32, R = 8, TAPS = 9, THREADS = 128;
	static constexpr int PIXELS = (ROWS + 2) * W, POSITIONS = ROWS * W;
	static_assert(POSITION_BLOCK % POSITIONS == 0 && PIXELS <= 96);

	// Four pixels of eight channels lie in different banks.
	struct Slab {
		alignas(16) float x[CHANNELS][PIXELS + 4];
		alignas(16) float dy[FILTERS][POSITIONS + 4];
	};
	struct Memory {
		Slab slabs[2];
		float gradient[FILTERS][CHANNELS * TAPS];
	};

	// Results are a thread's: of filters R·(threadX()/32)… by its channel's taps, and the sum over positions for one filter.
	struct Results {
		float taps[R][TAPS], bias;
		__device__ __forceinline__ void clear() {
#pragma unroll
			for (int i = 0; i < R; i++)
#pragma unroll
				for (int t = 0; t < TAPS; t++)
					taps[i][t] = 0;
			bias = 0;
		}
	};

	static __device__ __forceinline__ int lane() { return threadX() % 32; }
	static __device__ __forceinline__ int filter() { return threadX() / 32 * R; }

	// part is tile n of an example.
	static __device__ __forceinline__ Part part(const Geometry &g, const float *x, const float *dy, int n) {
		int across = (g.channels + CHANNELS - 1) / CHANNELS, o = n / across * FILTERS, c = n % across * CHANNELS;
		return {x + c * g.rows * W, dy + o * g.outRows * W, g.channels - c, g.out - o};
	}

	// copy begins to copy what output rows y… read. Eight threads take 32 neighbours. What lies outside is not read.
	static __device__ __forceinline__ void copy(Slab &slab, const Geometry &g, const Part &part, int y) {
		int t = hidden(threadX()), column = t % 8 * 4, above = y - g.top + column / W;
		const float *from = part.x + (t / 8 * g.rows + y - g.top) * W + column;
		bool rows[PIXELS / 32 + 1];
#pragma unroll
		for (int k = 0; k < PIXELS; k += 32)
			rows[k / 32] = (unsigned)(above + k / W) < (unsigned)g.rows;
#pragma unroll
		for (int c = 0; c < CHANNELS; c += THREADS / 8, from += THREADS / 8 * g.rows * W)
#pragma unroll
			for (int k = 0; k < PIXELS; k += 32)
				if (k + 32 <= PIXELS || k + column < PIXELS)
					copyFour(&slab.x[c + t / 8][k + column], from + k, c + t / 8 < part.channels && rows[k / 32]);
		constexpr int FOURS = POSITIONS / 4, STEP = THREADS / FOURS;
		int p = y * W + t % FOURS * 4, positions = g.outRows * W, filters = p < positions ? part.filters - t / FOURS : 0;
		const float *dy = part.dy + t / FOURS * positions + p;
#pragma unroll
		for (int o = 0; o < FILTERS; o += STEP, dy += STEP * positions)
			copyFour(&slab.dy[o + t / FOURS][p - y * W], dy, o < filters);
	}

	// multiply adds the products at four positions of a row after the other.
	static __device__ __forceinline__ void multiply(const Slab &slab, int rows, Results &sum) {
#pragma unroll 1
		for (int row = 0; row < rows; row++) {
			const float *x = slab.x[lane()] + row * W, *dy = slab.dy[filter()] + row * W, *ones = slab.dy[filter() + lane() % R] + row * W;
			float before[3] = {}; // the pixel left of the four
			float4 now[3];
#pragma unroll
			for (int k = 0; k < 3; k++)
				now[k] = four(x + k * W);
#pragma unroll 2
			for (int at = 0; at < W; at += 4) {
				bool last = at + 4 == W;
				const float *behind = x + (last ? at : at + 4);
				float4 next[3];
#pragma unroll
				for (int k = 0; k < 3; k++)
					next[k] = four(behind + k * W);
				float pixels[3][6];
#pragma unroll
				for (int k = 0; k < 3; k++) {
					pixels[k][0] = before[k], pixels[k][5] = last ? 0 : next[k].x;
#pragma unroll
					for (int p = 0; p < 4; p++)
						pixels[k][p + 1] = now[k][p];
				}
#pragma unroll
				for (int i = 0; i < R; i++) {
					float4 d = four(dy + i * (POSITIONS + 4) + at);
#pragma unroll
					for (int p = 0; p < 4; p++)
#pragma unroll
						for (int t = 0; t < TAPS; t++)
							sum.taps[i][t] = fmaf(d[p], pixels[t / 3][p + t % 3], sum.taps[i][t]);
				}
				float4 d = four(ones + at);
#pragma unroll
				for (int p = 0; p < 4; p++)
					sum.bias += d[p];
#pragma unroll
				for (int k = 0; k < 3; k++)
					before[k] = now[k].w, now[k] = next[k];
			}
		}
	}

	// gradient computes that of a part, whose first copies have begun in slab turn; they begin for the next one, if there is one.
	static __device__ __forceinline__ void gradient(Memory &m, int &turn, const Geometry &g, const Part &part, const Part &next, bool more,
	                                                Results &result) {
		Results block;
		result.clear(), block.clear();
#pragma unroll 1
		for (int y = 0; y < g.outRows; y += ROWS, turn ^= 1) {
			arrived();
			barrier();
			int after = y + ROWS;
			if (after < g.outRows)
				copy(m.slabs[turn ^ 1], g, part, after);
			else if (more)
				copy(m.slabs[turn ^ 1], g, next, 0);
			multiply(m.slabs[turn], min(ROWS, g.outRows - y), block);
			if (after * W % POSITION_BLOCK != 0 && after < g.outRows)
				continue;
#pragma unroll
			for (int i = 0; i < R; i++)
#pragma unroll
				for (int t = 0; t < TAPS; t++)
					result.taps[i][t] += block.taps[i][t];
			result.bias += block.bias;
			block.clear();
		}
	}

	// place is where a thread's result lies in the tile's gradient: no two lanes in a bank.
	static __device__ __forceinline__ float &place(Memory &m, int i, int t) { return m.gradient[filter() + i][lane() * TAPS + t]; }

	// write writes tile n's gradient as the weights lie, neighbours by neighbouring lanes. A warp has its own filters.
	static __device__ __forceinline__ void write(Memory &m, const Geometry &g, int n, float *to) {
		int across = (g.channels + CHANNELS - 1) / CHANNELS, c = n % across * CHANNELS, taps = g.channels * TAPS;
		int columns = min(CHANNELS, g.channels - c) * TAPS, filters = g.out - n / across * FILTERS - filter();
		to += (n / across * FILTERS + filter()) * taps + c * TAPS;
#pragma unroll
		for (int i = 0; i < R; i++) {
			if (i >= filters)
				break;
#pragma unroll
			for (int k = 0; k < TAPS; k++)
				if (k * 32 + lane() < columns)
					to[i * taps + k * 32 + lane()] = m.gradient[filter() + i][k * 32 + lane()];
		}
	}

	// bias says whether the thread has the bias's gradient for a filter of tile n, and where.
	static __device__ __forceinline__ bool bias(const Geometry &g, int n, int &at) {
		int across = (g.channels + CHANNELS - 1) / CHANNELS, o = n / across * FILTERS + filter() + lane();
		at = g.out * g.channels * TAPS + o;
		return n % across == 0 && lane() < R && o < g.out;
	}

	static __device__ __forceinline__ int tiles(const Geometry &g) {
		return (g.channels + CHANNELS - 1) / CHANNELS * ((g.out + FILTERS - 1) / FILTERS);
	}
};

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
