// Numbers of 384 binary digits, computed by a warp together: lane i has digit i in base 2^32, the lowest first, and the lanes
// behind have 0. All lanes take part in every function, and all results are rounded down.
#pragma once
#include "lanes.cuh"

static const int digits = 12;

// any has a bit for each lane whose x is not 0.
static __device__ __forceinline__ uint32 any(uint32 x) { return __nvvm_vote_ballot_sync(~0u, x != 0); }

// complement is 1 - x, less a unit in the last place, of x with the point before the highest digit.
static __device__ __forceinline__ uint32 complement(uint32 x) { return ownLane() < digits ? ~x : 0; }

// carry adds what lies above a lane's digit, 0 or 1, to the lane behind.
static __device__ __forceinline__ uint32 carry(uint64 x) {
	uint32 d = (uint32)x, carries = any((uint32)(x >> 32)), full = any(d == ~0u);
	return d + (((carries << 1) + full ^ full) >> ownLane() & 1);
}

static __device__ __forceinline__ uint32 plus(uint32 x, uint32 y) { return carry((uint64)x + y); }

// product has 24 digits, in as many lanes.
static __device__ __forceinline__ uint32 product(uint32 x, uint32 y) {
	int lane = ownLane();
	uint64 low = 0;
	uint32 high = 0;
#pragma unroll 1
	for (int i = 0; i < digits; i++) { // lanes before i get a 0 from the end
		uint64 p = (uint64)sent(x, i) * sent(y, lane - i);
		low += p;
		high += low < p;
	}
	uint64 sum = (low & ~0u) + sent((uint32)(low >> 32), lane - 1) + sent(high, lane - 2);
	return carry((sum & ~0u) + sent((uint32)(sum >> 32), lane - 1));
}

// part is 12 digits of a product, from one of them on.
static __device__ __forceinline__ uint32 part(uint32 product, int from) {
	uint32 d = sent(product, ownLane() + from);
	return ownLane() < digits ? d : 0;
}

// quotient is (first·2^384 + x)/d, first < d.
static __device__ __forceinline__ uint32 quotient(uint32 first, uint32 x, uint32 d) {
	uint32 result = 0;
#pragma unroll 1
	for (int i = digits - 1; i >= 0; i--) {
		uint64 n = (uint64)first << 32 | sent(x, i);
		uint32 q = (uint32)(n / d);
		first = (uint32)n - q * d;
		if (ownLane() == i)
			result = q;
	}
	return result;
}

static __device__ __forceinline__ bool less(uint32 x, uint32 y) { return any(x < y) > any(x > y); }

// uniform is V: the 63 digits of a word, then those of further words, each of which has its bytes in the order of the keystream.
template <typename F> static __device__ __forceinline__ uint32 uniform(uint64 word, F more) {
	int lane = ownLane();
	uint32 x = lane == digits ? (uint32)(word >> 32) : lane == digits - 1 ? (uint32)word : 0;
#pragma unroll
	for (int i = 0; i < digits - 1; i++)
		if (lane == digits - 2 - i)
			x = __builtin_bswap32(more(i));
	x = sent(x, lane + 1) << 1 | x >> 31;
	return lane < digits ? x : 0;
}

// rootTwoOverPi is sqrt(2/pi), with the point before the highest digit.
static __device__ const uint32 rootTwoOverPi[digits] = {0x66e9d11b, 0x47eba757, 0x88fa7b6e, 0x3bf158aa, 0x04c73a5d, 0x808e3690,
                                                        0xa24e0db1, 0xa7053e60, 0x5d5c717f, 0x7e59e280, 0xa1b28468, 0xcc42299e};
