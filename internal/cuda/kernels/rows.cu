// The end of a front end: the norm of a block of a row, and rows in half precision.
#include "run.cuh"

static constexpr int THREADS = 256;
static constexpr uint32 ENDLESS = 0x7c00, NOT_A_NUMBER = 0x7e00;

KERNEL __launch_bounds__(THREADS) unit(const Run *run, int first, int capacity, const float *x, float *y, double norm, int size) {
	__shared__ double scratch[THREADS];
	int64 at = (int64)blockX() * size;
	if (blockX() >= liveRows(run, first, capacity))
		return;
	x += at, y += at;
	double squares = 0;
	for (int i = threadX(); i < size; i += THREADS)
		squares = fma((double)x[i], (double)x[i], squares);
	squares = blockSum<THREADS>(squares, scratch);
	double factor = squares == 0 ? 0 : norm / sqrt(squares);
	for (int i = threadX(); i < size; i += THREADS)
		y[i] = (float)((double)x[i] * factor);
}

// halfOf rounds to nearest, ties to even: package half.
static __device__ __forceinline__ uint32 halfOf(float x) {
	uint32 b = bits(x), sign = b >> 16 & 0x8000;
	b &= 0x7fffffff;
	uint32 normal = (b - (112u << 23) + 0xfff + (b >> 13 & 1)) >> 13;
	uint32 small = bits(fromBits(b) + .5f) - 0x3f000000;
	uint32 h = b >= 0x38800000 ? normal : small;
	h = b >= 0x477ff000 ? ENDLESS : h;
	return sign | (b > 0x7f800000 ? NOT_A_NUMBER : h);
}

KERNEL __launch_bounds__(THREADS) rows(const Run *run, int first, int capacity, const float *x, const float *targets, unsigned short *y, float *to,
                                       int size) {
	__shared__ int endless;
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	x += (int64)b * size, y += (int64)b * size;
	if (threadX() == 0)
		endless = 0;
	barrier();
	bool bad = false;
	for (int i = threadX(); i < size; i += THREADS) {
		uint32 h = halfOf(x[i]);
		y[i] = (unsigned short)h;
		bad |= (h & ENDLESS) == ENDLESS;
	}
	if (bad)
		atomicOr(&endless, 1);
	barrier();
	if (endless)
		for (int i = threadX(); i < size; i += THREADS)
			y[i] = (unsigned short)NOT_A_NUMBER;
	if (threadX() == 0)
		to[b] = endless ? quietNaN() : targets[b];
}
