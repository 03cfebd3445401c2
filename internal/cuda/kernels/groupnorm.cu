#include "run.cuh"

static const int threads = 256;

// Group is one of one example: size elements from at on, in channels of so many positions.
struct Group {
	int b, group, at, size, channel, positions;
	bool live;
	__device__ __forceinline__ Group(const Run *run, int first, int capacity, int groups, int size, int positions) : size(size), positions(positions) {
		b = blockX(), group = blockY();
		live = b < liveRows(run, first, capacity);
		at = (b * groups + group) * size, channel = group * (size / positions);
	}
	// each does f(i, c) for the elements of a thread, which belong to channel c.
	template <class F> __device__ __forceinline__ void each(F f) const {
		for (int i = threadX(); i < size; i += threads)
			f(at + i, channel + i / positions);
	}
};

KERNEL __launch_bounds__(threads) group_norm(const Run *run, int first, int capacity, const float *x, const float *weight, const float *bias,
                                             float *y, double *moments, int groups, int size, int positions, double epsilon) {
	__shared__ double scratch[2][threads];
	Group g(run, first, capacity, groups, size, positions);
	if (!g.live)
		return;
	double sum = 0, squares = 0;
	g.each([&](int i, int) { sum += (double)x[i]; });
	double mean = blockSum<threads>(sum, scratch[0]) / (double)size;
	g.each([&](int i, int) {
		double d = (double)x[i] - mean;
		squares = fma(d, d, squares);
	});
	double scale = 1 / sqrt(blockSum<threads>(squares, scratch[1]) / (double)size + epsilon);
	g.each([&](int i, int c) {
		double v = ((double)x[i] - mean) * scale * (double)weight[c];
		y[i] = (float)(bias ? v + (double)bias[c] : v);
	});
	if (threadX() == 0) {
		double *m = moments + 2 * (g.b * groups + g.group);
		m[0] = mean, m[1] = scale;
	}
}

KERNEL __launch_bounds__(threads) group_norm_grad(const Run *run, int first, int capacity, const float *x, const float *dy, const float *weight,
                                                  const double *moments, float *dx, int add, int groups, int size, int positions) {
	__shared__ double scratch[2][threads];
	Group g(run, first, capacity, groups, size, positions);
	if (!g.live)
		return;
	const double *m = moments + 2 * (g.b * groups + g.group);
	double mean = m[0], scale = m[1], sum = 0, slope = 0;
	g.each([&](int i, int c) {
		double d = (double)dy[i] * (double)weight[c];
		sum += d;
		slope = fma(d, (double)x[i] - mean, slope);
	});
	sum = blockSum<threads>(sum, scratch[0]) / (double)size;
	slope = blockSum<threads>(slope, scratch[1]) / (double)size * scale * scale;
	g.each([&](int i, int c) {
		double d = (double)dy[i] * (double)weight[c] - sum - slope * ((double)x[i] - mean);
		float v = (float)(d * scale);
		dx[i] = add ? dx[i] + v : v;
	});
}

KERNEL __launch_bounds__(threads) group_norm_store(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                   const double *moments, float *kept, int stride, double *norm2, int bias, int groups,
                                                   int channels, int positions) {
	__shared__ double scratch[2][threads];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	double squares = 0;
	for (int c = 0; c < channels; c++) {
		const double *m = moments + 2 * (b * groups + c / (channels / groups));
		int at = (b * channels + c) * positions;
		double sum = 0, slope = 0;
		for (int i = threadX(); i < positions; i += threads) {
			double d = (double)dy[at + i];
			sum += d;
			slope = fma(d, (double)x[at + i] - m[0], slope);
		}
		barrier(); // the last channel's sums were read
		sum = blockSum<threads>(sum, scratch[0]);
		slope = blockSum<threads>(slope, scratch[1]);
		if (threadX() > 0)
			continue;
		float *to = kept + (int64)b * stride + c, g = (float)(slope * m[1]), s = (float)sum;
		*to = g;
		squares = fma((double)g, (double)g, squares);
		if (bias) {
			to[channels] = s;
			squares = fma((double)s, (double)s, squares);
		}
	}
	if (threadX() == 0)
		norm2[b] += squares;
}
