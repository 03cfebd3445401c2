// Products over a batch in float32. docs/internals/kernels/dense.md explains tiles, slabs and orders.
//
// A block of four warps has a tile of results, and every warp has partial results for all of it, of its own share of the terms.
// So few tiles keep a GPU busy, and a warp has as many results a thread as registers allow: what it loads from shared memory for
// a term grows with the sides of its tile, the products with the area.
#include "activation.cuh"
#include "loss.cuh"
#include "run.cuh"
#include "sums.cuh"
#include "tile.cuh"

static constexpr int WARPS = 4, THREADS = 32 * WARPS;

extern __shared__ __attribute__((aligned(16))) float memory[];

static __device__ __forceinline__ int lane() { return threadX() % 32; }
static __device__ __forceinline__ int group() { return threadX() / 32; }

// Matrix is rows of floats, one behind the other.
struct Matrix {
	const float *data;
	int rows, width;

	// fours says that four neighbours in a row, from a multiple of four on, lie at 16 aligned bytes.
	__device__ __forceinline__ bool fours() const { return ((uint64)data % 16 | width % 4) == 0; }
};

// copyPart begins to copy ROWS×WIDTH elements from (row0, col0) on to shared memory, zeros where the matrix has none, by so
// many threads of which this is the t-th. Of rows that counts(r) does not name, by their number in the part, come zeros too.
template <int ROWS, int WIDTH, int PITCH, int BY, class F>
static __device__ __forceinline__ void copyPart(float *to, Matrix m, bool fours, int row0, int col0, int t, F counts) {
	if (fours) {
		constexpr int ACROSS = WIDTH / 4, STEP = BY / ACROSS;
		int col = t % ACROSS * 4, first = t / ACROSS, at = (row0 + first) * m.width + col0 + col;
		int left = col0 + col < m.width ? m.rows - row0 - first : 0;
		to += first * PITCH + col;
#pragma unroll
		for (int r = 0; r < ROWS; r += STEP) {
			bool copies = (r < left) & counts(r + first);
			copyFour(to + r * PITCH, m.data + hidden(copies ? at : 0), copies);
			at += STEP * m.width;
		}
		return;
	}
#pragma unroll 1
	for (int e = t; e < ROWS * WIDTH; e += BY) {
		int r = e / WIDTH, c = e % WIDTH;
		bool copies = (col0 + c < m.width) & (row0 + r < m.rows) & counts(r);
		copyAsync(to + r * PITCH + c, m.data, (row0 + r) * m.width + col0 + c, copies);
	}
}

