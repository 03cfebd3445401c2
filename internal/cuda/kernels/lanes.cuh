// What the lanes of a warp, all of which take part, tell each other.
#pragma once
#include "common.cuh"

static __device__ __forceinline__ int ownLane() { return threadX() % 32; }

// Halves of 64 bits: pairs of registers, which no instruction takes apart or puts together.
static __device__ __forceinline__ uint32 upper(double x) {
	uint32 high;
	asm("{\n\t.reg .b32 low;\n\tmov.b64 {low, %0}, %1;\n\t}" : "=r"(high) : "d"(x));
	return high;
}
static __device__ __forceinline__ uint32 lower(double x) {
	uint32 low;
	asm("{\n\t.reg .b32 high;\n\tmov.b64 {%0, high}, %1;\n\t}" : "=r"(low) : "d"(x));
	return low;
}
static __device__ __forceinline__ double halves(uint32 low, uint32 high) {
	double x;
	asm("mov.b64 %0, {%1, %2};" : "=d"(x) : "r"(low), "r"(high));
	return x;
}

// warpBarrier orders what lanes read and write before it and after it.
static __device__ __forceinline__ void warpBarrier() { __nvvm_bar_warp_sync(~0u); }

// sent is what a lane has, modulo 32.
static __device__ __forceinline__ uint32 sent(uint32 x, int lane) { return (uint32)__nvvm_shfl_sync_idx_i32(~0u, (int)x, lane, 31); }

// from is what the lane has whose number differs in the bits of half.
static __device__ __forceinline__ uint32 from(int half, uint32 x) { return (uint32)__nvvm_shfl_sync_bfly_i32(~0u, (int)x, half, 31); }
static __device__ __forceinline__ float from(int half, float x) { return fromBits(from(half, bits(x))); }
static __device__ __forceinline__ double from(int half, double x) { return halves(from(half, lower(x)), from(half, upper(x))); }

// laneSum adds one value a lane, in a tree of halves; all lanes have the sum.
static __device__ __forceinline__ double laneSum(double x) {
#pragma unroll
	for (int half = 16; half > 0; half /= 2)
		x += from(half, x);
	return x;
}
