// Sums over the taps of windows and their channels, on tensor cores, of values in pixels: what a convolution and a dense layer
// give, and the gradients at their inputs. docs/internals/kernels/tensor.md explains them. Whoever includes this has an element
// type, Precision.
#pragma once
#include "activation.cuh"
#include "geometry.cuh"
#include "pixels.cuh"
#include "run.cuh"

static constexpr int THREADS = 128;
static constexpr int UNITS = 8, LINE = UNITS * UNIT_BYTES; // of a line in a stage: a pixel's channels, or a row of weights
static constexpr int STAGES = 3;
static constexpr int MOST_TAPS = 27; // of a window: places has a bit for each, above the four lowest, and one that is never set

extern __shared__ __attribute__((aligned(16))) char memory[];

static __device__ __forceinline__ int lane() { return threadX() % 32; }

// Axis says of one axis which results a block has and what they read: result n is at + n·stride, and reads n·scale + base +
// k·step by its k-th tap, which is tap first + k·every of the window.
struct Axis {
	int pixels, at, stride, scale, base, step, taps, first, every;
	__device__ __forceinline__ Axis(int out, int stride, int padding, int window, int dilation)
	    : pixels(out), at(0), stride(1), scale(stride), base(-padding), step(dilation), taps(window), first(0), every(1) {}
	// An input gradient reads the results of a forward product, and goes by phases.
	__device__ __forceinline__ Axis(const Phase &p)
	    : pixels(p.pixels), at(p.at), stride(p.stride), scale(1), base(p.offset), step(-p.back), taps(p.taps), first(p.first), every(p.step) {}
};

