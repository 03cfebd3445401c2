// Convolutions by 3×3 windows with a pixel of padding, on tensor cores in TF32: forward, input gradients, and gradients of weights.
// docs/internals/kernels/tensor.md explains them. Images have a multiple of eight columns, so that eight pixels in a row are
// the columns of a fragment, and a tap only moves where they are read: no column of the convolution is ever formed.
#include "activation.cuh"
#include "lanes.cuh"
#include "mma.cuh"
#include "tile.cuh"
#include "windows.cuh"

typedef float float2 __attribute__((ext_vector_type(2)));
typedef uint32 uint4 __attribute__((ext_vector_type(4)));

extern __shared__ __attribute__((aligned(16))) char memory[];

static constexpr int TAPS = 9, TERMS = 8, EIGHT = 8, MARGIN = 4;
static constexpr int FRAGMENT = 4 * 32; // words of sixteen lines by eight terms, as a warp's lanes have them

static __device__ __forceinline__ int quarter() { return threadX() % 4; }     // the lane's column of a fragment
static __device__ __forceinline__ int eighth() { return threadX() % 32 / 4; } // and its row
static __device__ __forceinline__ int warp() { return threadX() / 32; }

// change replaces four values in shared memory.
template <class F> static __device__ __forceinline__ void change(float *x, F f) {
	float4 v = four(x);
	uint4 y;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		float one = v[i];
		y[i] = f(&one);
	}
	*(uint4 *)x = y;
}

// conv3_weights lays weights out for sums: blocks of LINES lines, in them eights of terms, taps, sixteens of lines, and these by
// lanes. Lines are filters and terms channels; turned, it is the other way round, and taps in opposite order. What does not
// exist is zero.
KERNEL __launch_bounds__(256) conv3_weights(const float *w, float *to, int channels, int out, int linesOfBlock, int turned, int count) {
	int i = index();
	if (i >= count)
		return;
	int lines = turned ? channels : out, terms = turned ? out : channels;
	int lane = i / 4 % 32, at = i / FRAGMENT, sixteens = linesOfBlock / 16;
	int line = at % sixteens * 16 + lane / 4 + i % 2 * 8, tap = at / sixteens % TAPS, eights = (terms + TERMS - 1) / TERMS;
	at /= sixteens * TAPS;
	int term = at % eights * TERMS + lane % 4 + i % 4 / 2 * 4;
	line += at / eights * linesOfBlock;
	float v = 0;
	if (line < lines && term < terms)
		v = turned ? w[(term * channels + line) * TAPS + TAPS - 1 - tap] : w[(line * channels + term) * TAPS + tap];
	to[i] = fromBits(TF32::nearest(&v));
}

