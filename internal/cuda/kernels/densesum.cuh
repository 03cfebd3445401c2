// Sums of dense layers' clipped gradients on tensor cores, from values in pixels. Terms are examples, in whose rows both operands lie
// across the terms. docs/internals/kernels/dense.md explains them. Whoever includes this has an element type, Precision.
#pragma once
#include "pixels.cuh"
#include "run.cuh"
#include "sums.cuh"

static constexpr int WARPS = 4, THREADS = 32 * WARPS;
static constexpr int BLOCK = 2 * CHAIN; // examples of a slab

extern __shared__ __attribute__((aligned(16))) char memory[];

static __device__ __forceinline__ int lane() { return threadX() % 32; }
static __device__ __forceinline__ int group() { return threadX() / 32; }

// Slab is how an element type's rows of examples become fragments whose terms are examples. A row is padded by 8 elements, which keeps
// a fragment's reads in different banks. STEPS products make a chain. left is a fragment of sixteen columns of a row, right two of
// eight each, from example k on; first begins a chain at zero. unit cuts 16 bytes' numbers off, toward zero.
template <class P> struct Slab;

template <> struct Slab<TF32> {
	typedef float Element;
	static constexpr int STEPS = 2;
	template <int PITCH> static __device__ __forceinline__ void left(uint32 (&a)[4], const Element *at, int k, int column) {
		at += lane() % 4 * PITCH + lane() / 4;
#pragma unroll
		for (int i = 0; i < 4; i++)
			a[i] = bits(at[(k + i / 2 * 4) * PITCH + column + i % 2 * 8]);
	}
	template <int PITCH> static __device__ __forceinline__ void right(uint32 (&b)[4], const Element *at, int k, int column) {
		at += lane() % 4 * PITCH + lane() / 4;
#pragma unroll
		for (int i = 0; i < 4; i++)
			b[i] = bits(at[(k + i % 2 * 4) * PITCH + column + i / 2 * 8]);
	}
	static __device__ __forceinline__ void first(float (&acc)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
		             : "=f"(acc[0]), "=f"(acc[1]), "=f"(acc[2]), "=f"(acc[3])
		             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.f));
	}
	static __device__ __forceinline__ uint4 unit(uint4 from, float f) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			from[i] = bits(TF32::shorter(scaled(f, fromBits(from[i]))));
		return from;
	}
};

template <> struct Slab<BF16> {
	typedef unsigned short Element;
	static constexpr int STEPS = 1;
	template <int PITCH> static __device__ __forceinline__ void left(uint32 (&a)[4], const Element *at, int k, int column) {
		turned(a, shared(at + (k + lane() / 16 * 8 + lane() % 8) * PITCH + column + lane() / 8 % 2 * 8));
	}
	template <int PITCH> static __device__ __forceinline__ void right(uint32 (&b)[4], const Element *at, int k, int column) {
		turned(b, shared(at + (k + lane() / 8 % 2 * 8 + lane() % 8) * PITCH + column + lane() / 16 * 8));
	}
	static __device__ __forceinline__ void first(float (&acc)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
		             : "=f"(acc[0]), "=f"(acc[1]), "=f"(acc[2]), "=f"(acc[3])
		             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.f));
	}
	static __device__ __forceinline__ uint4 unit(uint4 from, float f) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			from[i] = bits(scaled(f, fromBits(from[i] << 16))) >> 16 | (bits(scaled(f, fromBits(from[i] & 0xffff0000))) & 0xffff0000);
		return from;
	}
};

// Rows are examples' elements: width of them a row, a multiple of EIGHT.
template <class Element> struct Rows {
	const Element *data;
	int width;
};