// Sums are a block's: ROWS pixels by LINES lines, which are filters, or channels of an input gradient. A warp has 16·R pixels by
// 8·C lines. A term is a channel of a tap, in this order; a stage has eight units of them for every pixel and line.
template <class P, int DOWN, int ACROSS, int R, int C> struct Sums {
	typedef typename P::Element Element;
	static constexpr int ROWS = 16 * R * DOWN, LINES = 8 * C * ACROSS, STAGE = (ROWS + LINES) * LINE, PITCH = LINES + 8;
	static constexpr int TOGETHER = THREADS / UNITS; // lines that the block copies at once
	static_assert(DOWN * ACROSS * 32 == THREADS && C % 2 == 0);

	// Place is where a pixel is read by the first tap, and bit 4+k says whether it is by the k-th: else that reads zeros.
	struct alignas(8) Place {
		int from;
		uint32 taps;
	};
	// Moves are those of a tap from the first one, in pixels and in weights.
	struct alignas(8) Moves {
		int from, weights;
	};
	static __device__ __forceinline__ Place *places() { return (Place *)(memory + STAGES * STAGE); }
	static __device__ __forceinline__ Moves *moves() { return (Moves *)(memory + STAGES * STAGE + ROWS * sizeof(Place)); }

	Axis y, x;
	int rows, cols, channels; // of what is read; channels are padded
	int n0, end, l0;          // the block's first result and line, and how many results there are
	float acc[R][C][4];

	__device__ __forceinline__ Sums(const Axis &y, const Axis &x, int rows, int cols, int channels, int live, int l0)
	    : y(y), x(x), rows(rows), cols(cols), channels(padded(channels)), n0(blockX() * ROWS), end(live * y.pixels * x.pixels), l0(l0) {}
	__device__ __forceinline__ bool works() const { return n0 < end; }

	// place fills the tables: each pixel of the block and each tap is worked out once.
	__device__ __forceinline__ void place(int windowCols) const {
		for (int i = threadX(); i < ROWS; i += THREADS) {
			int n = n0 + i;
			Place p = {0, 0};
			if (n < end) {
				int area = y.pixels * x.pixels, at = n % area;
				int row = at / x.pixels * y.scale + y.base, col = at % x.pixels * x.scale + x.base;
				p.from = ((n / area * rows + row) * cols + col) * channels;
				uint32 across = 0;
				for (int k = 0; k < x.taps; k++)
					across |= (unsigned)(col + k * x.step) < (unsigned)cols ? 16u << k : 0;
				for (int k = 0; k < y.taps; k++)
					p.taps |= (unsigned)(row + k * y.step) < (unsigned)rows ? across << k * x.taps : 0;
			}
			places()[i] = p;
		}
		if (int k = threadX(); k <= y.taps * x.taps) { // behind the last tap is one that reads zeros
			Moves m = {0, 0};
			if (k < y.taps * x.taps) {
				int v = k / x.taps, u = k % x.taps;
				m.from = (v * y.step * cols + u * x.step) * channels;
				m.weights = ((y.first + v * y.every) * windowCols + x.first + u * x.every) * channels;
			}
			moves()[k] = m;
		}
		barrier();
	}

	// Copies are what a thread brings to stages: one unit of every TOGETHER-th pixel and line.
	struct Copies {
		int from[ROWS / TOGETHER];
		uint32 taps[ROWS / TOGETHER];
		const Element *weights; // of the thread's first line
		int pitch;              // of TOGETHER lines
		uint32 to;
		int tap, unit;    // of the next stage: the tap, and the channel
		int further, rest; // what lies between two stages: taps, and channels
	};

	__device__ __forceinline__ void begin(Copies &c, const Element *w, int terms) const {
		int line = threadX() / UNITS, u = threadX() % UNITS, units = channels / P::UNIT;
#pragma unroll
		for (int i = 0; i < ROWS / TOGETHER; i++) {
			Place p = places()[line + i * TOGETHER];
			c.from[i] = p.from;
			c.taps[i] = p.taps;
		}
		c.weights = w + (int64)(l0 + line) * terms;
		c.pitch = TOGETHER * terms;
		c.to = shared(memory) + (line * UNITS + (u ^ line % UNITS)) * UNIT_BYTES;
		c.tap = u / units;
		c.unit = u % units * P::UNIT;
		c.further = UNITS / units;
		c.rest = UNITS % units * P::UNIT;
	}

	// copy begins to fill a stage, and goes on to the next.
	__device__ __forceinline__ void copy(Copies &c, const Element *from, int turn) const {
		Moves m = moves()[min(c.tap, y.taps * x.taps)];
		from += m.from + c.unit;
		uint32 to = c.to + turn;
#pragma unroll
		for (int i = 0; i < ROWS / TOGETHER; i++)
			copyBytes<FirstCache>(to + i * TOGETHER * LINE, from + hidden(c.from[i]), c.taps[i] >> c.tap & UNIT_BYTES);
		const Element *weights = c.weights + m.weights + c.unit;
#pragma unroll
		for (int i = 0; i < LINES / TOGETHER; i++)
			copyBytes<SecondCache>(to + (ROWS + i * TOGETHER) * LINE, weights + i * c.pitch, UNIT_BYTES);
		c.unit += c.rest;
		c.tap += c.further;
		if (c.unit >= channels)
			c.unit -= channels, c.tap++;
		c.tap = min(c.tap, MOST_TAPS);
	}

	static __device__ __forceinline__ int top() { return threadX() / 32 / ACROSS * 16 * R; }
	static __device__ __forceinline__ int left() { return threadX() / 32 % ACROSS * 8 * C; }

	// Reads are where a warp finds its fragments of a stage, by steps of two units. Units of a line are exchanged by its number, so that
	// eight lines' are in all banks.
	struct Reads {
		uint32 a[UNITS / 2], b[UNITS / 2];
		__device__ __forceinline__ Reads() {
			uint32 pixels = shared(memory) + (top() + lane() % 16) * LINE, lines = shared(memory) + (ROWS + left() + lane() % 8 + lane() / 16 * 8) * LINE;
#pragma unroll
			for (int k = 0; k < UNITS / 2; k++) {
				a[k] = pixels + (2 * k + lane() / 16 ^ lane() % 8) * UNIT_BYTES;
				b[k] = lines + (2 * k + lane() / 8 % 2 ^ lane() % 8) * UNIT_BYTES;
			}
		}
	};

	// multiply adds the products of a stage.
	__device__ __forceinline__ void multiply(const Reads &reads, int turn) {
#pragma unroll
		for (int k = 0; k < UNITS / 2; k++) {
			uint32 left[R][4], right[C / 2][4];
#pragma unroll
			for (int r = 0; r < R; r++)
				fragments(left[r], reads.a[k] + turn + r * 16 * LINE);
#pragma unroll
			for (int c = 0; c < C / 2; c++)
				fragments(right[c], reads.b[k] + turn + c * 16 * LINE);
#pragma unroll
			for (int r = 0; r < R; r++)
#pragma unroll
				for (int c = 0; c < C; c++)
					P::multiply(acc[r][c], left[r], right[c / 2][c % 2 * 2], right[c / 2][c % 2 * 2 + 1]);
		}
	}

	// sum adds up all terms. w has padded lines of all taps' weights.
	__device__ __forceinline__ void sum(const Element *from, const Element *w, int windowRows, int windowCols) {
		place(windowCols);
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					acc[r][c][e] = 0;
		Copies copies;
		begin(copies, w, windowRows * windowCols * channels);
		int all = (y.taps * x.taps * channels + UNITS * P::UNIT - 1) / (UNITS * P::UNIT);
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++) {
			if (s < all)
				copy(copies, from, s * STAGE);
			commit();
		}
		Reads reads;
#pragma unroll 1
		for (int s = 0; s < all;)
#pragma unroll
			for (int stage = 0; stage < STAGES; stage++, s++) {
				if (s >= all)
					break;
				arrivedBut<STAGES - 2>();
				barrier(); // also: nobody reads the stage any more that is filled next
				if (s + STAGES - 1 < all)
					copy(copies, from, (stage + STAGES - 1) % STAGES * STAGE);
				commit();
				multiply(reads, stage * STAGE);
			}
	}

	// each calls f(n, line, eight) for eight lines side by side of a result that exists, in the order of memory.
	template <class F> __device__ __forceinline__ void each(int lines, F f) {
		float *out = (float *)memory;
		barrier();
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int half = 0; half < 2; half++)
					*(float2 *)(out + (top() + 16 * r + 8 * half + lane() / 4) * PITCH + left() + 8 * c + lane() % 4 * 2) =
					    float2{acc[r][c][2 * half], acc[r][c][2 * half + 1]};
		barrier();
		for (int i = threadX(); i < ROWS * (LINES / EIGHT); i += THREADS) {
			int row = i / (LINES / EIGHT), line = l0 + i % (LINES / EIGHT) * EIGHT;
			if (n0 + row >= end)
				break;
			if (line >= padded(lines))
				continue;
			float v[EIGHT];
			TF32::unpack(out + row * PITCH + line - l0, v);
			f(n0 + row, line, v);
		}
	}

	// pixel numbers the pixel of result n among all that results have, for images of so many rows and columns.
	__device__ __forceinline__ int pixel(int n, int rows, int cols) const {
		if (y.stride == 1 && x.stride == 1)
			return n;
		int area = y.pixels * x.pixels, at = n % area;
		return (n / area * rows + y.at + at / x.pixels * y.stride) * cols + x.at + at % x.pixels * x.stride;
	}
};