// Sums are a block's: LINES lines of strips of eight pixels. A warp has all lines of its strips.
template <int LINES> struct Sums3 {
	static constexpr int R = LINES / 16, STRIPS = 16, C = STRIPS / 4, WEIGHTS = TAPS * LINES * TERMS;
	static constexpr int PLANE = 264; // values of an image; the planes of a fragment lie in different banks
	static constexpr int STAGE = WEIGHTS + TERMS * PLANE;
	static_assert(PLANE % 32 == 8);

	const float *x;
	int planes, rows, cols, live; // of x; results have as many rows and columns
	int slots, pitch;             // rows of images in shared memory, and values of one
	int row0;                     // the first of the block's rows, counted through all examples
	float acc[R][C][4];

	__device__ __forceinline__ Sums3(const float *x, int planes, int rows, int cols, int slots, int live)
	    : x(x), planes(planes), rows(rows), cols(cols), live(live), slots(slots), pitch(cols + MARGIN),
	      row0(blockX() * (STRIPS / (cols / EIGHT))) {}
	__device__ __forceinline__ float *shared() const { return (float *)memory; }
	__device__ __forceinline__ bool works() const { return row0 < live * rows; }

	// slot is where a row of all examples lies: a row of zeros is above and below every image.
	__device__ __forceinline__ int slot(int row) const { return row / rows * (rows + 2) + row % rows - (row0 / rows * (rows + 2) + row0 % rows) + 1; }

	// Copy is where four pixels of the first plane come from and go to; none come from below zero.
	struct alignas(8) Copy {
		int from, to;
	};
	__device__ __forceinline__ Copy *list() const { return (Copy *)(shared() + 2 * STAGE); }
	__device__ __forceinline__ int copies() const { return slots * (cols / 4); }

	__device__ __forceinline__ void place() {
		int fours = cols / 4, first = row0 / rows * (rows + 2) + row0 % rows;
		for (int i = threadX(); i < copies(); i += THREADS) {
			int padded = first + i / fours, e = padded / (rows + 2), y = padded % (rows + 2) - 1, at = i % fours * 4;
			bool exists = e < live && (unsigned)y < (unsigned)rows;
			list()[i] = {exists ? e * planes * rows * cols + y * cols + at : -1, WEIGHTS + i / fours * pitch + MARGIN + at};
		}
		for (int s = 0; s < 2 * STAGE; s += STAGE)
			for (int i = WEIGHTS + 4 * threadX(); i < STAGE; i += 4 * THREADS)
				*(float4 *)(shared() + s + i) = 0;
		clear(acc);
	}

	// mine calls f(copy, plane) for the fours of pixels that the thread brings to a stage: a half of the block has four planes.
	template <class F> __device__ __forceinline__ void mine(F f) const {
		constexpr int HALF = THREADS / 2;
		for (int i = threadX() % HALF; i < copies(); i += HALF) {
			Copy c = list()[i];
			if (c.from < 0)
				continue;
#pragma unroll
			for (int p = 0; p < TERMS / 2; p++)
				f(c, threadX() / HALF * (TERMS / 2) + p);
		}
	}

	// copy begins to fill a stage with planes k…, zeros for those that do not exist, and their weights.
	__device__ __forceinline__ void copy(float *to, const float *w, int k) const {
		for (int i = 4 * threadX(); i < WEIGHTS; i += 4 * THREADS)
			copyFour(to + i, w + k / TERMS * WEIGHTS + i, true);
		mine([&](Copy c, int p) INLINE {
			bool exists = k + p < planes;
			copyFour(to + c.to + p * PLANE, x + (exists ? c.from + (k + p) * rows * cols : 0), exists);
		});
	}

	__device__ __forceinline__ void multiply(const float *from, const int (&strips)[C]) {
		const float *weights = from + threadX() % 32 * 4;
#pragma unroll 1
		for (int v = 0; v < 3; v++, from += pitch, weights += 3 * R * FRAGMENT)
#pragma unroll
		for (int u = 0; u < 3; u++) {
			uint32 a[R][4], b[C][2];
#pragma unroll
			for (int r = 0; r < R; r++) {
				uint4 v = *(const uint4 *)(weights + (u * R + r) * FRAGMENT);
#pragma unroll
				for (int i = 0; i < 4; i++)
					a[r][i] = v[i];
			}
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int i = 0; i < 2; i++)
					b[c][i] = bits(from[strips[c] + i * 4 * PLANE + u - 1]);
#pragma unroll
			for (int r = 0; r < R; r++)
#pragma unroll
				for (int c = 0; c < C; c++)
					TF32::multiply(acc[r][c], a[r], b[c], acc[r][c]);
		}
	}

	__device__ __forceinline__ int strip(int c) const { return warp() * C + c; }
	__device__ __forceinline__ int row(int c) const { return row0 + strip(c) / (cols / EIGHT); }
	__device__ __forceinline__ int col(int c) const { return strip(c) % (cols / EIGHT) * EIGHT; }

	// sum adds up all planes. w are the weights of all blocks of lines, as conv3_weights lays them out.
	__device__ __forceinline__ void sum(const float *w) {
		int strips[C], all = (planes + TERMS - 1) / TERMS;
		w += (int64)blockY() * all * WEIGHTS;
		place();
#pragma unroll
		for (int c = 0; c < C; c++) // what no row is for reads the first
			strips[c] = WEIGHTS + (slot(row(c) < live * rows ? row(c) : row0) - 1) * pitch + MARGIN + col(c) + quarter() * PLANE + eighth();
		barrier();
		copy(shared(), w, 0);
		int turn = 0;
#pragma unroll 1
		for (int k = 0; k < planes; k += TERMS, turn = STAGE - turn) {
			arrived();
			mine([&](Copy c, int p) INLINE { change(shared() + turn + c.to + p * PLANE, TF32::nearest); });
			barrier();
			if (k + TERMS < planes)
				copy(shared() + STAGE - turn, w, k + TERMS);
			multiply(shared() + turn, strips);
		}
	}

	// each calls f(line, at, two) for two results side by side of a line that exists.
	template <class F> __device__ __forceinline__ void each(int lines, F f) {
#pragma unroll
		for (int c = 0; c < C; c++) {
			if (row(c) >= live * rows)
				continue;
			int e = row(c) / rows, at = row(c) % rows * cols + col(c) + quarter() * 2;
#pragma unroll
			for (int r = 0; r < 2 * R; r++) {
				int line = blockY() * LINES + r * EIGHT + eighth();
				if (line < lines) {
					float2 v = {acc[r / 2][c][r % 2 * 2], acc[r / 2][c][r % 2 * 2 + 1]};
					f(line, (e * lines + line) * rows * cols + at, v);
				}
			}
		}
	}
};

