// A block's share of a matrix product on tensor cores: ROWS×COLS results, from operands that are rounded on their way into
// shared memory. Two slabs of DEPTH terms take turns: while one is multiplied, the next is on its way in registers.
//
// A word holds one term of tf32 or two neighbouring ones of bf16. The fragments of m16n8k8 and m16n8k16 have the same words in
// the same lanes, so that all but the two precisions below counts in words.
#pragma once
#include "common.cuh"

// A precision: TERMS of a word; nearest and shorter round terms, to nearest or toward zero, which makes no magnitude larger
// and nothing finite of what is not; multiply is acc = c + A·B.
struct TF32 {
	static constexpr int TERMS = 1;
	static __device__ __forceinline__ uint32 nearest(const float *x) {
		uint32 y;
		asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x[0]));
		return y;
	}
	static __device__ __forceinline__ uint32 shorter(const float *x) { return bits(x[0]) & 0xffffe000; }
	static __device__ __forceinline__ void multiply(float (&acc)[4], const uint32 (&a)[4], const uint32 (&b)[2], const float (&c)[4]) {
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
		             : "=f"(acc[0]), "=f"(acc[1]), "=f"(acc[2]), "=f"(acc[3])
		             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
	}
};

struct BF16 {
	static constexpr int TERMS = 2;
	static __device__ __forceinline__ uint32 nearest(const float *x) {
		uint32 y;
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(x[1]), "f"(x[0]));
		return y;
	}
	static __device__ __forceinline__ uint32 shorter(const float *x) { return bits(x[0]) >> 16 | (bits(x[1]) & 0xffff0000); }
	static __device__ __forceinline__ void multiply(float (&acc)[4], const uint32 (&a)[4], const uint32 (&b)[2], const float (&c)[4]) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
		             : "=f"(acc[0]), "=f"(acc[1]), "=f"(acc[2]), "=f"(acc[3])
		             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
	}
};

static constexpr int WORDS = 8, THREADS = 128; // of a slab's lines; of every block

enum Along { Terms, Lines }; // how an operand lies in memory: neighbouring threads take neighbours

// Operand is LINES rows of A or columns of B in a slab. Its padding keeps a warp's reads of fragments in different banks.
template <class Precision, int LINES_, Along ALONG> struct Operand {
	static constexpr int LINES = LINES_, TERMS = Precision::TERMS, COUNT = LINES * WORDS / THREADS;
	uint32 words[ALONG == Terms ? LINES * (WORDS + 4) : WORDS * (LINES + 8)];

	static __device__ __forceinline__ int place(int word, int line) {
		return ALONG == Terms ? line * (WORDS + 4) + word : word * (LINES + 8) + line;
	}
	// word and line of the i-th word that a thread brings. Along Lines it brings neighbouring words of one line.
	static __device__ __forceinline__ int word(int i) { return ALONG == Terms ? threadX() % WORDS : threadX() / LINES * COUNT + i; }
	static __device__ __forceinline__ int line(int i) {
		return ALONG == Terms ? threadX() / WORDS + i * (THREADS / WORDS) : threadX() % LINES;
	}

	// load takes f(term, line, whether it is the first of a run of terms that follow each other).
	template <class F> static __device__ __forceinline__ void load(float (&values)[COUNT][TERMS], int first, F f) {
#pragma unroll
		for (int i = 0; i < COUNT; i++)
#pragma unroll
			for (int j = 0; j < TERMS; j++)
				values[i][j] = f(first + word(i) * TERMS + j, line(i), j == 0 && (ALONG == Terms || i == 0));
	}

	template <bool NEAREST> __device__ __forceinline__ void store(const float (&values)[COUNT][TERMS]) {
#pragma unroll
		for (int i = 0; i < COUNT; i++)
			words[place(word(i), line(i))] = NEAREST ? Precision::nearest(values[i]) : Precision::shorter(values[i]);
	}
};