// Sum is Σ_b f_b·dy[b][o]·x[b][i] of a tile of ROWS×COLS results. A warp has 16·R×8·C of them. The block takes one slab of examples after
// the other: while it multiplies one, the next comes.
template <class P, int DOWN, int ACROSS, int R, int C> struct Sum {
	typedef typename P::Element Element;
	static constexpr int ROWS = 16 * R * DOWN, COLS = 8 * C * ACROSS, UNIT = P::UNIT;
	static constexpr int HIGH = ROWS + 8, WIDE = COLS + 8, SLAB = BLOCK * (HIGH + WIDE);
	static constexpr int AT_ONCE = C < 4 ? C : 4, OWN = 16 * (8 * AT_ONCE + 8); // of a warp's results, exchanged
	static constexpr int DELTAS = BLOCK * ROWS / UNIT, INPUTS = BLOCK * COLS / UNIT; // units of a slab
	static constexpr int EACH = (DELTAS + THREADS - 1) / THREADS;
	static_assert(DOWN * ACROSS == WARPS && C % 2 == 0 && INPUTS % THREADS == 0);

	// Two slabs' factors, a place of each warp's own, and the slabs: the scaled deltas behind the inputs.
	static __device__ __forceinline__ float *share() { return (float *)memory; }
	static __device__ __forceinline__ float *own() { return share() + 2 * BLOCK + group() * OWN; }
	static __device__ __forceinline__ Element *slabs() { return (Element *)(share() + 2 * BLOCK + WARPS * OWN); }

	static __device__ __forceinline__ int top() { return group() / ACROSS * 16 * R; }
	static __device__ __forceinline__ int left() { return group() % ACROSS * 8 * C; }

	// copy begins to bring a slab's inputs, those of examples that count, and zeros.
	static __device__ __forceinline__ void copy(Element *to, Rows<Element> x, int b0, int i0, const float *factor) {
#pragma unroll
		for (int n = 0; n < INPUTS; n += THREADS) {
			int e = threadX() + n, b = e / (COLS / UNIT), u = e % (COLS / UNIT) * UNIT;
			bool counts = (factor[b] > 0) & (i0 + u < x.width);
			copyUnit<SecondCache>(shared(to + b * WIDE + u), x.data + hidden(counts ? (b0 + b) * x.width + i0 + u : 0), counts);
		}
	}

	// fetch reads its deltas, and scale brings f·dy to shared memory.
	static __device__ __forceinline__ void fetch(uint4 (&d)[EACH], Rows<Element> dy, int b0, int o0, const float *factor) {
#pragma unroll
		for (int n = 0; n < EACH; n++) {
			int e = min(threadX() + n * THREADS, DELTAS - 1), b = e / (ROWS / UNIT), o = o0 + e % (ROWS / UNIT) * UNIT;
			bool counts = (factor[b] > 0) & (o < dy.width);
			d[n] = *(const uint4 *)(dy.data + hidden(counts ? (b0 + b) * dy.width + o : 0));
		}
	}
	// What is there of outputs that do not exist makes results that nobody takes.
	static __device__ __forceinline__ void scale(Element *to, const uint4 (&d)[EACH], const float *factor) {
#pragma unroll
		for (int n = 0; n < EACH; n++) {
			int e = threadX() + n * THREADS, b = e / (ROWS / UNIT), u = e % (ROWS / UNIT) * UNIT;
			if (DELTAS % THREADS == 0 || e < DELTAS)
				*(uint4 *)(to + b * HIGH + u) = Slab<P>::unit(d[n], factor[b]);
		}
	}

	// multiply adds a block of examples to the part.
	static __device__ __forceinline__ void multiply(const Element *deltas, const Element *inputs, float (&part)[R][C][4]) {
		constexpr int STEPS = Slab<P>::STEPS;
		uint32 b[STEPS][C / 2][4];
#pragma unroll
		for (int k = 0; k < STEPS; k++)
#pragma unroll
			for (int c = 0; c < C; c += 2)
				Slab<P>::template right<WIDE>(b[k][c / 2], inputs, k * CHAIN / STEPS, left() + 8 * c);
#pragma unroll
		for (int r = 0; r < R; r++) {
			float acc[C][4];
#pragma unroll
			for (int k = 0; k < STEPS; k++) {
				uint32 a[4];
				Slab<P>::template left<HIGH>(a, deltas, k * CHAIN / STEPS, top() + 16 * r);
#pragma unroll
				for (int c = 0; c < C; c++)
					if (k == 0)
						Slab<P>::first(acc[c], a, b[k][c / 2][c % 2 * 2], b[k][c / 2][c % 2 * 2 + 1]);
					else
						P::multiply(acc[c], a, b[k][c / 2][c % 2 * 2], b[k][c / 2][c % 2 * 2 + 1]);
			}
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					part[r][c][e] += acc[c][e];
		}
	}

	// leave gives the results of a part away, in the order of memory, and begins anew.
	static __device__ __forceinline__ void leave(float (&part)[R][C][4], int o0, int i0, int out, int in, Totals to) {
		constexpr int WIDTH = 8 * AT_ONCE, PITCH = WIDTH + 8, MANY = 16 * WIDTH / 32, STEP = 32 / WIDTH;
		float *place = own() + lane() / WIDTH * PITCH + lane() % WIDTH;
		o0 = hidden(o0 + top() + lane() / WIDTH), i0 += left() + lane() % WIDTH;
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int c0 = 0; c0 < C; c0 += AT_ONCE) {
#pragma unroll
				for (int c = 0; c < AT_ONCE; c++)
#pragma unroll
					for (int half = 0; half < 2; half++)
						*(float2 *)(own() + (lane() / 4 + 8 * half) * PITCH + 8 * c + lane() % 4 * 2) =
						    float2{part[r][c0 + c][2 * half], part[r][c0 + c][2 * half + 1]};
				warpBarrier();
				int first = (o0 + 16 * r) * in + i0 + 8 * c0;
				auto each = [&](auto f) INLINE {
#pragma unroll
					for (int n = 0; n < MANY; n++)
						f(n, first + n * STEP * in, (o0 + 16 * r + n * STEP < out) & (i0 + 8 * c0 < in));
				};
				if (to.part) {
					each([&](int n, int at, bool counts) INLINE {
						if (counts)
							to.part[at] = place[n * STEP * PITCH];
					});
				} else if ((o0 + 16 * r < out) & (i0 + 8 * c0 < in)) {
					double sum[MANY];
					each([&](int n, int at, bool counts) INLINE { sum[n] = to.sum[counts ? at : first]; }); // all loads go together
					each([&](int n, int at, bool counts) INLINE {
						if (counts)
							to.sum[at] = sum[n] + (double)place[n * STEP * PITCH];
					});
				}
				warpBarrier();
#pragma unroll
				for (int c = 0; c < AT_ONCE; c++)
#pragma unroll
					for (int e = 0; e < 4; e++)
						part[r][c0 + c][e] = 0;
			}
	}

	static __device__ __forceinline__ void run(Rows<Element> x, Rows<Element> dy, int in, int out, const float *factors, int live, int o0, int i0,
	                                           int begins, int end, Totals to) {
		uint4 d[EACH];
		float next = 0;
		auto begin = [&](int b0) INLINE {
			const float *factor = share() + b0 / BLOCK % 2 * BLOCK;
			copy(slabs() + b0 / BLOCK % 2 * SLAB, x, b0, i0, factor);
			commit();
			fetch(d, dy, b0, o0, factor);
		};
		if (threadX() < BLOCK) {
			share()[threadX()] = factorOf(factors, begins + threadX(), live);
			next = factorOf(factors, begins + threadX() + BLOCK, live);
		}
		barrier();
		begin(begins);
		float part[R][C][4] = {};
#pragma unroll 1
		for (int b0 = begins; b0 < end; b0 += BLOCK) {
			int half = b0 / BLOCK % 2;
			Element *inputs = slabs() + half * SLAB, *deltas = inputs + BLOCK * WIDE;
			scale(deltas, d, share() + half * BLOCK);
			if (threadX() < BLOCK)
				share()[(1 - half) * BLOCK + threadX()] = next;
			arrivedBut<0>();
			barrier(); // and the slab before was multiplied
			if (b0 + BLOCK < end) {
				begin(b0 + BLOCK);
				if (threadX() < BLOCK)
					next = factorOf(factors, b0 + 2 * BLOCK + threadX(), live);
			}
			multiply(deltas, inputs, part);
			if (b0 + CHAIN < end)
				multiply(deltas + CHAIN * HIGH, inputs + CHAIN * WIDE, part);
			if (b0 + BLOCK >= end || (b0 + BLOCK) % PART == 0)
				leave(part, o0, i0, out, in, to);
		}
	}
};

