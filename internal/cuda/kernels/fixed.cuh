// Pieces of a trunk whose geometry is known when it is compiled: of square convolutions and of the 2×2 maximum pools behind them. A
// block of THREADS has one example. Every element is the same chain of operations as in trunk.cu.
#pragma once
#include "activation.cuh"
#include "gather.cuh"
#include "run.cuh"
#include "tile.cuh"

static constexpr int THREADS = 128, POSITION_BLOCK = 64;

static constexpr int fours(int n) { return (n + 3) / 4 * 4; }

// Layer is a convolution and the pool behind it, with images of a size given by one side. A tile has as its constants:
//	FILTERS_AT_ONCE, POSITIONS_AT_ONCE   a thread's results on the way forward, the positions along one row
//	FILTERS_KEPT, POSITIONS_READ         filters by one row of taps in a thread that computes a gradient, and the positions of a row
//	                                     that it reads at once: none of these stretches lies in two blocks of positions
//	PLANE_APART                          floats between channels of an image, against bank conflicts
//	GRADIENT_PLANE, GRADIENT_ROW         the distance of filters and of rows in gradients
template <int CHANNELS_, int SIZE_, int FILTERS_, int WINDOW_, int STRIDE_, int PADDING_, int POOL_, class Tile_> struct Layer : Tile_ {
	static constexpr int CHANNELS = CHANNELS_, SIZE = SIZE_, FILTERS = FILTERS_, WINDOW = WINDOW_, STRIDE = STRIDE_, PADDING = PADDING_,
	                     POOL = POOL_;
	static constexpr int AREA = WINDOW * WINDOW, TAPS = CHANNELS * AREA, PARAMETERS = FILTERS * (TAPS + 1);
	static constexpr int OUT = (SIZE + 2 * PADDING - WINDOW) / STRIDE + 1, POSITIONS = OUT * OUT, OUTPUTS = FILTERS * POSITIONS;
	static constexpr int POOLED = (OUT - 2) / POOL + 1, POOL_POSITIONS = POOLED * POOLED, POOL_OUTPUTS = FILTERS * POOL_POSITIONS;
	static constexpr int BLOCKS = (POSITIONS + POSITION_BLOCK - 1) / POSITION_BLOCK;
	static_assert(OUT % Tile_::POSITIONS_AT_ONCE == 0 && FILTERS % Tile_::FILTERS_AT_ONCE == 0 && FILTERS % Tile_::FILTERS_KEPT == 0);
	static_assert(OUT % Tile_::POSITIONS_READ == 0 && (BLOCKS == 1 || POSITION_BLOCK % Tile_::POSITIONS_READ == 0));

	// Images lie in shared memory with their padding. Rows begin at odd multiples of 16 bytes, so neighbours in other banks.
	static constexpr int ROWS = SIZE + 2 * PADDING, PITCH = 4 * ((ROWS + 3) / 4 | 1), PLANE = ROWS * PITCH + Tile_::PLANE_APART,
	                     IMAGE = CHANNELS * PLANE;
	// Rows of taps that are read by fours lie so that neighbouring filters, or channels, begin in other banks.
	static constexpr int APART = AREA % 4 == 0 ? 4 : 0, WEIGHT_FILTER = TAPS + APART, WEIGHT_CHANNEL = AREA + APART;
	static constexpr int OUT_PLANE = POSITIONS % 4 == 0 ? POSITIONS + 4 : POSITIONS;

	static __device__ __forceinline__ int gradientAt(int filter, int y, int x) {
		return filter * Tile_::GRADIENT_PLANE + y * Tile_::GRADIENT_ROW + x + (y * OUT + x) / POSITION_BLOCK * 4;
	}
	// What threads have of a gradient lies one after the other.
	static constexpr int SCRATCH_LINE = ((CHANNELS * WINDOW + 1) * (FILTERS / Tile_::FILTERS_KEPT) * BLOCKS) | 1;
	static constexpr int SCRATCH = Tile_::FILTERS_KEPT * WINDOW * SCRATCH_LINE;
	static_assert(Tile_::GRADIENT_PLANE >= OUT * Tile_::GRADIENT_ROW + (BLOCKS - 1) * 4);
};

// each calls f(n) for n below N, one in a thread. AT_ONCE of them have no branches between them, so that their loads wait together.
template <int N, int AT_ONCE = 4, class F> static __device__ __forceinline__ void each(F f) {
	constexpr int TOGETHER = AT_ONCE * THREADS, MOST = N / TOGETHER * TOGETHER;
	int n = threadX();
#pragma unroll 1
	for (; n < MOST; n += TOGETHER)
#pragma unroll
		for (int i = 0; i < AT_ONCE; i++)
			f(n + i * THREADS);
#pragma unroll 1
	for (; n < N; n += THREADS)
		f(n);
}