// Product is y = a·bᵀ, or a·b where LINES is set, of a tile of 4R×8C results: lane l has R×C of them. Slab s of DEPTH terms is
// warp s mod WARPS's. Operands whose rows are along the terms stay as they lie in memory, padded so that eight lines are read
// without conflicts: a thread reads four terms of a line at once.
template <int R, int C, bool LINES> struct Product {
	static constexpr int ROWS = 4 * R, COLS = 8 * C, TERMS = WARPS * DEPTH, PITCH = TERMS + 4;
	static constexpr int A = ROWS * PITCH, B = LINES ? TERMS * COLS : COLS * PITCH, SLAB = A + B;
	static constexpr int STAGES = R * C > 96 ? 2 : 3;
	static constexpr int LINE = COLS + 8; // of exchanged results

	static __device__ __forceinline__ int row(int i) { return lane() / 8 + 4 * i; }
	static __device__ __forceinline__ int col(int j) { return LINES ? lane() % 8 * 4 + j / 4 * 32 + j % 4 : lane() % 8 + 8 * j; }

	static __device__ __forceinline__ void multiply(const float *a, const float *b, float (&acc)[R][C]) {
		a += row(0) * PITCH + group() * DEPTH;
		b += LINES ? group() * DEPTH * COLS + col(0) : col(0) * PITCH + group() * DEPTH;
#pragma clang loop unroll_count(R * C > 64 ? 1 : 4)
		for (int d = 0; d < DEPTH; d += 4) {
			float y[4][C];
			if (LINES) {
#pragma unroll
				for (int k = 0; k < 4; k++)
#pragma unroll
					for (int j = 0; j < C; j += 4) {
						float4 v = four(b + (d + k) * COLS + j * 8);
						y[k][j] = v.x, y[k][j + 1] = v.y, y[k][j + 2] = v.z, y[k][j + 3] = v.w;
					}
			} else {
#pragma unroll
				for (int j = 0; j < C; j++) {
					float4 v = four(b + j * 8 * PITCH + d);
					y[0][j] = v.x, y[1][j] = v.y, y[2][j] = v.z, y[3][j] = v.w;
				}
			}
#pragma unroll
			for (int i = 0; i < R; i++) {
				float4 x = four(a + i * 4 * PITCH + d);
#pragma unroll
				for (int k = 0; k < 4; k++)
#pragma unroll
					for (int j = 0; j < C; j++)
						acc[i][j] = fmaf(x[k], y[k][j], acc[i][j]);
			}
		}
	}

	// run multiplies, adds the warps' results in the order of the warps, and visits some of a column at once: from a row on, so many apart.
	template <class F> static __device__ __forceinline__ void run(Matrix a, Matrix b, int row0, int col0, F f) {
		bool foursA = a.fours(), foursB = b.fours();
		int terms = a.width;
		auto all = [](int) { return true; };
		auto fetch = [&](int term, int stage) {
			float *to = memory + stage * SLAB;
			if (term < terms) {
				copyPart<ROWS, TERMS, PITCH, THREADS>(to, a, foursA, row0, term, threadX(), all);
				if (LINES)
					copyPart<TERMS, COLS, COLS, THREADS>(to + A, b, foursB, term, col0, threadX(), all);
				else
					copyPart<COLS, TERMS, PITCH, THREADS>(to + A, b, foursB, col0, term, threadX(), all);
			}
			commit();
		};
		float acc[R][C] = {};
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++)
			fetch(s * TERMS, s);
		int stage = 0, next = STAGES - 1;
#pragma unroll 1
		for (int term = 0; term < terms; term += TERMS) {
			arrivedBut<STAGES - 2>();
			barrier(); // copies of all threads are there, and the slab before was read
			fetch(term + (STAGES - 1) * TERMS, next);
			if (term + group() * DEPTH < terms)
				multiply(memory + stage * SLAB, memory + stage * SLAB + A, acc);
			stage = stage == STAGES - 1 ? 0 : stage + 1;
			next = next == STAGES - 1 ? 0 : next + 1;
		}
		barrier();
		float *mine = memory + group() * ROWS * LINE;
#pragma unroll
		for (int i = 0; i < R; i++)
#pragma unroll
			for (int j = 0; j < C; j += LINES ? 4 : 1)
				if (LINES)
					*(float4 *)(mine + row(i) * LINE + col(j)) = (float4){acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]};
				else
					mine[row(i) * LINE + col(j)] = acc[i][j];
		barrier();
		constexpr int STEP = THREADS / COLS, EACH = ROWS / STEP % 8 == 0 ? 8 : ROWS / STEP % 4 == 0 ? 4 : 2;
		int c = threadX() % COLS;
#pragma unroll 1
		for (int r = threadX() / COLS; r < ROWS; r += EACH * STEP) {
			float sum[EACH];
#pragma unroll
			for (int u = 0; u < EACH; u++) {
				const float *from = memory + (r + u * STEP) * LINE + c;
				sum[u] = from[0];
#pragma unroll
				for (int g = 1; g < WARPS; g++)
					sum[u] += from[g * ROWS * LINE];
			}
			f(sum, row0 + r, STEP, col0 + c);
		}
	}
};

// finished has one jump for most networks, and none through a table.
static __device__ __forceinline__ float finished(int act, float x) {
	if (act <= ReLU)
		return act ? relu(x) : x;
	return act == Tanh ? tanh(x) : sigmoid(x);
}

template <class P>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, const float *x, const float *w, const float *bias,
                                               float *y, int in, int out, int act) {
	int live = liveRows(run, first, capacity), b0 = blockX() * P::ROWS;
	if (b0 >= live)
		return;
	P::run({x, live, in}, {w, out, in}, b0, blockY() * P::COLS, [&](auto &sum, int b, int step, int o) {
		float add = bias && o < out ? bias[o] : 0;
#pragma unroll
		for (auto &v : sum) {
			v = bias ? v + add : v;
			if (b < live && o < out)
				y[b * out + o] = finished(act, v);
			b += step;
		}
	});
}

