#include "drawn.cuh"
#include "gather.cuh"
#include "run.cuh"
#include "tile.cuh"

KERNEL __launch_bounds__(256) gather(const Run *run, int first, int capacity, TABLE, float *x, float *t) {
	Table table = TABLE_ARGUMENTS;
	int b = blockX(), j = 4 * (blockY() * threadsX() + threadX());
	bool live = b < liveRows(run, first, capacity);
	int64 row = live ? run->rows[first + b] : 0;
	float target = live ? targets[row] : quietNaN();
	x += (int64)b * width + j;
	if (width % 4 == 0 && j < width) {
		*(float4 *)x = table.readFour(live, row, j, target);
	} else {
		for (int k = 0; k < min(4, width - j); k++)
			x[k] = live ? table.read(row, j + k, target) : 0;
	}
	if (j == 0)
		t[b] = target;
}

KERNEL __launch_bounds__(256) gather_view(const Run *run, int first, int capacity, TABLE, DRAWN, float *x, float *t) {
	Table table = TABLE_ARGUMENTS;
	Drawn drawn = DRAWN_ARGUMENTS;
	int b = blockX(), j = blockY() * threadsX() + threadX();
	bool live = b < liveRows(run, first, capacity);
	int64 row = live ? run->rows[first + b] : 0;
	float target = live ? targets[row] : quietNaN();
	if (j < width)
		x[(int64)b * width + j] = live ? table.read(row, drawn.from(j, wordOf(run, first + b)), target) : 0;
	if (j == 0)
		t[b] = target;
}
