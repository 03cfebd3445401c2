// Products over a batch that are too small for one large tile a multiprocessor: a block has 32×32 results, and four groups of
// threads share their terms, so that few blocks finish soon. gemm.cu has those of large layers.
#include "activation.cuh"
#include "run.cuh"
#include "tile.cuh"

static constexpr int SIDE = 32, GROUPS = 4, GROUP = 64, THREADS = GROUPS * GROUP, FETCH = SIDE * DEPTH / GROUP;

struct Slab {
	alignas(16) float a[DEPTH][SIDE + 4], b[DEPTH][SIDE + 4];
};

// What the slabs are for is over when partial results are exchanged.
union Shared {
	Slab slabs[2][GROUPS];
	double sums[GROUPS][SIDE][SIDE + 1];
};

// At is an element of an operand in a slab; a thread of a group has the FETCH of them that r numbers.
struct At {
	int term, line;
};

// Neighbouring threads take neighbouring terms, or lines, as the operand lies in memory.
struct AlongTerms {
	static __device__ __forceinline__ At at(int t, int r) { return {t % DEPTH, t / DEPTH + r * (GROUP / DEPTH)}; }
};
struct AlongLines {
	static __device__ __forceinline__ At at(int t, int r) { return {t / SIDE + r * (GROUP / SIDE), t % SIDE}; }
};

// Pipeline brings slab after slab to shared memory: while a group multiplies one, the next is on its way to registers.
// Two buffers need one barrier a slab.
template <class A, class B> struct Pipeline {
	float a[FETCH], b[FETCH];

	template <class FA, class FB> __device__ __forceinline__ void fetch(int term0, FA fa, FB fb) {
		int t = hidden(threadX() % GROUP);
#pragma unroll
		for (int r = 0; r < FETCH; r++) {
			At p = A::at(t, r), q = B::at(t, r);
			a[r] = fa(term0 + p.term, p.line);
			b[r] = fb(term0 + q.term, q.line);
		}
	}

	__device__ __forceinline__ void put(Slab &s) const {
		int t = threadX() % GROUP;
#pragma unroll
		for (int r = 0; r < FETCH; r++) {
			At p = A::at(t, r), q = B::at(t, r);
			s.a[p.term][p.line] = a[r];
			s.b[q.term][q.line] = b[r];
		}
	}
};

// A thread has the results row()+i, col()+j of its group.
static __device__ __forceinline__ int row() { return threadX() % GROUP / 8 * 4; }
static __device__ __forceinline__ int col() { return threadX() % 8 * 4; }

static __device__ __forceinline__ void multiply(const Slab &s, float (&acc)[4][4]) {
#pragma unroll
	for (int d = 0; d < DEPTH; d++) {
		float4 a = four(s.a[d] + row()), b = four(s.b[d] + col());
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++)
				acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
	}
}

// exchange adds the groups' results in the order of the groups, and visits each with its row and column.
template <class N, class F> static __device__ __forceinline__ void exchange(Shared &shared, const N (&acc)[4][4], F f) {
	barrier(); // the last slabs were read
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			shared.sums[threadX() / GROUP][row() + i][col() + j] = acc[i][j];
	barrier();
#pragma unroll 1
	for (int e = threadX(); e < SIDE * SIDE; e += THREADS) {
		int r = e / SIDE, c = e % SIDE;
		N sum = (N)shared.sums[0][r][c];
#pragma unroll
		for (int g = 1; g < GROUPS; g++)
			sum += (N)shared.sums[g][r][c];
		f(sum, r, c);
	}
}

// product gives every group its share of the terms: slab s is group s mod GROUPS's.
template <class A, class B, class FA, class FB>
static __device__ __forceinline__ void product(Shared &shared, int terms, FA fa, FB fb, float (&acc)[4][4]) {
	int group = threadX() / GROUP;
	Pipeline<A, B> next;
	next.fetch(group * DEPTH, fa, fb);
#pragma unroll 1
	for (int begin = 0, turn = 0; begin < terms; begin += GROUPS * DEPTH, turn ^= 1) {
		Slab &slab = shared.slabs[turn][group];
		next.put(slab);
		barrier();
		next.fetch(begin + (GROUPS + group) * DEPTH, fa, fb);
		multiply(slab, acc);
	}
}

KERNEL __launch_bounds__(THREADS, 3) dense_forward_split(const Run *run, int first, int capacity, const float *x, const float *w,
                                                         const float *bias, float *y, int in, int out, int act) {
	__shared__ Shared shared;
	int live = liveRows(run, first, capacity), b0 = blockX() * SIDE, o0 = blockY() * SIDE;
	if (b0 >= live)
		return;
	float acc[4][4] = {};
	product<AlongTerms, AlongTerms>(
	    shared, in, [&](int i, int r) { return b0 + r < live && i < in ? x[(b0 + r) * in + i] : 0; },
	    [&](int i, int r) { return o0 + r < out && i < in ? w[(o0 + r) * in + i] : 0; }, acc);
	exchange(shared, acc, [&](float sum, int r, int c) {
		int b = b0 + r, o = o0 + c;
		if (b < live && o < out)
			y[b * out + o] = activate(act, bias ? sum + bias[o] : sum);
	});
}