template <class P>
static __device__ __forceinline__ void inputGrad(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx, int in,
                                                 int out, int add, int act, const float *activated) {
	int live = liveRows(run, first, capacity), b0 = blockX() * P::ROWS;
	if (b0 >= live)
		return;
	P::run({dy, live, out}, {w, out, in}, b0, blockY() * P::COLS, [&](auto &sum, int b, int step, int i) {
		int at = b * in + i, left = i < in ? (live - b + step - 1) / step : 0, n;
		if (left <= 0)
			return;
		// Loads go together, without jumps: where there is no more element, of the first.
		if (add) {
			n = 0;
#pragma unroll
			for (auto &v : sum)
				v += dx[at + (n < left ? n * step * in : 0)], n++;
		}
		if (act) {
			n = 0;
#pragma unroll
			for (auto &v : sum)
				v = passBack(act, activated[at + (n < left ? n * step * in : 0)], v), n++;
		}
		n = 0;
#pragma unroll
		for (auto &v : sum) {
			if (n < left)
				dx[at + n * step * in] = v;
			n++;
		}
	});
}

#define FORWARD(R, C, NAME)                                                                                                           \
	KERNEL __launch_bounds__(THREADS, 2) dense_forward_##NAME(const Run *run, int first, int capacity, const float *x, const float *w, \
	                                                          const float *bias, float *y, int in, int out, int act) {                 \
		forward<Product<R, C, false>>(run, first, capacity, x, w, bias, y, in, out, act);                                              \
	}
#define INPUT_GRAD(R, C, NAME)                                                                                                                 \
	KERNEL __launch_bounds__(THREADS, 2)                                                                                                       \
	    dense_input_grad_##NAME(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx, int in, int out, int add, \
	                            int act, const float *activated) {                                                                             \
		inputGrad<Product<R, C, true>>(run, first, capacity, dy, w, dx, in, out, add, act, activated);                                         \
	}

FORWARD(4, 4, 16x32)
FORWARD(6, 4, 24x32)
FORWARD(8, 4, 32x32)
FORWARD(8, 8, 32x64)
FORWARD(10, 8, 40x64)
FORWARD(16, 8, 64x64)
INPUT_GRAD(4, 4, 16x32)
INPUT_GRAD(6, 4, 24x32)
INPUT_GRAD(8, 4, 32x32)
INPUT_GRAD(8, 8, 32x64)
INPUT_GRAD(10, 8, 40x64)
INPUT_GRAD(16, 8, 64x64)

// Few results an example: a block has those of SOME examples.
static constexpr int FEW = 12, SOME = 4, PARTS = THREADS + 2;

// partly adds a thread's share of the terms. What there is none of is that of the last row, or example, and is not used.
template <bool FOURS>
static __device__ __forceinline__ void partly(Matrix x, Matrix w, int b0, float (&acc)[FEW][SOME]) {
	auto load = [](Matrix m, int row, int i) {
		const float *from = m.data + (min(row, m.rows - 1) * m.width + i);
		if (FOURS)
			return four(from);
		int left = m.width - i;
		return (float4){from[0], left > 1 ? from[1] : 0, left > 2 ? from[2] : 0, left > 3 ? from[3] : 0};
	};
#pragma unroll 1
	for (int i = threadX() * 4; i < x.width; i += THREADS * 4) {
		float4 u[SOME], v[FEW];
#pragma unroll
		for (int b = 0; b < SOME; b++)
			u[b] = load(x, b0 + b, i);
#pragma unroll
		for (int o = 0; o < FEW; o++)
			v[o] = load(w, o, i);
#pragma unroll
		for (int o = 0; o < FEW; o++)
#pragma unroll
			for (int b = 0; b < SOME; b++)
#pragma unroll
				for (int k = 0; k < 4; k++)
					acc[o][b] = fmaf(u[b][k], v[o][k], acc[o][b]);
	}
}

// few leaves the results in memory, [o][b]: threads add terms by fours, a thread every fourth of THREADS; then even threads are added
// in order, odd ones, and both.
static __device__ __forceinline__ void few(Matrix x, Matrix w, int b0) {
	float acc[FEW][SOME] = {};
	if (x.fours() && w.fours())
		partly<true>(x, w, b0, acc);
	else
		partly<false>(x, w, b0, acc);
#pragma unroll
	for (int o = 0; o < FEW; o++)
#pragma unroll
		for (int b = 0; b < SOME; b++)
			memory[(o * SOME + b) * PARTS + threadX()] = acc[o][b];
	barrier();
	float sum = 0;
	const float *from = memory + threadX() / 2 * PARTS + threadX() % 2;
	if (threadX() < 2 * FEW * SOME)
#pragma unroll
		for (int n = 0; n < THREADS; n += 2)
			sum += from[n];
	barrier();
	if (threadX() < 2 * FEW * SOME)
		memory[threadX() % 2 * FEW * SOME + threadX() / 2] = sum;
	barrier();
}