// Bound says how many blocks share a multiprocessor, for registers.
template <class S>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, const Precision::Element *x, const Precision::Element *w,
                                               const float *bias, Precision::Element *y, int act, const Geometry &g) {
	S s(Axis(g.outRows, g.strideY, g.top, g.windowRows, g.dilationY), Axis(g.outCols, g.strideX, g.left, g.windowCols, g.dilationX), g.rows, g.cols,
	    g.channels, liveRows(run, first, capacity), blockY() * S::LINES);
	if (!s.works())
		return;
	s.sum(x, w, g.windowRows, g.windowCols);
	s.each(g.out, [&](int n, int o, float(&v)[EIGHT]) INLINE {
#pragma unroll
		for (int i = 0; i < EIGHT; i++) {
			if (bias && o + i < g.out)
				v[i] += bias[o + i];
			if (act)
				v[i] = relu(v[i]);
		}
		Precision::pack(y + n * padded(g.out) + o, v);
	});
}

template <class S>
static __device__ __forceinline__ void inputGrad(const Run *run, int first, int capacity, const Precision::Element *dy, const Precision::Element *w,
                                                 Precision::Element *dx, int add, const Precision::Element *activated, const Geometry &g) {
	int phases = g.strideY * g.strideX, phase = blockY() % phases;
	S s(Axis(Phase(phase / g.strideX, g.rows, g.strideY, g.top, g.windowRows, g.dilationY)),
	    Axis(Phase(phase % g.strideX, g.cols, g.strideX, g.left, g.windowCols, g.dilationX)), g.outRows, g.outCols, g.out,
	    liveRows(run, first, capacity), blockY() / phases * S::LINES);
	if (!s.works())
		return;
	s.sum(dy, w, g.windowRows, g.windowCols);
	s.each(g.channels, [&](int n, int c, float(&v)[EIGHT]) INLINE {
		int at = s.pixel(n, g.rows, g.cols) * padded(g.channels) + c;
		float old[EIGHT];
		if (add) {
			Precision::unpack(dx + at, old);
#pragma unroll
			for (int i = 0; i < EIGHT; i++)
				v[i] += old[i];
		}
		if (activated) {
			Precision::unpack(activated + at, old);
#pragma unroll
			for (int i = 0; i < EIGHT; i++)
				v[i] = passBack(ReLU, old[i], v[i]);
		}
		Precision::pack(dx + at, v);
	});
}