template <int LINES>
static __device__ __forceinline__ void forward3(const Run *run, int first, int capacity, const float *x, const float *w, const float *bias,
                                                float *y, int act, int slots, const Geometry &g) {
	Sums3<LINES> s(x, g.channels, g.rows, g.cols, slots, liveRows(run, first, capacity));
	if (!s.works())
		return;
	s.sum(w);
	s.each(g.out, [&](int o, int at, float2 v) INLINE {
		if (bias)
			v += bias[o];
		if (act)
			v[0] = relu(v[0]), v[1] = relu(v[1]);
		*(float2 *)(y + at) = v;
	});
}

template <int LINES>
static __device__ __forceinline__ void inputGrad3(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx, int add,
                                                  const float *activated, int slots, const Geometry &g) {
	Sums3<LINES> s(dy, g.out, g.rows, g.cols, slots, liveRows(run, first, capacity));
	if (!s.works())
		return;
	s.sum(w);
	s.each(g.channels, [&](int, int at, float2 v) INLINE {
		if (add)
			v += *(float2 *)(dx + at);
		if (activated) {
			float2 y = *(float2 *)(activated + at);
			v[0] = passBack(ReLU, y[0], v[0]), v[1] = passBack(ReLU, y[1], v[1]);
		}
		*(float2 *)(dx + at) = v;
	});
}

#define SUMS3(LINES, BLOCKS)                                                                                                               \
	KERNEL __launch_bounds__(THREADS, BLOCKS) conv3_forward_##LINES(const Run *run, int first, int capacity, const float *x, const float *w, \
	                                                           const float *bias, float *y, int act, int slots, GEOMETRY) {                \
		forward3<LINES>(run, first, capacity, x, w, bias, y, act, slots, GEOMETRY_VALUES);                                                 \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(THREADS, BLOCKS) conv3_input_grad_##LINES(const Run *run, int first, int capacity, const float *dy,           \
	                                                              const float *w, float *dx, int add, const float *activated, int slots,   \
	                                                              GEOMETRY) {                                                              \
		inputGrad3<LINES>(run, first, capacity, dy, w, dx, add, activated, slots, GEOMETRY_VALUES);                                        \
	}
SUMS3(32, 4)
SUMS3(64, 3)