static __device__ __forceinline__ void forwardFew(int live, const float *x, const float *w, const float *bias, float *y, int in, int out, int act) {
	int b0 = blockX() * SOME;
	few({x, live, in}, {w, out, in}, b0);
	int b = b0 + threadX() / FEW, o = threadX() % FEW;
	if (threadX() >= FEW * SOME || b >= live || o >= out)
		return;
	const float *sums = memory + o * SOME + threadX() / FEW;
	float sum = sums[0] + sums[FEW * SOME];
	y[b * out + o] = finished(act, bias ? sum + bias[o] : sum);
}

KERNEL __launch_bounds__(THREADS) dense_forward_few(const Run *run, int first, int capacity, const float *x, const float *w,
                                                    const float *bias, float *y, int in, int out, int act) {
	int live = liveRows(run, first, capacity);
	if (blockX() * SOME < live)
		forwardFew(live, x, w, bias, y, in, out, act);
}

// The logits, and what the loss makes of them: a warp an example.
KERNEL __launch_bounds__(THREADS) dense_forward_loss(const Run *run, int first, int capacity, const float *x, const float *w,
                                                     const float *bias, float *logits, int in, int out, int loss, const float *targets,
                                                     float *delta) {
	static_assert(SOME == WARPS);
	int live = liveRows(run, first, capacity), b = blockX() * SOME + group();
	if (blockX() * SOME >= live)
		return;
	forwardFew(live, x, w, bias, logits, in, out, 0);
	barrier();
	if (b < live)
		lossGrad(loss, out, logits + (int64)b * out, targets[b], delta + (int64)b * out);
}

// A thread has one input of MORE examples: a weight that it has loaded is used for all of them.
static constexpr int MORE = 8;

// passed is passBack without jumps.
static __device__ __forceinline__ float passed(int act, float y, float d) {
	float smooth = d * (act == Tanh ? fmaf(-y, y, 1) : y * (1 - y));
	return act == ReLU ? y > 0 ? d : 0 : act ? smooth : d;
}

KERNEL __launch_bounds__(THREADS) dense_input_grad_few(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                       int in, int out, int add, int act, const float *activated) {
	int live = liveRows(run, first, capacity), b0 = blockX() * MORE, i = blockY() * THREADS + threadX();
	if (b0 >= live)
		return;
	int n = min(MORE, live - b0), at = b0 * in + min(i, in - 1);
	if (threadX() < MORE * FEW) {
		int b = threadX() / FEW, o = threadX() % FEW;
		memory[threadX()] = b < n && o < out ? dy[(b0 + b) * out + o] : 0;
	}
	float v[FEW], old[MORE] = {}, y[MORE] = {};
#pragma unroll
	for (int o = 0; o < FEW; o++) {
		float weight = w[min(o, out - 1) * in + min(i, in - 1)];
		v[o] = o < out ? weight : 0;
	}
	if (add)
#pragma unroll
		for (int b = 0; b < MORE; b++)
			old[b] = dx[at + min(b, n - 1) * in];
	if (act)
#pragma unroll
		for (int b = 0; b < MORE; b++)
			y[b] = activated[at + min(b, n - 1) * in];
	barrier();
	if (i >= in)
		return;
#pragma unroll
	for (int b = 0; b < MORE; b++) {
		float sum = 0;
#pragma unroll
		for (int o = 0; o < FEW; o += 4) {
			float4 d = four(memory + b * FEW + o);
#pragma unroll
			for (int k = 0; k < 4; k++)
				sum = fmaf(d[k], v[o + k], sum);
		}
		sum = add ? sum + old[b] : sum;
		if (b < n)
			dx[at + b * in] = passed(act, y[b], sum);
	}
}