// load reads N neighbours at a multiple of ALIGNED floats, as many at once as that allows.
template <int ALIGNED, int N> static __device__ __forceinline__ void load(float (&to)[N], const float *from) {
	constexpr int WIDTH = ALIGNED % 4 == 0 ? 4 : ALIGNED % 2 == 0 ? 2 : 1, MOST = N / WIDTH * WIDTH;
	typedef float Some __attribute__((ext_vector_type(WIDTH)));
#pragma unroll
	for (int i = 0; i < MOST; i += WIDTH) {
		Some x = *(const Some *)(from + i);
#pragma unroll
		for (int j = 0; j < WIDTH; j++)
			to[i + j] = x[j];
	}
#pragma unroll
	for (int i = MOST; i < N; i++)
		to[i] = from[i];
}

// convForward leaves outputs, and those of a ReLU, at OUT_PLANE from filter to filter. Neighbouring threads have neighbouring filters.
template <class L>
static __device__ __forceinline__ void convForward(const float *image, const float *weights, const float *bias, int act, float *out) {
	constexpr int F = L::FILTERS_AT_ONCE, P = L::POSITIONS_AT_ONCE, GROUPS = L::FILTERS / F, ITEMS = GROUPS * L::POSITIONS / P;
	constexpr int LINES = L::AREA * F * P > 1000 ? 1 : L::WINDOW; // whose code is not too long
	static_assert(ITEMS <= THREADS);
	int n = threadX();
	if (n >= ITEMS)
		return;
	int o = n % GROUPS, row = n / GROUPS % L::OUT, col = n / GROUPS / L::OUT * P;
	float acc[F][P], b[F];
#pragma unroll
	for (int i = 0; i < F; i++) {
		b[i] = bias[o + i * GROUPS];
#pragma unroll
		for (int j = 0; j < P; j++)
			acc[i][j] = 0;
	}
	const float *x = image + row * L::STRIDE * L::PITCH + col * L::STRIDE, *w = weights + o * L::WEIGHT_FILTER;
#pragma unroll 1
	for (int c = 0; c < L::CHANNELS; c++, x += L::PLANE - L::WINDOW * L::PITCH)
#pragma unroll LINES
		for (int v = 0; v < L::WINDOW; v++, x += L::PITCH, w += L::WINDOW) {
			float line[fours((P - 1) * L::STRIDE + L::WINDOW)], tap[F][L::WINDOW];
			load<4>(line, x);
#pragma unroll
			for (int i = 0; i < F; i++)
				load<L::WINDOW>(tap[i], w + i * GROUPS * L::WEIGHT_FILTER);
#pragma unroll
			for (int u = 0; u < L::WINDOW; u++)
#pragma unroll
				for (int i = 0; i < F; i++)
#pragma unroll
					for (int j = 0; j < P; j++)
						acc[i][j] = fmaf(tap[i][u], line[j * L::STRIDE + u], acc[i][j]);
		}
#pragma unroll
	for (int i = 0; i < F; i++)
#pragma unroll
		for (int j = 0; j < P; j++) {
			float v = acc[i][j] + b[i];
			out[(o + i * GROUPS) * L::OUT_PLANE + row * L::OUT + col + j] = act == ReLU ? relu(v) : v;
		}
}

// activateAll does what convForward has left.
template <class L> static __device__ __forceinline__ void activateAll(int act, float *out) {
	if (act <= ReLU)
		return;
#pragma unroll 1
	for (int e = threadX(); e < L::FILTERS * L::OUT_PLANE; e += THREADS)
		if (e % L::OUT_PLANE < L::POSITIONS)
			out[e] = activate(act, out[e]);
	barrier();
}

// poolForward writes a convolution's outputs and those of the pool, with the place of each in its plane, to global memory; next(channel,
// y, x, v) gets the pool's too.
template <class L, class F>
static __device__ __forceinline__ void poolForward(const float *out, float *values, float *pooled, int *largests, F next) {
	each<L::OUTPUTS>([&](int e) INLINE { values[e] = out[e / L::POSITIONS * L::OUT_PLANE + e % L::POSITIONS]; });
	each<L::POOL_OUTPUTS>([&](int e) INLINE {
		int channel = e / L::POOL_POSITIONS, y = e % L::POOL_POSITIONS / L::POOLED, x = e % L::POOLED;
		int corner = y * L::POOL * L::OUT + x * L::POOL;
		const float *at = out + channel * L::OUT_PLANE + corner;
		float top[2], bottom[2];
		constexpr int ALIGNED = L::POOL % 2 == 0 && L::OUT % 2 == 0 && L::OUT_PLANE % 2 == 0 ? 2 : 1;
		load<ALIGNED>(top, at);
		load<ALIGNED>(bottom, at + L::OUT);
		// The first that no later one exceeds.
		int best = corner;
		float v = top[0];
		auto try_ = [&](float other, int place) INLINE {
			bool wins = other > v;
			v = wins ? other : v;
			best = wins ? place : best;
		};
		try_(top[1], corner + 1);
		try_(bottom[0], corner + L::OUT);
		try_(bottom[1], corner + L::OUT + 1);
		next(channel, y, x, v);
		pooled[e] = v;
		largests[e] = best;
	});
}

