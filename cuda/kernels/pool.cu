#include "activation.cuh"
#include "run.cuh"
#include "window.cuh"

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

// With the second bound registers are given rather than spilled.
KERNEL __launch_bounds__(256, 4) max_pool_grad(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx,
                                               int add, int act, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Element e(run, first, capacity, g.channels, g.rows, g.cols);
	if (!e.live)
		return;
	const float *plane = x + e.plane * g.rows * g.cols, *gradient = dy + e.plane * g.positions();
	float sum = add ? dx[e.n] : 0;
	readersOf(g, e.y, e.x, [&](int i, int j) {
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
	readersOf(g, e.y, e.x, [&](int i, int j) { sum += gradient[i * g.outCols + j]; });
	sum /= (float)(g.windowRows * g.windowCols);
	sum = add ? dx[e.n] + sum : sum;
	dx[e.n] = act ? passBack(act, x[e.n], sum) : sum;
}