// Sum is Σ_b f_b·dy[b][o]·x[b][i] of a tile of ROWS×COLS results. A thread has R×C of them, and the block takes one slab of examples
// after the other: while it multiplies one, the next comes.
template <int ROWS_, int COLS_> struct Sum {
	static constexpr int ROWS = ROWS_, COLS = COLS_, C = ROWS * COLS > 64 * 64 ? 8 : 4, ACROSS = COLS / C, DOWN = THREADS / ACROSS, R = ROWS / DOWN;
	static constexpr int BLOCK = ROWS * COLS > 64 * 64 ? CHAIN : 2 * CHAIN; // examples of a slab
	static constexpr int SLAB = BLOCK * (ROWS + COLS), EACH = BLOCK * ROWS / THREADS;
	static constexpr int TOGETHER = R < 4 ? R : 4; // neighbouring rows of a thread

	static __device__ __forceinline__ int row(int i) { return threadX() / ACROSS * TOGETHER + i / TOGETHER * (DOWN * TOGETHER) + i % TOGETHER; }
	static __device__ __forceinline__ int col(int j) { return threadX() % ACROSS * 4 + j / 4 * (ACROSS * 4) + j % 4; }

	// deltaAt says which of a slab's deltas a thread brings as its n-th, by fours or one at a time: example and output.
	static __device__ __forceinline__ int deltaAt(bool fours, int n) { return fours ? (threadX() + n / 4 * THREADS) * 4 + n % 4 : threadX() + n * THREADS; }

	// fetch reads them, those of examples that count; factors are of the slab.
	static __device__ __forceinline__ void fetch(float (&d)[EACH], Matrix dy, bool fours, int b0, int o0, const float *factor) {
		if (fours) {
#pragma unroll
			for (int n = 0; n < EACH; n += 4) {
				int e = deltaAt(true, n), b = e / ROWS, o = o0 + e % ROWS;
				bool counts = (factor[b] > 0) & (o < dy.width);
				float4 v = four(dy.data + hidden(counts ? (b0 + b) * dy.width + o : 0)); // no jumps, so that all loads go together
				d[n] = v.x, d[n + 1] = v.y, d[n + 2] = v.z, d[n + 3] = v.w;
			}
			return;
		}
#pragma unroll
		for (int n = 0; n < EACH; n++) {
			int e = deltaAt(false, n), b = e / ROWS, o = o0 + e % ROWS;
			bool counts = (factor[b] > 0) & (o < dy.width);
			d[n] = dy.data[hidden(counts ? (b0 + b) * dy.width + o : 0)];
		}
	}

	// scale brings f·dy to shared memory. What is there of outputs that do not exist makes results that nobody takes.
	static __device__ __forceinline__ void scale(float *to, const float (&d)[EACH], bool fours, const float *factor) {
		if (fours) {
#pragma unroll
			for (int n = 0; n < EACH; n += 4) {
				int e = deltaAt(true, n);
				float f = factor[e / ROWS];
				*(float4 *)(to + e) = (float4){scaled(f, d[n]), scaled(f, d[n + 1]), scaled(f, d[n + 2]), scaled(f, d[n + 3])};
			}
			return;
		}
#pragma unroll
		for (int n = 0; n < EACH; n++) {
			int e = deltaAt(false, n);
			to[e] = scaled(factor[e / ROWS], d[n]);
		}
	}

	// multiply adds a block of examples to the part.
	static __device__ __forceinline__ void multiply(const float *a, const float *b, float (&part)[R][C]) {
		a += row(0), b += col(0);
		float acc[R][C];
		auto term = [&](int d, auto f) INLINE {
			float x[R], y[C];
#pragma unroll
			for (int i = 0; i < R; i += TOGETHER) {
				typedef float Some __attribute__((ext_vector_type(TOGETHER)));
				Some v = *(const Some *)(a + d * ROWS + i * DOWN);
#pragma unroll
				for (int k = 0; k < TOGETHER; k++)
					x[i + k] = v[k];
			}
#pragma unroll
			for (int j = 0; j < C; j += 4) {
				float4 v = four(b + d * COLS + j * ACROSS);
				y[j] = v.x, y[j + 1] = v.y, y[j + 2] = v.z, y[j + 3] = v.w;
			}
#pragma unroll
			for (int i = 0; i < R; i++)
#pragma unroll
				for (int j = 0; j < C; j++)
					f(acc[i][j], x[i], y[j]);
		};
		term(0, [](float &sum, float x, float y) INLINE { sum = x * y; });
#pragma clang loop unroll_count(R * C > 32 ? 3 : 5)
		for (int d = 1; d < CHAIN; d++)
			term(d, [](float &sum, float x, float y) INLINE { sum = fmaf(x, y, sum); });
#pragma unroll
		for (int i = 0; i < R; i++)
#pragma unroll
			for (int j = 0; j < C; j++)
				part[i][j] += acc[i][j];
	}

	// leave gives the results of a part away, and begins anew. Every warp brings its rows into the order of memory, in a place of its own.
	static __device__ __forceinline__ void leave(float (&part)[R][C], float *place, int o0, int i0, int out, int in, Totals to) {
		constexpr int WIDTH = ACROSS * 4, HIGH = 32 / ACROSS * TOGETHER, MANY = WIDTH * HIGH / 32; // of a stretch of fours
		int t = hidden(threadX()), warp = t / 32, lane = t % 32; // nothing of this is worth a register in the loop
		place += warp * WIDTH * HIGH;
		float *mine = place + lane / ACROSS * TOGETHER * WIDTH + lane % ACROSS * 4;
		static_assert(WIDTH % 32 == 0);
		bool inside = (o0 + ROWS <= out) & (i0 + COLS <= in);
		o0 = hidden(o0 + warp * HIGH), i0 += lane;
#pragma unroll
		for (int r = 0; r < R; r += TOGETHER)
#pragma unroll
			for (int j = 0; j < C; j += 4) {
#pragma unroll
				for (int k = 0; k < TOGETHER; k++)
					*(float4 *)(mine + k * WIDTH) = (float4){part[r + k][j], part[r + k][j + 1], part[r + k][j + 2], part[r + k][j + 3]};
				warpBarrier();
				int first = (o0 + r * DOWN) * in + i0 + j * ACROSS;
				auto each = [&](auto f) INLINE {
#pragma unroll
					for (int n = 0; n < MANY; n++) {
						int down = 32 * n / WIDTH, right = 32 * n % WIDTH;
						f(n, first + down * in + right, (o0 + r * DOWN + down < out) & (i0 + j * ACROSS + right < in));
					}
				};
				if (to.part && inside) {
					each([&](int n, int at, bool) INLINE { to.part[at] = place[32 * n + lane]; });
				} else if (to.part) {
					each([&](int n, int at, bool counts) INLINE {
						if (counts)
							to.part[at] = place[32 * n + lane];
					});
				} else if ((o0 + r * DOWN < out) & (i0 + j * ACROSS < in)) {
					double sum[MANY];
					each([&](int n, int at, bool counts) INLINE { sum[n] = to.sum[counts ? at : first]; }); // all loads go together
					each([&](int n, int at, bool counts) INLINE {
						if (counts)
							to.sum[at] = sum[n] + (double)place[32 * n + lane];
					});
				}
				warpBarrier();
			}
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int j = 0; j < C; j++)
				part[r][j] = 0;
	}

	static __device__ __forceinline__ void run(Matrix x, Matrix dy, const float *factors, int o0, int i0, int begins, int end, Totals to) {
		bool foursX = x.fours(), foursDy = dy.fours();
		int live = x.rows;
		// Two slabs' factors, inputs and scaled deltas: the deltas behind the inputs of a slab.
		float *share = memory, *slabs = memory + 2 * BLOCK;
		float d[EACH], next = 0;
		auto begin = [&](int b0) INLINE {
			const float *factor = share + b0 / BLOCK % 2 * BLOCK;
			copyPart<BLOCK, COLS, COLS, THREADS>(slabs + b0 / BLOCK % 2 * SLAB, x, foursX, b0, i0, threadX(), [&](int b) { return factor[b] > 0; });
			fetch(d, dy, foursDy, b0, o0, factor);
		};
		if (threadX() < BLOCK) {
			share[threadX()] = factorOf(factors, begins + threadX(), live);
			next = factorOf(factors, begins + threadX() + BLOCK, live);
		}
		barrier();
		begin(begins);
		float part[R][C] = {};
#pragma unroll 1
		for (int b0 = begins; b0 < end; b0 += BLOCK) {
			int half = b0 / BLOCK % 2;
			float *slab = slabs + half * SLAB;
			scale(slab + BLOCK * COLS, d, foursDy, share + half * BLOCK);
			if (threadX() < BLOCK)
				share[(1 - half) * BLOCK + threadX()] = next;
			arrived();
			barrier(); // and the slab before was multiplied
			if (b0 + BLOCK < end) {
				begin(b0 + BLOCK);
				if (threadX() < BLOCK)
					next = factorOf(factors, b0 + 2 * BLOCK + threadX(), live);
			}
#pragma unroll
			for (int c = 0; c < BLOCK; c += CHAIN)
				if (c == 0 || b0 + c < end)
					multiply(slab + BLOCK * COLS + c * ROWS, slab + c * COLS, part);
			if (b0 + BLOCK >= end || (b0 + BLOCK) % PART == 0) {
				barrier(); // the slab was multiplied
				leave(part, slab, o0, i0, dy.width, x.width, to);
			}
		}
	}
};

