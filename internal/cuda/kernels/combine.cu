#include "run.cuh"
#include "tile.cuh"

static const int exampleBlock = 32;

// combineAll adds up 32·WIDE columns a block, WIDE of them a thread and read at once. Each of WARPS warps has a block of examples at a time, AT_ONCE of whose
// reads wait together; none waits for a factor.
template <int WIDE, int WARPS, int AT_ONCE>
static __device__ __forceinline__ void combineAll(int live, const float *factors, const float *kept, int stride, int n, double *sum) {
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
#pragma unroll
				for (int j = 0; j < AT_ONCE; j++) {
					int row = min(b + j, end - 1); // what is read twice counts once
					float factor = factors[row];
					f[j] = b + j < end ? factor : 0;
					x[j] = *(const Some *)(kept + (int64)row * stride + mine);
				}
#pragma unroll
				for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
					for (int i = 0; i < WIDE; i++)
						part[i] = f[j] > 0 ? fmaf(f[j], x[j][i], part[i]) : part[i];
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

KERNEL __launch_bounds__(512) combine(const Run *run, int first, int capacity, const float *factors, const float *kept, int stride, int n,
                                      double *sum) {
	combineAll<1, 16, 16>(liveRows(run, first, capacity), factors, kept, stride, n, sum);
}

// Columns lie by fours at multiples of 16 bytes. So that few pages of memory are read between two of the same, a warp reads four times as much of each row.
KERNEL __launch_bounds__(256) combine_fours(const Run *run, int first, int capacity, const float *factors, const float *kept, int stride, int n,
                                            double *sum) {
	combineAll<4, 8, 8>(liveRows(run, first, capacity), factors, kept, stride, n, sum);
}