// poolGrad leaves the gradient behind the activation of a convolution, from gradient(n) at the n-th output of the pool. A thread goes down
// a column, along which it remembers what reads a row.
template <class L, class F>
static __device__ __forceinline__ void poolGrad(const float *values, const int *largests, int act, float *dy, F gradient) {
	constexpr int READERS = 2 / L::POOL; // along an axis
#pragma unroll 1
	for (int n = threadX(); n < L::FILTERS * L::OUT; n += THREADS) {
		int channel = n / L::OUT, x = n % L::OUT;
		int place[READERS][READERS];
		float d[READERS][READERS];
#pragma unroll
		for (int i = 0; i < READERS; i++)
#pragma unroll
			for (int j = 0; j < READERS; j++)
				place[i][j] = -1;
#pragma unroll
		for (int y = 0; y < L::OUT; y++) {
#pragma unroll
			for (int j = 0; j < READERS; j++) {
				int row = y / L::POOL, col = x / L::POOL - j;
				if (y % L::POOL != 0)
					continue;
				place[READERS - 1][j] = place[0][j], d[READERS - 1][j] = d[0][j];
				bool reads = row < L::POOLED && (unsigned)col < (unsigned)L::POOLED;
				int at = channel * L::POOL_POSITIONS + (reads ? row * L::POOLED + col : 0);
				place[0][j] = reads ? largests[at] : -1;
				d[0][j] = gradient(at);
			}
			int at = y * L::OUT + x;
			float sum = 0;
#pragma unroll
			for (int i = READERS - 1; i >= 0; i--)
#pragma unroll
				for (int j = READERS - 1; j >= 0; j--)
					sum = place[i][j] == at ? sum + d[i][j] : sum;
			dy[L::gradientAt(channel, y, x)] = passBack(act, values[channel * L::POSITIONS + at], sum);
		}
	}
}

// convStore keeps an example's gradient: a thread has one row of taps, or the bias, in a block of positions, which scratch joins. ones
// stands for what a bias reads.
template <class L>
static __device__ __forceinline__ void convStore(const float *image, const float *dy, const float *ones, float *scratch, float *kept,
                                                 double *norm2, double *sums) {
	constexpr int F = L::FILTERS_KEPT, P = L::POSITIONS_READ, LINES = L::CHANNELS * L::WINDOW, GROUPS = L::FILTERS / F;
	constexpr int TILES = GROUPS * L::BLOCKS, WEIGHTS = LINES * TILES, ITEMS = WEIGHTS + TILES; // the biases come last
	constexpr int N = fours((P - 1) * L::STRIDE + L::WINDOW);
	double squares = 0;
#pragma unroll 1
	for (int n = threadX(); n < ITEMS; n += THREADS) {
		bool bias = n >= WEIGHTS;
		int line = bias ? LINES : n % LINES, tile = bias ? n - WEIGHTS : n / LINES, o = tile % GROUPS * F, block = tile / GROUPS;
		const float *x = image + line / L::WINDOW * L::PLANE + line % L::WINDOW * L::PITCH;
		float acc[F][L::WINDOW];
#pragma unroll
		for (int i = 0; i < F; i++)
#pragma unroll
			for (int u = 0; u < L::WINDOW; u++)
				acc[i][u] = 0;
		int p = block * POSITION_BLOCK, end = min(p + POSITION_BLOCK, L::POSITIONS), row = p / L::OUT, col = p % L::OUT;
		const float *d = dy + L::gradientAt(o, row, col);
#pragma unroll 1
		for (; p < end; p += P, d += P) {
			float read[N];
			load<4>(read, bias ? ones : x + (row * L::PITCH + col) * L::STRIDE);
#pragma unroll
			for (int i = 0; i < F; i++) {
				float a[P];
				load<P == L::OUT ? L::GRADIENT_ROW : P>(a, d + i * L::GRADIENT_PLANE);
#pragma unroll
				for (int j = 0; j < P; j++)
#pragma unroll
					for (int u = 0; u < L::WINDOW; u++)
						acc[i][u] = fmaf(a[j], read[j * L::STRIDE + u], acc[i][u]);
			}
			col += P;
			if (col == L::OUT)
				col = 0, row++, d += L::GRADIENT_ROW - L::OUT;
		}
#pragma unroll
		for (int i = 0; i < F; i++)
#pragma unroll
			for (int u = 0; u < L::WINDOW; u++) {
				int to = bias ? L::FILTERS * L::TAPS + o + i : (o + i) * L::TAPS + line * L::WINDOW + u;
				if (u > 0 && bias)
					continue;
				if (L::BLOCKS == 1) {
					kept[to] = acc[i][u];
					squares = fma(acc[i][u], acc[i][u], squares);
				} else {
					scratch[(i * L::WINDOW + u) * L::SCRATCH_LINE + n] = acc[i][u];
				}
			}
	}
	if (L::BLOCKS > 1) {
		barrier();
		each<L::PARAMETERS>([&](int e) INLINE {
			bool bias = e >= L::FILTERS * L::TAPS;
			int o = bias ? e - L::FILTERS * L::TAPS : e / L::TAPS, k = bias ? 0 : e % L::TAPS, lines = bias ? 1 : LINES;
			const float *from = scratch + (o % F * L::WINDOW + k % L::WINDOW) * L::SCRATCH_LINE;
			from += (bias ? WEIGHTS : 0) + o / F * lines + k / L::WINDOW;
			float sum = 0;
#pragma unroll
			for (int i = 0; i < L::BLOCKS; i++)
				sum += from[i * lines * GROUPS];
			kept[e] = sum;
			squares = fma(sum, sum, squares);
		});
	}
	if (!norm2)
		return;
	squares = blockSum<THREADS>(squares, sums);
	if (threadX() == 0)
		*norm2 = squares;
}

