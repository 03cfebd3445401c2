#include "activation.cuh"
#include "run.cuh"
#include "tile.cuh"
#include "window.cuh"

// Every kernel has three forms (pool.go chooses). In that of any geometry, and in those of a square window and a stride that are constants, without
// padding, a thread has an element; with constants nothing is a loop, and all that a thread needs is read at once. Where 2×2 windows
// fill the image side by side, a thread has two of them.

// Element is one of all examples' outputs, or inputs: its plane counts channels of all examples.
struct Element {
	int n, plane, y, x;
	bool live;
	__device__ __forceinline__ Element(const Run *run, int first, int capacity, int channels, int rows, int cols) {
		n = index();
		live = n < liveRows(run, first, capacity) * channels * rows * cols;
		uint32 line = (uint32)n / (uint32)cols;
		plane = (int)(line / (uint32)rows);
		y = (int)line - plane * rows, x = n - (int)line * cols;
	}
};

// Pair is two windows of 2×2 that lie side by side, in rows of four pixels. Rows count those of all planes, two by two.
struct Pair {
	int pixel, output, cols; // the first ones, and a line's length
	bool live;
	__device__ __forceinline__ Pair(const Run *run, int first, int capacity, const Geometry &g) : cols(g.cols) {
		uint32 n = (uint32)index(), wide = (uint32)g.cols / 4, row = n / wide;
		live = (int)n < liveRows(run, first, capacity) * (g.image() / 8);
		output = 2 * (int)n;
		pixel = 4 * (int)(n + row * wide);
	}
	__device__ __forceinline__ void read(const float *image, float (&windows)[2][4]) const {
		float4 a = four(image + pixel), b = four(image + pixel + cols);
		windows[0][0] = a.x, windows[0][1] = a.y, windows[0][2] = b.x, windows[0][3] = b.y;
		windows[1][0] = a.z, windows[1][1] = a.w, windows[1][2] = b.z, windows[1][3] = b.w;
	}
	__device__ __forceinline__ void write(float *image, const float (&w)[2][4]) const {
		*(float4 *)(image + pixel) = float4{w[0][0], w[0][1], w[1][0], w[1][1]};
		*(float4 *)(image + pixel + cols) = float4{w[0][2], w[0][3], w[1][2], w[1][3]};
	}
};

typedef float float2 __attribute__((ext_vector_type(2)));

// largestOf is the first place of a window, in lines of that length, that no later one exceeds.
template <int WINDOW> static __device__ __forceinline__ int largestOf(const float *window, int line) {
	int best = 0;
	float most = window[0];
#pragma unroll
	for (int k = 1; k < WINDOW * WINDOW; k++) {
		int at = k / WINDOW * line + k % WINDOW;
		if (window[at] > most)
			most = window[at], best = at;
	}
	return best;
}

template <int WINDOW> static __device__ __forceinline__ float maximum(const float *window) {
	float most = window[0];
#pragma unroll
	for (int k = 1; k < WINDOW * WINDOW; k++)
		most = window[k] > most ? window[k] : most;
	return most;
}

template <int WINDOW> static __device__ __forceinline__ float mean(const float *window) {
	float sum = 0;
#pragma unroll
	for (int k = 0; k < WINDOW * WINDOW; k++)
		sum += window[k];
	return sum / (float)(WINDOW * WINDOW);
}

// forward is what all forward kernels but those of any geometry do: f makes an output of a window.
template <int WINDOW, int STRIDE, class F>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, const float *x, float *y, const Geometry &g, F f) {
	Element e(run, first, capacity, g.channels, g.outRows, g.outCols);
	if (!e.live)
		return;
	const float *corner = x + (e.plane * g.rows + e.y * STRIDE) * g.cols + e.x * STRIDE;
	float window[WINDOW * WINDOW];
#pragma unroll
	for (int k = 0; k < WINDOW * WINDOW; k++)
		window[k] = corner[k / WINDOW * g.cols + k % WINDOW];
	y[e.n] = f(window);
}

template <class F>
static __device__ __forceinline__ void forwardPair(const Run *run, int first, int capacity, const float *x, float *y, const Geometry &g, F f) {
	Pair p(run, first, capacity, g);
	if (!p.live)
		return;
	float windows[2][4];
	p.read(x, windows);
	*(float2 *)(y + p.output) = float2{f(windows[0]), f(windows[1])};
}

// Readers are the windows that may read a pixel.
template <int WINDOW, int STRIDE> struct Readers {
	static constexpr int COUNT = (WINDOW + STRIDE - 1) / STRIDE; // in each direction
	static constexpr int SIDE = (COUNT - 1) * STRIDE + WINDOW;   // of what they read
	int y, x;                                                    // the first of them, perhaps outside
	__device__ __forceinline__ Readers(const Element &e) : y(e.y / STRIDE - (COUNT - 1)), x(e.x / STRIDE - (COUNT - 1)) {}

	// visit calls f(i, j, position, place) for the window i, j of them if it reads the pixel, which has this place in lines of SIDE from
	// the window's corner on.
	template <class F> __device__ __forceinline__ void visit(const Geometry &g, const Element &e, F f) const {
#pragma unroll
		for (int i = 0; i < COUNT; i++)
#pragma unroll
			for (int j = 0; j < COUNT; j++) {
				int py = y + i, px = x + j, dy = e.y - py * STRIDE, dx = e.x - px * STRIDE;
				if ((unsigned)py < (unsigned)g.outRows && (unsigned)px < (unsigned)g.outCols && dy < WINDOW && dx < WINDOW)
					f(i, j, py * g.outCols + px, dy * SIDE + dx);
			}
	}
};

