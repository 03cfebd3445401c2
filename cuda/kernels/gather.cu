#include "run.cuh"

KERNEL __launch_bounds__(256) gather(const Run *run, int first, int capacity, const uint8 *table, const float *targets, int width,
                                     float scale, float offset, float *x, float *t) {
	int b = blockX(), j = blockY() * threadsX() + threadX();
	bool live = b < liveRows(run, first, capacity);
	int64 row = live ? run->rows[first + b] : 0;
	if (j < width)
		x[(int64)b * width + j] = live ? fmaf(table[row * width + j], scale, offset) : 0;
	if (j == 0)
		t[b] = live ? targets[row] : quietNaN();
}