// sumTile is the tile's share of an op's sums. Of an op with few outputs a tile is LESS rows high.
template <int ROWS, int COLS, int LESS>
static __device__ __forceinline__ void sumTile(Matrix x, Matrix dy, const float *factors, int tile, int begins, int end, Totals weights, Totals bias) {
	int across = (x.width + COLS - 1) / COLS, down = tile / across, i0 = tile % across * COLS, most = (dy.width + ROWS - 1) / ROWS;
	if (down >= most) // the bias's blocks are behind those of the weights
		biases<float>(dy.data, dy.width, dy.width, dy.rows, factors, ((tile - most * across) * WARPS + group()) * 32, begins, end, bias, [](float d) INLINE { return d; });
	else if (LESS < ROWS && dy.width <= LESS)
		Sum<LESS, COLS>::run(x, dy, factors, 0, i0, begins, end, weights);
	else
		Sum<ROWS, COLS>::run(x, dy, factors, down * ROWS, i0, begins, end, weights);
}

// Where there are parts, they are blockY's.
#define SUMS(ROWS, COLS, LESS, PER, NAME)                                                                                              \
	KERNEL __launch_bounds__(THREADS, PER)                                                                                             \
	    dense_sum_##NAME(const Run *run, int first, int capacity, float *parts, int stride, SUM_ARGUMENTS(float)) {                    \
		CHOOSE_SUM(float)                                                                                                              \
		int live = liveRows(run, first, capacity), begins = blockY() * PART, end = parts ? min(live, begins + PART) : live;            \
		if (begins >= end)                                                                                                             \
			return;                                                                                                                    \
		float *part = parts ? parts + ((int64)blockY() * stride + place) : nullptr;                                                    \
		sumTile<ROWS, COLS, LESS>({x, live, in}, {dy, live, out}, factors, tile, begins, end, {sumW, part},                            \
		                          {sumB, part ? part + out * in : nullptr});                                                           \
	}

