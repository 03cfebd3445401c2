#include "run.cuh"

static const int columns = 32, rows = 16, exampleBlock = 32;

KERNEL __launch_bounds__(columns * rows) combine(const Run *run, int first, int capacity, const float *factors, const float *kept,
              int stride, int n, double *sum) {
	__shared__ float parts[rows][columns];
	int column = threadX() % columns, row = threadX() / columns, i = blockX() * columns + column;
	int live = liveRows(run, first, capacity);
	bool writes = row == 0 && i < n;
	double total = writes ? sum[i] : 0;
	for (int begin = 0; begin < live; begin += rows * exampleBlock) {
		int lo = begin + row * exampleBlock;
		float part = 0;
		if (i < n)
#pragma unroll 8
			for (int b = lo; b < min(lo + exampleBlock, live); b++) { // reads do not wait for factors
				float f = factors[b], x = kept[(int64)b * stride + i];
				part = f > 0 ? fmaf(f, x, part) : part;
			}
		parts[row][column] = part;
		barrier();
		for (int j = 0; j < rows && writes; j++)
			total += (double)parts[j][column];
		barrier();
	}
	if (writes)
		sum[i] = total;
}