template <int WINDOW, int STRIDE>
static __device__ __forceinline__ void maxGrad(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx, int add,
                                               int act, const Geometry &g) {
	typedef Readers<WINDOW, STRIDE> R;
	Element e(run, first, capacity, g.channels, g.rows, g.cols);
	if (!e.live)
		return;
	R r(e);
	const float *plane = x + e.plane * g.rows * g.cols, *gradient = dy + e.plane * g.positions();
	float seen[R::SIDE * R::SIDE]; // outside of the image any pixel, for windows that are none
#pragma unroll
	for (int i = 0; i < R::SIDE; i++)
#pragma unroll
		for (int j = 0; j < R::SIDE; j++)
			seen[i * R::SIDE + j] = plane[min(max(r.y * STRIDE + i, 0), g.rows - 1) * g.cols + min(max(r.x * STRIDE + j, 0), g.cols - 1)];
	float sum = add ? dx[e.n] : 0;
	r.visit(g, e, [&](int i, int j, int position, int place) INLINE {
		if (largestOf<WINDOW>(seen + (i * R::SIDE + j) * STRIDE, R::SIDE) == place)
			sum += gradient[position];
	});
	dx[e.n] = passBack(act, x[e.n], sum);
}

template <int WINDOW, int STRIDE>
static __device__ __forceinline__ void meanGrad(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx, int add,
                                                int act, const Geometry &g) {
	Element e(run, first, capacity, g.channels, g.rows, g.cols);
	if (!e.live)
		return;
	const float *gradient = dy + e.plane * g.positions();
	float sum = 0;
	Readers<WINDOW, STRIDE>(e).visit(g, e, [&](int, int, int position, int) INLINE { sum += gradient[position]; });
	sum /= (float)(WINDOW * WINDOW);
	sum = add ? dx[e.n] + sum : sum;
	dx[e.n] = act ? passBack(act, x[e.n], sum) : sum;
}

// The forms of a constant window and stride.
#define SQUARE(WINDOW, STRIDE)                                                                                                             \
	KERNEL __launch_bounds__(256) max_pool_##WINDOW##_##STRIDE(const Run *run, int first, int capacity, const float *x, float *y, GEOMETRY) { \
		Geometry g = GEOMETRY_VALUES;                                                                                                      \
		forward<WINDOW, STRIDE>(run, first, capacity, x, y, g, [](const float *w) INLINE { return maximum<WINDOW>(w); });                  \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256) avg_pool_##WINDOW##_##STRIDE(const Run *run, int first, int capacity, const float *x, float *y, GEOMETRY) { \
		Geometry g = GEOMETRY_VALUES;                                                                                                      \
		forward<WINDOW, STRIDE>(run, first, capacity, x, y, g, [](const float *w) INLINE { return mean<WINDOW>(w); });                     \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256, 4) max_pool_grad_##WINDOW##_##STRIDE(const Run *run, int first, int capacity, const float *x,            \
	                                                                   const float *dy, float *dx, int add, int act, GEOMETRY) {           \
		Geometry g = GEOMETRY_VALUES;                                                                                                      \
		maxGrad<WINDOW, STRIDE>(run, first, capacity, x, dy, dx, add, act, g);                                                             \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256) avg_pool_grad_##WINDOW##_##STRIDE(const Run *run, int first, int capacity, const float *x,               \
	                                                                const float *dy, float *dx, int add, int act, GEOMETRY) {              \
		Geometry g = GEOMETRY_VALUES;                                                                                                      \
		meanGrad<WINDOW, STRIDE>(run, first, capacity, x, dy, dx, add, act, g);                                                            \
	}
SQUARE(2, 1)
SQUARE(2, 2)
SQUARE(3, 2)

// The forms of 2×2 windows that fill the image.

KERNEL __launch_bounds__(256) max_pool_pair(const Run *run, int first, int capacity, const float *x, float *y, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	forwardPair(run, first, capacity, x, y, g, [](const float *w) INLINE { return maximum<2>(w); });
}

KERNEL __launch_bounds__(256) avg_pool_pair(const Run *run, int first, int capacity, const float *x, float *y, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	forwardPair(run, first, capacity, x, y, g, [](const float *w) INLINE { return mean<2>(w); });
}

KERNEL __launch_bounds__(256) max_pool_grad_pair(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx, int add,
                                                 int act, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Pair p(run, first, capacity, g);
	if (!p.live)
		return;
	float windows[2][4], sums[2][4] = {};
	p.read(x, windows);
	if (add)
		p.read(dx, sums);
	float2 d = *(const float2 *)(dy + p.output);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		int best = largestOf<2>(windows[i], 2);
#pragma unroll
		for (int k = 0; k < 4; k++)
			sums[i][k] = passBack(act, windows[i][k], k == best ? sums[i][k] + (i ? d.y : d.x) : sums[i][k]);
	}
	p.write(dx, sums);
}

KERNEL __launch_bounds__(256) avg_pool_grad_pair(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx, int add,
                                                 int act, GEOMETRY) {
	Geometry g = GEOMETRY_VALUES;
	Pair p(run, first, capacity, g);
	if (!p.live)
		return;
	float windows[2][4] = {}, sums[2][4] = {};
	float2 d = *(const float2 *)(dy + p.output);
	if (add)
		p.read(dx, sums);
	if (act)
		p.read(x, windows);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		float share = (0 + (i ? d.y : d.x)) / 4;
#pragma unroll
		for (int k = 0; k < 4; k++)
			sums[i][k] = passBack(act, windows[i][k], add ? sums[i][k] + share : share);
	}
	p.write(dx, sums);
}

// The forms of any geometry.

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