// clear makes fragments of results zero.
template <int A, int B> static __device__ __forceinline__ void clear(float (&x)[A][B][4]) {
#pragma unroll
	for (int a = 0; a < A; a++)
#pragma unroll
		for (int b = 0; b < B; b++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				x[a][b][e] = 0;
}

// What becomes of a product. A Chain of fragments adds in the tensor core, which cuts bits off every time. Parts begins each
// fragment from zero and adds it in float32, so that a term is cut off once whatever the number of terms.
enum Sums { Chain, Parts };

template <class Precision_, int ROWS_, int COLS_, Along A, Along B> struct Product {
	using Precision = Precision_;
	// Four warps, side by side where there are few rows.
	static constexpr int ROWS = ROWS_, COLS = COLS_, DOWN = ROWS >= 64 ? ROWS / 32 : 1, ACROSS = THREADS / 32 / DOWN;
	static constexpr int R = ROWS / DOWN / 16, C = COLS / ACROSS / 8, DEPTH = WORDS * Precision::TERMS;
	static_assert(R > 0 && C > 0 && R * 16 * DOWN == ROWS && C * 8 * ACROSS == COLS);
	using Left = Operand<Precision, ROWS, A>;
	using Right = Operand<Precision, COLS, B>;

	struct Slab {
		Left a;
		Right b;
	};

	using Results = float[R][C][4];

	static __device__ __forceinline__ int lane() { return threadX() % 32; }
	static __device__ __forceinline__ int top() { return threadX() / 32 / ACROSS * R * 16 + lane() / 4; }
	static __device__ __forceinline__ int left() { return threadX() / 32 % ACROSS * C * 8; }
	static __device__ __forceinline__ int row(int r, int e) { return top() + r * 16 + e / 2 * 8; }
	static __device__ __forceinline__ int col(int c, int e) { return left() + c * 8 + lane() % 4 * 2 + e % 2; }

	// each visits a thread's results.
	template <class F> static __device__ __forceinline__ void each(F f) {
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					f(r, c, e, row(r, e), col(c, e));
	}

	template <Sums SUMS> static __device__ __forceinline__ void multiply(const Slab &s, Results &acc) {
		int t = lane() % 4, g = lane() / 4;
		uint32 a[R][4], b[C][2];
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				a[r][i] = s.a.words[Left::place(t + i / 2 * 4, top() + r * 16 + i % 2 * 8)];
#pragma unroll
		for (int c = 0; c < C; c++)
#pragma unroll
			for (int i = 0; i < 2; i++)
				b[c][i] = s.b.words[Right::place(t + i * 4, left() + c * 8 + g)];
#pragma unroll
		for (int r = 0; r < R; r++)
#pragma unroll
			for (int c = 0; c < C; c++) {
				if (SUMS == Chain) {
					Precision::multiply(acc[r][c], a[r], b[c], acc[r][c]);
					continue;
				}
				float part[4], zero[4] = {};
				Precision::multiply(part, a[r], b[c], zero);
#pragma unroll
				for (int e = 0; e < 4; e++)
					acc[r][c][e] += part[e];
			}
	}

	// add adds the products of terms first…end−1 to acc. fa and fb give the operands, and zero for terms from end on. Chains are of
	// terms rounded to nearest, parts of terms that are shortened.
	template <Sums SUMS, class FA, class FB>
	static __device__ __forceinline__ void add(Slab (&slabs)[2], Results &acc, int first, int end, FA fa, FB fb) {
		float a[Left::COUNT][Precision::TERMS], b[Right::COUNT][Precision::TERMS];
		if (first < end) {
			Left::load(a, first, fa);
			Right::load(b, first, fb);
		}
		barrier(); // the slabs may be in use from before
		for (int at = first, turn = 0; at < end; at += DEPTH, turn ^= 1) {
			slabs[turn].a.template store<SUMS == Chain>(a);
			slabs[turn].b.template store<SUMS == Chain>(b);
			barrier(); // whoever fills this slab again has passed the next one, behind all reads
			if (at + DEPTH < end) {
				Left::load(a, at + DEPTH, fa);
				Right::load(b, at + DEPTH, fb);
			}
			multiply<SUMS>(slabs[turn], acc);
		}
	}
};
