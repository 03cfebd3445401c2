// Gradients of convolutions by 3×3 windows at every position of an image of W columns. A lane has a channel, a warp eight
// filters: the eight by nine results in a lane's registers read every pixel once for its three taps in a row. No column is
// ever formed, and no slab holds one.
#include "tile.cuh"
#include "windows.cuh"

extern __shared__ __attribute__((aligned(16))) char memory[];

static constexpr int POSITION_BLOCK = 64;

template <int W, int ROWS> struct Windows {
	static constexpr int COLS = W, CHANNELS = 32, FILTERS = 32, R = 8, TAPS = 9, THREADS = 128;
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
		template <class F> __device__ __forceinline__ void each(F f) const {
#pragma unroll
			for (int i = 0; i < R; i++)
#pragma unroll
				for (int t = 0; t < TAPS; t++)
					f(filter() + i, lane(), t, taps[i][t]);
		}
	};

	static __device__ __forceinline__ int lane() { return threadX() % 32; }
	static __device__ __forceinline__ int filter() { return threadX() / 32 * R; }

	static __device__ __forceinline__ int biasFilter() { return lane() < R ? filter() + lane() : FILTERS; }

	static __device__ __forceinline__ void begin(Memory &) {}

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
};

// Slabs of two rows of 32 would be too much for two blocks on a processor.
using Windows8 = Windows<8, 8>;
using Windows16 = Windows<16, 4>;
using Windows32 = Windows<32, 1>;
WINDOW_KERNELS(3x3_8, Windows8)
WINDOW_KERNELS(3x3_16, Windows16)
WINDOW_KERNELS(3x3_32, Windows32)