// convInputGrad: a thread has CHANNELS_AT_ONCE channels of a row of the image. Rows come from the middle to the borders, which fewer
// positions read, so that the threads of a warp read about as many.
template <class L> static __device__ __forceinline__ void convInputGrad(const float *dy, const float *weights, float *dx) {
	constexpr int C = L::CHANNELS_AT_ONCE, GROUPS = L::CHANNELS / C, READ = (L::OUT - 1) * L::STRIDE + L::WINDOW;
	static_assert(L::PADDING == 0 && L::CHANNELS % C == 0 && L::BLOCKS == 1 && L::SIZE * GROUPS <= THREADS);
	int n = threadX();
	if (n >= L::SIZE * GROUPS)
		return;
	int c = n % GROUPS, nth = n / GROUPS, middle = READ / 2, row = nth >= READ ? nth : nth % 2 ? middle - 1 - nth / 2 : middle + nth / 2;
	float acc[C][L::SIZE];
#pragma unroll
	for (int i = 0; i < C; i++)
#pragma unroll
		for (int j = 0; j < L::SIZE; j++)
			acc[i][j] = 0;
	// Through tap v = first + k·STRIDE position row / STRIDE − k reads it.
	int first = row % L::STRIDE, begin = max(0, row / L::STRIDE - L::OUT + 1);
	int count = min((L::WINDOW - 1 - first) / L::STRIDE, row / L::STRIDE) + 1 - begin;
	const float *from = dy + (row / L::STRIDE - begin) * L::GRADIENT_ROW;
	const float *w = weights + c * L::WEIGHT_CHANNEL + (first + begin * L::STRIDE) * L::WINDOW;
#pragma unroll 1
	for (int o = 0; o < L::FILTERS; o++, from += L::GRADIENT_PLANE, w += L::CHANNELS * L::WEIGHT_CHANNEL) {
		const float *at = from, *tap = w;
#pragma unroll 1
		for (int k = 0; k < count; k++, at -= L::GRADIENT_ROW, tap += L::STRIDE * L::WINDOW) {
			float d[L::OUT], t[C][L::WINDOW];
			load<L::GRADIENT_ROW>(d, at);
#pragma unroll
			for (int i = 0; i < C; i++)
				load<L::WINDOW>(t[i], tap + i * GROUPS * L::WEIGHT_CHANNEL);
#pragma unroll
			for (int u = 0; u < L::WINDOW; u++)
#pragma unroll
				for (int i = 0; i < C; i++)
#pragma unroll
					for (int j = 0; j < L::OUT; j++)
						acc[i][j * L::STRIDE + u] = fmaf(t[i][u], d[j], acc[i][j * L::STRIDE + u]);
		}
	}
#pragma unroll
	for (int i = 0; i < C; i++)
#pragma unroll
		for (int j = 0; j < L::SIZE; j++)
			dx[(c + i * GROUPS) * L::SIZE * L::SIZE + row * L::SIZE + j] = acc[i][j];
}
