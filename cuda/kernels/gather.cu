#include "run.cuh"
#include "table.cuh"

KERNEL __launch_bounds__(256) gather(const Run *run, int first, int capacity, const void *values, const float *targets, int form, int width,
                                     float scale, float offset, float *x, float *t) {
	Table table = {values, targets, form, width, scale, offset};
	int b = blockX(), j = blockY() * threadsX() + threadX();
	bool live = b < liveRows(run, first, capacity);
	int64 row = live ? run->rows[first + b] : 0;
	float target = live ? targets[row] : quietNaN();
	if (j < width)
		x[(int64)b * width + j] = live ? table.read(row, j, target) : 0;
	if (j == 0)
		t[b] = target;
}
