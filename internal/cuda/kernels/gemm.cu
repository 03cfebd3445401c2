#include "run.cuh"

static __device__ __forceinline__ float value(float x) { return x; }
static __device__ __forceinline__ float value(unsigned short x) { return fromBits((uint32)x << 16); } // of bf16

// store is of rows of wide and high elements, of which in and out are values.
template <class E>
static __device__ __forceinline__ void store(const Run *run, int first, int capacity, const E *x, const E *dy, float *kept, int stride, double *norm2, int in,
                                             int out, int bias, int wide, int high) {
	__shared__ double scratch[256];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * wide, dy += b * high, kept += (int64)b * stride;
	double squares = 0;
	int weights = in * out;
	for (int e = threadX(); e < (bias ? weights + out : weights); e += 256) {
		float v = e < weights ? value(dy[e / in]) * value(x[e % in]) : value(dy[e - weights]);
		kept[e] = v;
		squares = fma(v, v, squares);
	}
	squares = blockSum<256>(squares, scratch);
	if (threadX() == 0)
		norm2[b] += squares;
}

#define STORE(NAME, E)                                                                                                                       \
	KERNEL __launch_bounds__(256) NAME(const Run *run, int first, int capacity, const E *x, const E *dy, float *kept, int stride, double *norm2, \
	                                   int in, int out, int bias, int wide, int high) {                                                      \
		store(run, first, capacity, x, dy, kept, stride, norm2, in, out, bias, wide, high);                                                  \
	}
STORE(dense_store, float)
STORE(dense_store_bf16, unsigned short)
