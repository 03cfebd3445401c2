// What CUDA's headers would define, for clang without them: qualifiers, indices,
// barriers and the few operations that have no spelling in C++.
//
// Every source is compiled with -ffp-contract=off and without fast-math: a
// floating-point expression rounds as it is written, / and sqrt round to nearest,
// and a fused operation is an explicit fmaf or fma.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define INLINE __attribute__((always_inline)) // of lambdas: what one captures would lie in memory if it were called
// The most threads of a block, and the fewest blocks of a processor that registers must leave room for.
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define KERNEL extern "C" __global__ void

typedef unsigned char uint8;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef long long int64;

static __device__ __forceinline__ int threadX() { return __nvvm_read_ptx_sreg_tid_x(); }
static __device__ __forceinline__ int threadsX() { return __nvvm_read_ptx_sreg_ntid_x(); }
static __device__ __forceinline__ int blockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
static __device__ __forceinline__ int blockY() { return __nvvm_read_ptx_sreg_ctaid_y(); }
static __device__ __forceinline__ int blocksY() { return __nvvm_read_ptx_sreg_nctaid_y(); }
// index numbers the threads of a one-dimensional grid.
static __device__ __forceinline__ int index() { return blockX() * threadsX() + threadX(); }

// barrier waits for all threads of the block, and orders what they wrote.
static __device__ __forceinline__ void barrier() { __syncthreads(); }

static __device__ __forceinline__ float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static __device__ __forceinline__ double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static __device__ __forceinline__ float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
static __device__ __forceinline__ double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
static __device__ __forceinline__ float fabsf(float x) { return __builtin_fabsf(x); }
static __device__ __forceinline__ double fabs(double x) { return __builtin_fabs(x); }
static __device__ __forceinline__ int min(int a, int b) { return a < b ? a : b; }
static __device__ __forceinline__ int max(int a, int b) { return a > b ? a : b; }
static __device__ __forceinline__ uint32 bits(float x) { return __builtin_bit_cast(uint32, x); }
static __device__ __forceinline__ float fromBits(uint32 x) { return __builtin_bit_cast(float, x); }

// hidden keeps the compiler from computing what follows from x outside of a loop, in more registers than there are.
static __device__ __forceinline__ int hidden(int x) {
	asm volatile("" : "+r"(x));
	return x;
}

static __device__ __forceinline__ float quietNaN() { return fromBits(0x7fc00000); }

static __device__ __forceinline__ void atomicOr(int *x, int y) { __nvvm_atom_or_gen_i(x, y); }

// blockSum adds one value a thread in a tree of log₂ THREADS levels; thread 0 has the sum. All threads of a block of
// THREADS, a power of two, take part. scratch holds THREADS values; it may be used again after the next barrier.
template <int THREADS> static __device__ __forceinline__ double blockSum(double x, double *scratch) {
	int t = threadX();
	scratch[t] = x;
	barrier();
#pragma unroll
	for (int half = THREADS / 2; half > 0; half /= 2) {
		if (t < half)
			scratch[t] += scratch[t + half];
		barrier();
	}
	return scratch[0];
}
