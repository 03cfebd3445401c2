#include "grid.cuh"
#include "run.cuh"
#include "target.cuh"

static const int threads = 256, columns = 32, rows = 16;

// integer is a gradient's value as an integer. Its two operations are each rounded once, so that the integers whose
// norm was checked are those that are summed.
static __device__ int64 integer(float x, double scale) { return (int64)((double)x * scale); }

// squares is the squared norm of n values, added as host.Scale does: element i in chain i mod 4, in order. The block's first
// warp adds one tile while the others square the next; all threads have the sum.
static __device__ double squares(const float *x, int n) {
	const int tile = 1024, chains = 4, warp = 32;
	__shared__ double buffers[2][tile], sums[chains];
	int t = threadX();
	double sum = 0;
	for (int begin = -tile, turn = 0; begin < n; begin += tile, turn ^= 1) {
		int next = begin + tile;
		for (int i = t - warp; t >= warp && i < min(tile, n - next); i += threads - warp)
			buffers[turn][i] = (double)x[next + i] * (double)x[next + i];
		for (int i = t; t < chains && begin >= 0 && i < min(tile, n - begin); i += chains)
			sum += buffers[turn ^ 1][i];
		barrier();
	}
	if (t < chains)
		sums[t] = sum;
	barrier();
	return sums[0] + sums[1] + (sums[2] + sums[3]);
}

KERNEL __launch_bounds__(threads) grid_scale(const Run *run, int first, int capacity, const float *kept, int stride, int n, int loss,
              int outputs, const float *targets, double *scales) {
	__shared__ uint64 sums[threads];
	int b = blockX(), t = threadX();
	kept += (int64)b * stride;
	if (b >= liveRows(run, first, capacity) || !accepted(loss, outputs, targets[b])) {
		if (t == 0)
			scales[b] = 0;
		return;
	}
	double norm2 = squares(kept, n);
	if (!finite(norm2)) {
		if (t == 0)
			scales[b] = 0;
		return;
	}
	// Aiming inside the bound, no rounding zeroes an example.
	Grid g = gridOf(run->scalars[slot::Clip]);
	double norm = sqrt(norm2), aim = (double)run->scalars[slot::Clip] * (1 - 0x1p-20), scale = 1 / g.step;
	if (norm > aim)
		scale *= aim / norm;
	// |k| < 2^22: no value is above the norm. Beyond the bound it does not matter by how much.
	uint64 most = 0;
	for (int i = t; i < n; i += threads) {
		int64 k = integer(kept[i], scale);
		most += (uint64)(k * k);
		if (most > g.most2)
			most = g.most2 + 1;
	}
	sums[t] = most;
	barrier();
	for (int half = threads / 2; half > 0; half /= 2) {
		if (t < half)
			sums[t] += sums[t + half]; // below 2^8 times 2^43 at the end
		barrier();
	}
	if (t == 0)
		scales[b] = sums[0] <= g.most2 ? scale : 0;
}

KERNEL __launch_bounds__(columns * rows) grid_combine(const Run *run, int first, int capacity, const double *scales,
              const float *kept, int stride, int n, int64 *sum) {
	__shared__ int64 parts[rows][columns];
	int column = threadX() % columns, row = threadX() / columns, i = blockX() * columns + column;
	int live = liveRows(run, first, capacity);
	int64 part = 0;
	if (i < n)
#pragma unroll 4
		for (int b = row; b < live; b += rows) { // reads do not wait for scales
			double s = scales[b];
			float x = kept[(int64)b * stride + i];
			if (s > 0)
				part += integer(x, s);
		}
	parts[row][column] = part;
	barrier();
	if (row > 0 || i >= n)
		return;
	for (int j = 1; j < rows; j++)
		part += parts[j][column];
	sum[i] += part;
}