// sumTile is the tile's share of an op's sums. Of an op with few outputs a tile is lower.
template <class S>
static __device__ __forceinline__ void sumTile(Rows<Precision::Element> x, Rows<Precision::Element> dy, int in, int out, const float *factors, int live, int tile,
                                               int begins, int end, Totals weights, Totals bias) {
	using Less = Sum<Precision, 1, WARPS, 1, S::COLS / 8 / WARPS>;
	int across = (in + S::COLS - 1) / S::COLS, down = tile / across, i0 = tile % across * S::COLS, most = (out + S::ROWS - 1) / S::ROWS;
	if (down >= most) // the bias's blocks are behind those of the weights
		biases(dy.data, dy.width, out, live, factors, ((tile - most * across) * WARPS + group()) * 32, begins, end, bias,
		       [](Precision::Element d) INLINE { return Precision::get(&d); });
	else if (out <= Less::ROWS)
		Less::run(x, dy, in, out, factors, live, 0, i0, begins, end, weights);
	else
		S::run(x, dy, in, out, factors, live, down * S::ROWS, i0, begins, end, weights);
}

// Where there are parts, they are blockY's.
#define SUMS(ROWS, COLS, R, C, PER)                                                                                                    \
	KERNEL __launch_bounds__(THREADS, PER)                                                                                             \
	    dense_sum_##ROWS##x##COLS(const Run *run, int first, int capacity, float *parts, int stride, SUM_ARGUMENTS(Precision::Element)) { \
		CHOOSE_SUM(Precision::Element)                                                                                                 \
		int live = liveRows(run, first, capacity), begins = blockY() * PART, end = parts ? min(live, begins + PART) : live;            \
		if (begins >= end)                                                                                                             \
			return;                                                                                                                    \
		float *part = parts ? parts + ((int64)blockY() * stride + place) : nullptr;                                                    \
		sumTile<Sum<Precision, 2, 2, R, C>>({x, padded(in)}, {dy, padded(out)}, in, out, factors, live, tile, begins, end,             \
		                                    {sumW, part}, {sumB, part ? part + out * in : nullptr});                                   \
	}

SUMS(64, 64, 2, 4, 3)
SUMS(128, 64, 4, 4, 2)
SUMS(128, 128, 4, 8, 2)
