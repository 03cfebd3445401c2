#include "each.cuh"

KERNEL __launch_bounds__(256) contrast(const Run *run, int first, int capacity, const float *x, float *y, int channels, int rows, int cols,
                                       int windowRows, int windowCols, int strideY, int strideX, int outCols, double epsilon, int size) {
	each(run, first, capacity, size, [&](int i) {
		int at = i / size * channels * rows + i % size / outCols * strideY;
		const float *corner = x + (at * cols + i % outCols * strideX);
		double sum = 0, squares = 0, n = channels * windowRows * windowCols;
#pragma unroll 1
		for (int c = 0; c < channels; c++)
#pragma unroll 1
			for (int v = 0; v < windowRows; v++)
#pragma unroll 1
				for (int u = 0; u < windowCols; u++) {
					double value = corner[(c * rows + v) * cols + u];
					sum += value;
					squares = fma(value, value, squares);
				}
		double mean = sum / n, variance = squares / n - mean * mean;
		y[i] = (float)sqrt((variance < 0 ? 0 : variance) + epsilon);
	});
}
