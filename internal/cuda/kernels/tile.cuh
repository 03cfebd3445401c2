// A block's share of a matrix product: ROWS×COLS results, R×C of them in each thread's registers, from operands that come
// through shared memory in slabs of DEPTH terms. Every result is its own chain of fused operations in the order of the terms,
// so that its bits depend on nothing but its terms: not on the tile, and not on zeros that fill a slab up.
#pragma once
#include "common.cuh"

static constexpr int DEPTH = 16;

typedef float float4 __attribute__((ext_vector_type(4)));

// four reads neighbours at 16 aligned bytes, at once.
static __device__ __forceinline__ float4 four(const float *x) { return *(const float4 *)x; }

// copyAsync begins to copy base[at] to shared memory, or a zero. arrived waits for all that the thread has begun; what others
// have copied is there behind the next barrier.
static __device__ __forceinline__ void copyAsync(float *to, const float *base, int at, bool copies) {
	const float *from = base + (copies ? at : 0);
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
	             :
	             : "r"((uint32)(uint64)(__attribute__((address_space(3))) float *)to), "l"(from), "r"(copies ? 4 : 0)
	             : "memory");
}
// copyFour is that of 16 bytes, all of them or zeros, between addresses that are multiples of 16.
static __device__ __forceinline__ void copyFour(float *to, const float *from, bool copies) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
	             :
	             : "r"((uint32)(uint64)(__attribute__((address_space(3))) float *)to), "l"(from), "r"(copies ? 16 : 0)
	             : "memory");
}

// commit closes a group of copies; arrivedBut waits for all groups but so many of the latest.
static __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int GROUPS> static __device__ __forceinline__ void arrivedBut() { asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory"); }
static __device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_all;" : : : "memory"); }

template <int ROWS_, int COLS_, int R_, int C_> struct Tile {
	static constexpr int ROWS = ROWS_, COLS = COLS_, R = R_, C = C_, THREADS = ROWS / R * (COLS / C);

	// Rows are padded by 16 bytes, for alignment and against bank conflicts.
	struct Slab {
		alignas(16) float a[DEPTH][ROWS + 4];
		alignas(16) float b[DEPTH][COLS + 4];
	};

	// row and col say which result is in registers i, j: fours of neighbours, spread over the tile so that a warp reads
	// shared memory without conflicts.
	static __device__ __forceinline__ int row(int i) { return i / 4 * (ROWS * 4 / R) + threadX() / (COLS / C) * 4 + i % 4; }
	static __device__ __forceinline__ int col(int j) { return j / 4 * (COLS * 4 / C) + threadX() % (COLS / C) * 4 + j % 4; }

	static __device__ __forceinline__ void clear(float (&acc)[R][C]) {
#pragma unroll
		for (int i = 0; i < R; i++)
#pragma unroll
			for (int j = 0; j < C; j++)
				acc[i][j] = 0;
	}

	static __device__ __forceinline__ void put(float *to, float4 x) { to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w; }

	static __device__ __forceinline__ void multiply(const Slab &s, float (&acc)[R][C]) {
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			float a[R], b[C];
#pragma unroll
			for (int i = 0; i < R; i += 4)
				put(a + i, four(s.a[d] + row(i)));
#pragma unroll
			for (int j = 0; j < C; j += 4)
				put(b + j, four(s.b[d] + col(j)));
#pragma unroll
			for (int i = 0; i < R; i++)
#pragma unroll
				for (int j = 0; j < C; j++)
					acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
		}
	}

	// copyTerms and copyLines fill one operand of a slab by f(to, term, line), which begins copies that run on while the block
	// computes; neighbouring threads take neighbouring terms, or lines, as the operand lies in memory.
	template <int LINES, class F> static __device__ __forceinline__ void copyTerms(float (&to)[DEPTH][LINES], F f) {
		int t = hidden(threadX()), d = t % DEPTH;
#pragma unroll
		for (int r = 0; r < (LINES - 4); r += THREADS / DEPTH) {
			int line = r + t / DEPTH;
			f(&to[d][line], d, line);
		}
	}
	template <int LINES, class F> static __device__ __forceinline__ void copyLines(float (&to)[DEPTH][LINES], F f) {
		constexpr int LINE = LINES - 4;
		int line = threadX() % LINE;
#pragma unroll
		for (int r = 0; r < DEPTH; r += THREADS / LINE) {
			int d = r + threadX() / LINE;
			f(&to[d][line], d, line);
		}
	}

	// each visits the results.
	template <class F> static __device__ __forceinline__ void each(F f) {
#pragma unroll
		for (int i = 0; i < R; i++)
#pragma unroll
			for (int j = 0; j < C; j++)
				f(i, j, row(i), col(j));
	}
};
