// Records of which several views go through the network: an example is a view, and a record's views lie one behind the other.
#include "run.cuh"

static const int threads = 256; // views.go has the same

// A unit has as many rows of the table as views, or one (unit).
KERNEL __launch_bounds__(threads) view_run(const Run *run, int capacity, int views, int unit, int words, Run *examples) {
	const int header = __builtin_offsetof(Run, rows) / 4;
	int i = index(), rows = liveRows(run, 0, capacity), live = rows * views;
	if (i < header)
		((uint32 *)examples)[i] = i == 0 ? (uint32)live : ((const uint32 *)run)[i];
	if (i >= live)
		return;
	examples->rows[i] = run->rows[i / views] * unit + i % unit;
	if (words)
		examples->rows[live + i] = run->rows[rows + i];
}

KERNEL __launch_bounds__(threads) view_targets(const Run *run, int first, int capacity, int views, const float *of, float *targets) {
	int b = index();
	if (b < capacity)
		targets[b] = b < liveRows(run, first, capacity) ? of[(int64)b * views] : quietNaN();
}

// A block has a record. The sum of so many views and its square are in float64, and what is kept is rounded once.
KERNEL __launch_bounds__(threads) view_mean(const Run *run, int first, int capacity, int views, int n, const float *of, int stride, float *kept,
                                            int keptStride, double *norm2) {
	__shared__ double scratch[threads];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	of += (int64)b * views * stride;
	kept += (int64)b * keptStride;
	double squares = 0;
	for (int i = threadX(); i < n; i += threads) {
		double sum = 0;
		for (int k = 0; k < views; k++)
			sum += (double)of[(int64)k * stride + i];
		float mean = (float)(sum / (double)views);
		kept[i] = mean;
		squares = fma((double)mean, (double)mean, squares);
	}
	if (!norm2)
		return;
	squares = blockSum<threads>(squares, scratch);
	if (threadX() == 0)
		norm2[b] += squares;
}
