#include "activation.cuh"
#include "geometry.cuh"
#include "run.cuh"

// Range is the part of an axis of the image that a position's window reads, and back: the positions that read a pixel.
struct Range {
	int lo, hi;
};

static __device__ __forceinline__ Range read(int position, int stride, int padding, int window, int size) {
	int at = position * stride - padding;
	return {max(at, 0), min(at + window, size)};
}

static __device__ __forceinline__ Range readers(int pixel, int stride, int padding, int window, int count) {
	int at = pixel + padding, least = at - window + 1;
	return {least > 0 ? (least + stride - 1) / stride : 0, min(at / stride + 1, count)};
}

// window visits the pixels that position (py, px) reads in row-major order.
template <class F> static __device__ __forceinline__ void window(const Geometry &g, int py, int px, F f) {
	Range y = read(py, g.strideY, g.top, g.windowRows, g.rows), x = read(px, g.strideX, g.left, g.windowCols, g.cols);
#pragma unroll 1
	for (int i = y.lo; i < y.hi; i++)
#pragma unroll 1
		for (int j = x.lo; j < x.hi; j++)
			f(i * g.cols + j);
}

// largest is the first pixel that no later one exceeds.
static __device__ __forceinline__ int largest(const Geometry &g, const float *plane, int py, int px) {
	int best = -1;
	window(g, py, px, [&](int at) {
		if (best < 0 || plane[at] > plane[best])
			best = at;
	});
	return best;
}

// Element is one of all examples' outputs, or inputs: its plane counts channels of all examples.
struct Element {
	int n, plane, y, x;
	bool live;
	__device__ __forceinline__ Element(const Run *run, int first, int capacity, int channels, int rows, int cols) {
		n = index();
		live = n < liveRows(run, first, capacity) * channels * rows * cols;
		plane = n / (rows * cols);
		y = n % (rows * cols) / cols, x = n % cols;
	}
};

KERNEL __launch_bounds__(256) max_pool(const Run *run, int first, int capacity, const float *x, float *y, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Element e(run, first, capacity, g.channels, g.outRows, g.outCols);
	if (!e.live)
		return;
	const float *plane = x + e.plane * g.rows * g.cols;
	y[e.n] = plane[largest(g, plane, e.y, e.x)];
}

KERNEL __launch_bounds__(256) avg_pool(const Run *run, int first, int capacity, const float *x, float *y, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Element e(run, first, capacity, g.channels, g.outRows, g.outCols);
	if (!e.live)
		return;
	const float *plane = x + e.plane * g.rows * g.cols;
	float sum = 0;
	window(g, e.y, e.x, [&](int at) { sum += plane[at]; });
	y[e.n] = sum / (float)(g.windowRows * g.windowCols);
}

// readersOf visits the positions that read a pixel, in order.
template <class F> static __device__ __forceinline__ void readersOf(const Geometry &g, const Element &e, F f) {
	Range y = readers(e.y, g.strideY, g.top, g.windowRows, g.outRows), x = readers(e.x, g.strideX, g.left, g.windowCols, g.outCols);
	for (int i = y.lo; i < y.hi; i++)
		for (int j = x.lo; j < x.hi; j++)
			f(i, j);
}

// With the second bound registers are given rather than spilled.
KERNEL __launch_bounds__(256, 4) max_pool_grad(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx,
                                               int add, int act, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Element e(run, first, capacity, g.channels, g.rows, g.cols);
	if (!e.live)
		return;
	const float *plane = x + e.plane * g.rows * g.cols, *gradient = dy + e.plane * g.positions();
	float sum = add ? dx[e.n] : 0;
	readersOf(g, e, [&](int i, int j) {
		if (largest(g, plane, i, j) == e.y * g.cols + e.x)
			sum += gradient[i * g.outCols + j];
	});
	dx[e.n] = passBack(act, x[e.n], sum);
}

KERNEL __launch_bounds__(256) avg_pool_grad(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx,
                                            int add, int act, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Element e(run, first, capacity, g.channels, g.rows, g.cols);
	if (!e.live)
		return;
	const float *gradient = dy + e.plane * g.positions();
	float sum = 0;
	readersOf(g, e, [&](int i, int j) { sum += gradient[i * g.outCols + j]; });
	sum /= (float)(g.windowRows * g.windowCols);
	sum = add ? dx[e.n] + sum : sum;
	dx[e.n] = act ? passBack(act, x[e.n], sum) : sum;
}
