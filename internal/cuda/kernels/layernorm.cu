#include "lanes.cuh"
#include "run.cuh"

static const int threads = 256; // layernorm.go has the same

// Line is a row of an example: size elements that LANES lanes share, those of a warp or of a block.
template <int LANES> struct Line {
	int row, at, size, lane;
	bool live;
	__device__ __forceinline__ Line(const Run *run, int first, int capacity, int rows, int size) : size(size) {
		row = blockX() * (threads / LANES) + threadX() / LANES, lane = threadX() % LANES;
		live = row < liveRows(run, first, capacity) * rows;
		at = row * size;
	}
	// each does f(i, j) for a lane's elements i of the batch, which are elements j of the row.
	template <class F> __device__ __forceinline__ void each(F f) const {
		for (int j = lane; j < size; j += LANES)
			f(at + j, j);
	}
	// sum adds one value a lane; all lanes have it.
	__device__ __forceinline__ double sum(double x, double *scratch) const {
		if constexpr (LANES == 32)
			return laneSum(x);
		else
			return blockSum<threads>(x, scratch);
	}
};

template <int LANES>
static __device__ __forceinline__ void layerNorm(const Line<LANES> &l, double *scratch0, double *scratch1, const float *x, const float *weight,
                                                 const float *bias, float *y, double *moments, double epsilon) {
	if (!l.live)
		return;
	double sum = 0, squares = 0;
	l.each([&](int i, int) { sum += (double)x[i]; });
	double mean = l.sum(sum, scratch0) / (double)l.size;
	l.each([&](int i, int) {
		double d = (double)x[i] - mean;
		squares = fma(d, d, squares);
	});
	double scale = 1 / sqrt(l.sum(squares, scratch1) / (double)l.size + epsilon);
	l.each([&](int i, int j) {
		double v = ((double)x[i] - mean) * scale * (double)weight[j];
		y[i] = (float)(bias ? v + (double)bias[j] : v);
	});
	if (l.lane == 0) {
		double *m = moments + 2 * (int64)l.row;
		m[0] = mean, m[1] = scale;
	}
}

template <int LANES>
static __device__ __forceinline__ void layerNormGrad(const Line<LANES> &l, double *scratch0, double *scratch1, const float *x, const float *dy,
                                                     const float *weight, const double *moments, float *dx, int add) {
	if (!l.live)
		return;
	const double *m = moments + 2 * (int64)l.row;
	double mean = m[0], scale = m[1], sum = 0, slope = 0;
	l.each([&](int i, int j) {
		double d = (double)dy[i] * (double)weight[j];
		sum += d;
		slope = fma(d, (double)x[i] - mean, slope);
	});
	sum = l.sum(sum, scratch0) / (double)l.size;
	slope = l.sum(slope, scratch1) / (double)l.size * scale * scale;
	l.each([&](int i, int j) {
		double d = (double)dy[i] * (double)weight[j] - sum - slope * ((double)x[i] - mean);
		float v = (float)(d * scale);
		dx[i] = add ? dx[i] + v : v;
	});
}

KERNEL __launch_bounds__(threads) layer_norm_32(const Run *run, int first, int capacity, const float *x, const float *weight, const float *bias,
                                                float *y, double *moments, int rows, int size, double epsilon) {
	layerNorm(Line<32>(run, first, capacity, rows, size), nullptr, nullptr, x, weight, bias, y, moments, epsilon);
}

KERNEL __launch_bounds__(threads) layer_norm_256(const Run *run, int first, int capacity, const float *x, const float *weight, const float *bias,
                                                 float *y, double *moments, int rows, int size, double epsilon) {
	__shared__ double scratch[2][threads];
	layerNorm(Line<256>(run, first, capacity, rows, size), scratch[0], scratch[1], x, weight, bias, y, moments, epsilon);
}

KERNEL __launch_bounds__(threads) layer_norm_grad_32(const Run *run, int first, int capacity, const float *x, const float *dy, const float *weight,
                                                     const double *moments, float *dx, int add, int rows, int size) {
	layerNormGrad(Line<32>(run, first, capacity, rows, size), nullptr, nullptr, x, dy, weight, moments, dx, add);
}

KERNEL __launch_bounds__(threads) layer_norm_grad_256(const Run *run, int first, int capacity, const float *x, const float *dy, const float *weight,
                                                      const double *moments, float *dx, int add, int rows, int size) {
	__shared__ double scratch[2][threads];
	layerNormGrad(Line<256>(run, first, capacity, rows, size), scratch[0], scratch[1], x, dy, weight, moments, dx, add);
}

// A block has an example. Groups of its threads share the rows, and the threads of a group the elements, as many at a time as they are.
template <int GROUPS>
static __device__ __forceinline__ void layerNormStore(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                      const double *moments, float *kept, int stride, double *norm2, int bias, int rows, int size) {
	__shared__ double scratch[3][threads];
	const int lanes = threads / GROUPS;
	int b = blockX(), lane = threadX() % lanes, group = threadX() / lanes;
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * rows * size, dy += b * rows * size;
	moments += 2 * (int64)(b * rows), kept += (int64)b * stride;
	double squares = 0;
#pragma unroll 1
	for (int begin = 0; begin < size; begin += lanes) {
		int j = begin + lane;
		double slope = 0, sum = 0;
		for (int r = group; r < rows && j < size; r += GROUPS) {
			const double *m = moments + 2 * (int64)r;
			double d = (double)dy[r * size + j];
			sum += d;
			slope = fma(d, ((double)x[r * size + j] - m[0]) * m[1], slope);
		}
		if constexpr (GROUPS > 1) {
			barrier(); // the last elements' sums were read
			scratch[0][threadX()] = slope, scratch[1][threadX()] = sum;
			barrier();
			if (group > 0)
				continue;
#pragma unroll
			for (int g = 1; g < GROUPS; g++)
				slope += scratch[0][g * lanes + lane], sum += scratch[1][g * lanes + lane];
		}
		if (j >= size)
			continue;
		float g = (float)slope, s = (float)sum;
		kept[j] = g;
		squares = fma((double)g, (double)g, squares);
		if (bias) {
			kept[size + j] = s;
			squares = fma((double)s, (double)s, squares);
		}
	}
	squares = blockSum<threads>(squares, scratch[2]);
	if (threadX() == 0)
		norm2[b] += squares;
}

KERNEL __launch_bounds__(threads) layer_norm_store_1(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                     const double *moments, float *kept, int stride, double *norm2, int bias, int rows, int size) {
	layerNormStore<1>(run, first, capacity, x, dy, moments, kept, stride, norm2, bias, rows, size);
}

KERNEL __launch_bounds__(threads) layer_norm_store_8(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                     const double *moments, float *kept, int stride, double *norm2, int bias, int rows, int size) {
	layerNormStore<8>(run, first, capacity, x, dy, moments, kept, stride, norm2, bias, rows, size);
}
