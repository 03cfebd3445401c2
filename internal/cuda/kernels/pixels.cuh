// Values of networks on tensor cores. They lie in pixels: [example][row][column][channel], with the channels rounded up to a
// multiple of EIGHT; those that do not exist are zero. A vector is an image of one pixel. Whoever writes a value rounds it to
// nearest; whoever reads it computes in float32 and rounds nothing, so that tensor cores take numbers as they lie in memory.
//
// Tensor cores take units of 16 bytes: a fragment is 8 lines of one unit, whatever a unit has. Products of two units of terms are
// m16n8k8 of four terms each in tf32, and m16n8k16 of eight in bf16: the same words in the same lanes. So what moves units is one
// code for both precisions, and only the element types below differ.
#pragma once
#include "common.cuh"

typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef uint32 uint2 __attribute__((ext_vector_type(2)));
typedef uint32 uint4 __attribute__((ext_vector_type(4)));

static constexpr int EIGHT = 8;       // channels come in eights
static constexpr int UNIT_BYTES = 16; // of what is copied and multiplied at once

static __device__ __forceinline__ int eights(int n) { return (n + EIGHT - 1) / EIGHT; }
static __device__ __forceinline__ int padded(int n) { return eights(n) * EIGHT; }

// Element types: how values lie in memory. UNIT of them are 16 bytes. get reads one, put rounds and writes one, and two puts
// neighbours at an even place. unpack and pack are of EIGHT neighbours, which lie at a multiple of 16 bytes.
struct TF32 {
	typedef float Element;
	static constexpr int UNIT = 4;
	static __device__ __forceinline__ float rounded(float x) {
		uint32 y;
		asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
		return fromBits(y);
	}
	static __device__ __forceinline__ float shorter(float x) { return fromBits(bits(x) & 0xffffe000); } // toward zero
	static __device__ __forceinline__ float get(const Element *x) { return *x; }
	static __device__ __forceinline__ void put(Element *to, float x) { *to = rounded(x); }
	static __device__ __forceinline__ void two(Element *to, float a, float b) { *(float2 *)to = float2{rounded(a), rounded(b)}; }
	static __device__ __forceinline__ void unpack(const Element *from, float (&x)[EIGHT]) {
		float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];
#pragma unroll
		for (int i = 0; i < 4; i++)
			x[i] = a[i], x[4 + i] = b[i];
	}
	static __device__ __forceinline__ void pack(Element *to, const float (&x)[EIGHT]) {
		float4 a, b;
#pragma unroll
		for (int i = 0; i < 4; i++)
			a[i] = rounded(x[i]), b[i] = rounded(x[4 + i]);
		((float4 *)to)[0] = a, ((float4 *)to)[1] = b;
	}
	// multiply is acc += A·B, of a fragment of sixteen lines and one of eight.
	static __device__ __forceinline__ void multiply(float (&acc)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		             : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
		             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
	}
};

struct BF16 {
	typedef unsigned short Element;
	static constexpr int UNIT = 8;
	// pair rounds two numbers to one word, the first in its lower half.
	static __device__ __forceinline__ uint32 pair(float a, float b) {
		uint32 y;
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
		return y;
	}
	static __device__ __forceinline__ float rounded(float x) { return fromBits(pair(0, x) & 0xffff0000); }
	static __device__ __forceinline__ float shorter(float x) { return fromBits(bits(x) & 0xffff0000); } // toward zero
	static __device__ __forceinline__ float get(const Element *x) { return fromBits((uint32)*x << 16); }
	static __device__ __forceinline__ void put(Element *to, float x) { *to = (Element)pair(x, 0); }
	static __device__ __forceinline__ void two(Element *to, float a, float b) { *(uint32 *)to = pair(a, b); }
	static __device__ __forceinline__ void unpack(const Element *from, float (&x)[EIGHT]) {
		uint4 v = *(const uint4 *)from;
#pragma unroll
		for (int i = 0; i < 4; i++)
			x[2 * i] = fromBits(v[i] << 16), x[2 * i + 1] = fromBits(v[i] & 0xffff0000);
	}
	static __device__ __forceinline__ void pack(Element *to, const float (&x)[EIGHT]) {
		uint4 v;
#pragma unroll
		for (int i = 0; i < 4; i++)
			v[i] = pair(x[2 * i], x[2 * i + 1]);
		*(uint4 *)to = v;
	}
	static __device__ __forceinline__ void multiply(float (&acc)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		             : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
		             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
	}
};

// shared is the address in shared memory that instructions take.
static __device__ __forceinline__ uint32 shared(const void *p) { return (uint32)(uint64)(const __attribute__((address_space(3))) char *)p; }

// copyUnit begins to copy 16 bytes to shared memory, or zeros. Through the first cache go units that other copies of the block
// read soon. commit closes a group of copies, arrivedBut waits for all groups of the thread but so many of the latest; what other
// threads have copied is there behind the next barrier.
enum Through { FirstCache, SecondCache };
template <Through CACHE> static __device__ __forceinline__ void copyBytes(uint32 to, const void *from, uint32 bytes) { // 16, or 0 for zeros
	if (CACHE == FirstCache)
		asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(bytes) : "memory");
	else
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(bytes) : "memory");
}
template <Through CACHE> static __device__ __forceinline__ void copyUnit(uint32 to, const void *from, bool copies) {
	copyBytes<CACHE>(to, from, copies ? UNIT_BYTES : 0);
}
static __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int GROUPS> static __device__ __forceinline__ void arrivedBut() { asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory"); }

// fragments loads four fragments: lanes 8i…8i+7 give the addresses of the eight units of fragment i. A lane gets, of each
// fragment, word lane%4 of line lane/4.
static __device__ __forceinline__ void fragments(uint32 (&to)[4], uint32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

// turned loads fragments of 2-byte elements whose lines are terms: a lane gets elements 2·(lane%4) and the next of lane/4's column.
static __device__ __forceinline__ void turned(uint32 (&to)[4], uint32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
// turnedTwo is that of two fragments, at the addresses of lanes 0…15.
static __device__ __forceinline__ void turnedTwo(uint32 (&to)[2], uint32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
}