KERNEL __launch_bounds__(THREADS, 3) dense_input_grad_split(const Run *run, int first, int capacity, const float *dy, const float *w,
                                                            float *dx, int in, int out, int add, int act, const float *activated) {
	__shared__ Shared shared;
	int live = liveRows(run, first, capacity), b0 = blockX() * SIDE, i0 = blockY() * SIDE;
	if (b0 >= live)
		return;
	float acc[4][4] = {};
	product<AlongTerms, AlongLines>(
	    shared, out, [&](int o, int r) { return b0 + r < live && o < out ? dy[(b0 + r) * out + o] : 0; },
	    [&](int o, int c) { return i0 + c < in && o < out ? w[o * in + i0 + c] : 0; }, acc);
	exchange(shared, acc, [&](float sum, int r, int c) {
		int b = b0 + r, at = b * in + i0 + c;
		if (b >= live || i0 + c >= in)
			return;
		if (add)
			sum += dx[at];
		dx[at] = act ? passBack(act, activated[at], sum) : sum;
	});
}

// What the sum of one op's gradients is made of; start is the first block of it.
#define SUM(N)                                                                                                                             \
	int start##N, const float *x##N, const float *dy##N, const float *factors##N, double *sumW##N, double *sumB##N, int in##N, int cols##N, \
	    int out##N
#define SET_SUM(N) tile -= start##N, x = x##N, dy = dy##N, factors = factors##N, sumW = sumW##N, sumB = sumB##N, in = in##N, cols = cols##N, out = out##N

// Column in, where cols counts it, is of ones, and its sums are the bias's.
KERNEL __launch_bounds__(THREADS, 2) dense_sum_split(const Run *run, int first, int capacity, SUM(0), SUM(1), SUM(2), SUM(3)) {
	constexpr int BLOCK = 32;
	__shared__ Shared shared;
	const float *x, *dy, *factors;
	double *sumW, *sumB;
	int in, cols, out, tile = blockX();
	if (tile >= start3)
		SET_SUM(3);
	else if (tile >= start2)
		SET_SUM(2);
	else if (tile >= start1)
		SET_SUM(1);
	else
		SET_SUM(0);
	int across = (cols + SIDE - 1) / SIDE, i0 = tile % across * SIDE, o0 = tile / across * SIDE;
	int live = liveRows(run, first, capacity), group = threadX() / GROUP;
	auto scaled = [&](int b, int r) {
		int o = o0 + r;
		if (b >= live || o >= out)
			return 0.f;
		float f = factors[b], d = f * dy[b * out + o];
		// Automatic clipping may scale up. Where that overflows, the inputs are next to nothing: the product is left out, for ∞·0
		// would be no number.
		return f > 0 && fabsf(d) <= 3.402823466e38f ? d : 0;
	};
	// What an example holds that is left out may be no number, and that times zero is none either.
	auto inputs = [&](int b, int c) {
		int i = i0 + c;
		if (b >= live || i >= cols)
			return 0.f;
		float v = i < in ? x[b * in + i] : 1;
		return factors[b] > 0 ? v : 0;
	};
	double total[4][4] = {};
	float acc[4][4] = {};
	Pipeline<AlongLines, AlongLines> next;
	next.fetch(group * BLOCK, scaled, inputs);
	// Block b of examples, two slabs, is group b mod GROUPS's. Empty slabs fill the last turn up.
	int b0 = group * BLOCK, slabs = (live + GROUPS * BLOCK - 1) / (GROUPS * BLOCK) * 2;
	static_assert(BLOCK == 2 * DEPTH);
#pragma unroll 1
	for (int s = 0; s < slabs; s++) {
		Slab &slab = shared.slabs[s % 2][group];
		next.put(slab);
		barrier();
		b0 += s % 2 == 0 ? DEPTH : GROUPS * BLOCK - DEPTH;
		next.fetch(b0, scaled, inputs);
		multiply(slab, acc);
		if (s % 2 == 0)
			continue;
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) {
				total[i][j] += acc[i][j];
				acc[i][j] = 0;
			}
	}
	exchange(shared, total, [&](double sum, int r, int c) {
		int o = o0 + r, at = i0 + c;
		if (o < out && at < cols) {
			double *to = at < in ? sumW + o * in + at : sumB + o;
			*to += sum;
		}
	});
}