// Gradients of weights, of images of W columns. A warp has 32 filters and the nine taps of eight channels; terms are eight
// positions in a row.
template <int W, int ROWS> struct Gradients3 {
	static constexpr int COLS = W, CHANNELS = 32, FILTERS = 32, THREADS = 128, R = FILTERS / 16;
	static constexpr int POSITIONS = ROWS * W, PITCH = W + MARGIN, FOURS = (ROWS + 2) * W / 4;
	// Filters, and channels, of a fragment lie in different banks.
	static constexpr int PLANE = ((ROWS + 2) * PITCH + MARGIN + 27) / 32 * 32 + 4;
	static_assert(POSITIONS == 64 && W % EIGHT == 0);

	struct Slab {
		alignas(16) float x[CHANNELS][PLANE];
		alignas(16) float dy[FILTERS][POSITIONS + 4];
	};
	struct Memory {
		Slab slabs[2];
		float gradient[FILTERS][CHANNELS * TAPS + 4];
	};

	struct Results {
		float taps[TAPS][R][4], bias;
		template <class F> __device__ __forceinline__ void each(F f) const {
#pragma unroll
			for (int t = 0; t < TAPS; t++)
#pragma unroll
				for (int r = 0; r < R; r++)
#pragma unroll
					for (int e = 0; e < 4; e++)
						f(r * 16 + e / 2 * 8 + eighth(), warp() * EIGHT + quarter() * 2 + e % 2, t, taps[t][r][e]);
		}
	};

	// Four lanes add the gradient of a filter's bias up, and one of them has it.
	static __device__ __forceinline__ int biasFilter() { return quarter() == 0 ? ownBias() : FILTERS; }
	static __device__ __forceinline__ int ownBias() { return warp() * EIGHT + eighth(); }

	// biases is a lane's quarter of a filter's dy in a slab.
	static __device__ __forceinline__ float biases(const Slab &slab) {
		float4 sum = 0;
#pragma unroll
		for (int p = 0; p < POSITIONS; p += 16)
			sum += four(slab.dy[ownBias()] + p + quarter() * 4);
		return (sum[0] + sum[1]) + (sum[2] + sum[3]);
	}

	// begin clears what no copy reaches: the zeros around images.
	static __device__ __forceinline__ void begin(Memory &m) {
		for (int s = 0; s < 2; s++)
			for (int i = threadX(); i < CHANNELS * PLANE; i += THREADS)
				m.slabs[s].x[0][i] = 0;
		barrier();
	}

	// eachX and eachDy call f(line, four, row, at) for the fours of neighbours that the thread brings to a slab.
	template <class F> static __device__ __forceinline__ void eachX(F f) {
		int t = hidden(threadX());
#pragma unroll
		for (int i = 0; i < CHANNELS * FOURS; i += THREADS) {
			int n = i + t, at = n % FOURS * 4;
			f(n / FOURS, at / W, at % W);
		}
	}
	template <class F> static __device__ __forceinline__ void eachDy(F f) {
#pragma unroll
		for (int i = 0; i < FILTERS * POSITIONS / 4; i += THREADS) {
			int n = i + threadX();
			f(n / (POSITIONS / 4), n % (POSITIONS / 4) * 4);
		}
	}
	static __device__ __forceinline__ float *pixels(Slab &slab, int channel, int row, int col) {
		return &slab.x[channel][row * PITCH + MARGIN + col];
	}

	static __device__ __forceinline__ void copy(Slab &slab, const Geometry &g, const Part &part, int y) {
		eachX([&](int c, int row, int col) INLINE {
			int from = y + row - 1;
			bool exists = c < part.channels && (unsigned)from < (unsigned)g.rows;
			copyFour(pixels(slab, c, row, col), part.x + (exists ? (c * g.rows + from) * W + col : 0), exists);
		});
		int positions = g.outRows * W;
		eachDy([&](int o, int at) INLINE {
			bool exists = o < part.filters && y * W + at < positions;
			copyFour(&slab.dy[o][at], part.dy + (exists ? o * positions + y * W + at : 0), exists);
		});
	}

	// cut cuts off what the thread has copied.
	static __device__ __forceinline__ void cut(Slab &slab) {
		eachX([&](int c, int row, int col) INLINE { change(pixels(slab, c, row, col), TF32::shorter); });
		eachDy([&](int o, int at) INLINE { change(&slab.dy[o][at], TF32::shorter); });
	}

	// multiply adds the products at all positions of a slab. Every PAIR of fragments begins from zero: half the additions in float32.
	static constexpr int PAIR = 2 * EIGHT;
	static __device__ __forceinline__ void multiply(const Slab &slab, Results &sum) {
		const float *x = slab.x[warp() * EIGHT + eighth()] + quarter() + MARGIN - 1, *dy = slab.dy[eighth()] + quarter();
#pragma unroll 1
		for (int first = 0; first < POSITIONS; first += PAIR) {
			uint32 a[2][R][4];
			const float *pixels[2];
#pragma unroll
			for (int n = 0; n < 2; n++) {
				int at = first + n * EIGHT;
				pixels[n] = x + at / W * PITCH + at % W;
#pragma unroll
				for (int r = 0; r < R; r++)
#pragma unroll
					for (int i = 0; i < 4; i++)
						a[n][r][i] = bits(dy[(r * 16 + i % 2 * 8) * (POSITIONS + 4) + at + i / 2 * 4]);
			}
#pragma unroll
			for (int t = 0; t < TAPS; t++) {
				uint32 b[2][2];
#pragma unroll
				for (int n = 0; n < 2; n++)
#pragma unroll
					for (int i = 0; i < 2; i++)
						b[n][i] = bits(pixels[n][t / 3 * PITCH + t % 3 + i * 4]);
#pragma unroll
				for (int r = 0; r < R; r++) {
					float part[4], zero[4] = {};
					TF32::multiply(part, a[0][r], b[0], zero);
					TF32::multiply(part, a[1][r], b[1], part);
#pragma unroll
					for (int e = 0; e < 4; e++)
						sum.taps[t][r][e] += part[e];
				}
			}
		}
	}

	// gradient computes that of a part, whose first copies have begun in slab turn; they begin for the next one, if there is one.
	static __device__ __forceinline__ void gradient(Memory &m, int &turn, const Geometry &g, const Part &part, const Part &next, bool more,
	                                                Results &result) {
		result.bias = 0;
		clear(result.taps);
#pragma unroll 1
		for (int y = 0; y < g.outRows; y += ROWS, turn ^= 1) {
			arrived();
			cut(m.slabs[turn]);
			barrier();
			if (y + ROWS < g.outRows)
				copy(m.slabs[turn ^ 1], g, part, y + ROWS);
			else if (more)
				copy(m.slabs[turn ^ 1], g, next, 0);
			result.bias += biases(m.slabs[turn]);
			multiply(m.slabs[turn], result);
		}
		result.bias += from(1, result.bias);
		result.bias += from(2, result.bias);
	}
};

using Gradients8 = Gradients3<8, 8>;
using Gradients16 = Gradients3<16, 4>;
using Gradients32 = Gradients3<32, 2>;
WINDOW_KERNELS(3x3_8, Gradients8)
WINDOW_KERNELS(3x3_16, Gradients16)
WINDOW_KERNELS(3x3_32, Gradients32)