SUMS(32, 32, 32, 3, 32x32)
SUMS(32, 64, 32, 3, 32x64)
SUMS(64, 64, 16, 3, 64x64)
SUMS(128, 64, 16, 2, 128x64)

// Where the parts of one op's gradients go.
#define PARTS_OF(N) int end##N, double *sumW##N, double *sumB##N, int weights##N, int place##N

// dense_parts adds the parts to the sums, in order: a value for a thread, some parts at once.
static constexpr int TOGETHER = 16;

KERNEL __launch_bounds__(THREADS) dense_parts(const Run *run, int first, int capacity, const float *parts, int stride, PARTS_OF(0), PARTS_OF(1), PARTS_OF(2), PARTS_OF(3)) {
	int at = blockX() * THREADS + threadX(), count = (liveRows(run, first, capacity) + PART - 1) / PART;
	double *sumW = sumW0, *sumB = sumB0;
	int weights = weights0, place = place0, end = end0;
	if (at >= place1)
		sumW = sumW1, sumB = sumB1, weights = weights1, place = place1, end = end1;
	if (at >= place2)
		sumW = sumW2, sumB = sumB2, weights = weights2, place = place2, end = end2;
	if (at >= place3)
		sumW = sumW3, sumB = sumB3, weights = weights3, place = place3, end = end3;
	if (at >= end)
		return;
	double *to = at - place < weights ? sumW + (at - place) : sumB + (at - place - weights);
	double sum = *to;
	parts += at;
#pragma unroll 1
	for (int p = 0; p < count; p += TOGETHER) {
		float v[TOGETHER];
#pragma unroll
		for (int k = 0; k < TOGETHER; k++)
			v[k] = parts[(int64)min(p + k, count - 1) * stride];
#pragma unroll
		for (int k = 0; k < TOGETHER; k++)
			sum = p + k < count ? sum + (double)v[k] : sum;
	}
	*to = sum;
}
