// Sums of gradients that were kept, each times its factor.
#pragma once
#include "run.cuh"
#include "tile.cuh"

static const int exampleBlock = 32;

// Kept is of a gradient that was kept as it is summed.
struct Kept {
	struct More {};
	__device__ __forceinline__ More more(int) const { return {}; }
	template <class Some> __device__ __forceinline__ float value(const Some &x, int i, More) const { return x[i]; }
};

// combineAll adds up 32·WIDE columns a block, WIDE of them a thread and read at once. Each of WARPS warps has a block of examples at a time, AT_ONCE of whose
// reads wait together; none waits for a factor. F gives for column i of a thread what is summed: of what was kept there,
// and of what more the record has, which is read together with it.
template <int WIDE, int WARPS, int AT_ONCE, class F>
static __device__ __forceinline__ void combineAll(int live, const float *factors, const float *kept, int stride, int n, double *sum, F of) {
	typedef float Some __attribute__((ext_vector_type(WIDE)));
	const int columns = 32 * WIDE;
	__shared__ float parts[WARPS][columns];
	int warp = threadX() / 32, left = blockX() * columns, mine = left + threadX() % 32 * WIDE, own = left + threadX();
	bool writes = threadX() < columns && own < n;
	double total = writes ? sum[own] : 0;
	for (int begin = 0; begin < live; begin += WARPS * exampleBlock) {
		int first = begin + warp * exampleBlock, end = min(first + exampleBlock, live);
		Some part = 0;
		if (mine < n)
#pragma unroll 1
			for (int b = first; b < end; b += AT_ONCE) {
				Some x[AT_ONCE];
				float f[AT_ONCE];
				typename F::More more[AT_ONCE];
#pragma unroll
				for (int j = 0; j < AT_ONCE; j++) {
					int row = min(b + j, end - 1); // what is read twice counts once
					float factor = factors[row];
					f[j] = b + j < end ? factor : 0;
					x[j] = *(const Some *)(kept + (int64)row * stride + mine);
					more[j] = of.more(row);
				}
#pragma unroll
				for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
					for (int i = 0; i < WIDE; i++)
						part[i] = f[j] > 0 ? fmaf(f[j], of.value(x[j], i, more[j]), part[i]) : part[i];
			}
		*(Some *)(parts[warp] + threadX() % 32 * WIDE) = part;
		barrier();
		if (writes)
#pragma unroll
			for (int j = 0; j < WARPS; j++)
				total += (double)parts[j][threadX()];
		barrier();
	}
	if (writes)
		sum[own] = total;
}
