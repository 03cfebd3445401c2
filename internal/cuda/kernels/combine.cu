#include "combine.cuh"

KERNEL __launch_bounds__(512) combine(const Run *run, int first, int capacity, const float *factors, const float *kept, int stride, int n,
                                      double *sum) {
	combineAll<1, 16, 16>(liveRows(run, first, capacity), factors, kept, stride, n, sum, Kept());
}

// Columns lie by fours at multiples of 16 bytes. So that few pages of memory are read between two of the same, a warp reads four times as much of each row.
KERNEL __launch_bounds__(256) combine_fours(const Run *run, int first, int capacity, const float *factors, const float *kept, int stride, int n,
                                            double *sum) {
	combineAll<4, 8, 8>(liveRows(run, first, capacity), factors, kept, stride, n, sum, Kept());
}