// The tiles: pixels by lines, and blocks for whose registers there is room.
#define TILE(ROWS, LINES, DOWN, ACROSS, R, C, BLOCKS)                                                                                      \
	KERNEL __launch_bounds__(THREADS, BLOCKS) forward_##ROWS##x##LINES(const Run *run, int first, int capacity, const Precision::Element *x,  \
	                                                                   const Precision::Element *w, const float *bias,                     \
	                                                                   Precision::Element *y, int act, GEOMETRY) {                         \
		forward<Sums<Precision, DOWN, ACROSS, R, C>>(run, first, capacity, x, w, bias, y, act, GEOMETRY_VALUES);                           \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(THREADS, BLOCKS) input_grad_##ROWS##x##LINES(const Run *run, int first, int capacity,                            \
	                                                                      const Precision::Element *dy, const Precision::Element *w,       \
	                                                                      Precision::Element *dx, int add,                                 \
	                                                                      const Precision::Element *activated, GEOMETRY) {                 \
		inputGrad<Sums<Precision, DOWN, ACROSS, R, C>>(run, first, capacity, dy, w, dx, add, activated, GEOMETRY_VALUES);                  \
	}
TILE(128, 128, 2, 2, 4, 8, 2)
TILE(128, 64, 2, 2, 4, 4, 3)
TILE(128, 32, 4, 1, 2, 4, 3)
TILE(64, 64, 2, 2, 2, 4, 4)
TILE(64, 32, 2, 2, 2, 2, 4)

// weights lays a convolution's weights out for sums: for each line, all taps, for each the padded terms. Lines are filters and
// terms channels. What does not exist is zero. A thread has one term of EIGHT lines; threads is how many there are.
KERNEL __launch_bounds__(256) weights(const float *w, Precision::Element *to, int channels, int out, int taps, int threads) {
	int i = index();
	if (i >= threads)
		return;
	int terms = taps * padded(channels), at = i % terms, o = i / terms * EIGHT, c = at % padded(channels), row = channels * taps;
	int from = o * row + c * taps + at / padded(channels);
	float v[EIGHT];
#pragma unroll
	for (int k = 0; k < EIGHT; k++)
		v[k] = w[hidden(c < channels && o + k < out ? from + k * row : 0)]; // all loads go together
#pragma unroll
	for (int k = 0; k < EIGHT; k++)
		Precision::put(to + (o + k) * terms + at, c < channels && o + k < out ? v[k] : 0);
}

// weights_turned is the other way round: lines are channels, and terms filters. That is a matrix of filters by channels' taps
// turned, in squares.
static constexpr int SQUARE = 32;
KERNEL __launch_bounds__(256) weights_turned(const float *w, Precision::Element *to, int channels, int out, int taps, int lines) {
	__shared__ float square[SQUARE][SQUARE + 1];
	int columns = channels * taps, k0 = blockX() * SQUARE, o0 = blockY() * SQUARE, x = threadX() % SQUARE;
	for (int i = threadX() / SQUARE; i < SQUARE; i += 256 / SQUARE)
		square[i][x] = o0 + i < out && k0 + x < columns ? w[(o0 + i) * columns + k0 + x] : 0;
	barrier();
	for (int i = threadX() / SQUARE; i < SQUARE; i += 256 / SQUARE)
		if (k0 + i < lines * taps && o0 + x < padded(out))
			Precision::put(to + (k0 + i) * padded(out) + o0 + x, square[x][i]);
}
