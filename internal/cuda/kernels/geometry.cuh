// The geometry of a convolution or a pool, as conv.go passes it: a kernel has the parameters GEOMETRY and says
// Geometry g = GEOMETRY_VALUES.
#pragma once
#include "common.cuh"

#define GEOMETRY                                                                                                                           \
	int channels, int rows, int cols, int out, int outRows, int outCols, int windowRows, int windowCols, int strideY, int strideX, int top, \
	    int left, int dilationY, int dilationX
#define GEOMETRY_VALUES                                                                                                                    \
	{ channels, rows, cols, out, outRows, outCols, windowRows, windowCols, strideY, strideX, top, left, dilationY, dilationX }

struct Geometry {
	int channels, rows, cols;
	int out, outRows, outCols;
	int windowRows, windowCols, strideY, strideX, top, left, dilationY, dilationX;

	__device__ __forceinline__ int image() const { return channels * rows * cols; }
	__device__ __forceinline__ int positions() const { return outRows * outCols; }
	__device__ __forceinline__ int taps() const { return channels * windowRows * windowCols; }
	__device__ __forceinline__ bool inside(int y, int x) const { return (unsigned)y < (unsigned)rows && (unsigned)x < (unsigned)cols; }
};

// Tap is a filter's place relative to a position's corner.
struct Tap {
	int plane, y, x;
	__device__ __forceinline__ Tap() {}
	__device__ __forceinline__ Tap(const Geometry &g, int k) {
		int area = g.windowRows * g.windowCols, at = k % area;
		plane = k / area * g.rows * g.cols;
		y = at / g.windowCols * g.dilationY - g.top;
		x = at % g.windowCols * g.dilationX - g.left;
	}

	// next is tap k+1.
	__device__ __forceinline__ void next(const Geometry &g) {
		x += g.dilationX;
		if (x == g.windowCols * g.dilationX - g.left) {
			x = -g.left;
			y += g.dilationY;
		}
		if (y == g.windowRows * g.dilationY - g.top) {
			y = -g.top;
			plane += g.rows * g.cols;
		}
	}
};

// Corner is where a position's window begins in an image without padding.
struct Corner {
	int y, x;
	__device__ __forceinline__ Corner() {}
	__device__ __forceinline__ Corner(const Geometry &g, int position)
	    : y(position / g.outCols * g.strideY), x(position % g.outCols * g.strideX) {}
};

// column is what a position reads through a tap.
static __device__ __forceinline__ float column(const Geometry &g, const float *image, Corner c, Tap t) {
	int y = c.y + t.y, x = c.x + t.x;
	return g.inside(y, x) ? image[t.plane + y * g.cols + x] : 0;
}

// Phase is one axis of the pixels i = at, at + stride, … of an image: all of them are read through the same taps, first,
// first + step, …, and pixel n of the phase through the k-th by output position start(n) − k·back.
struct Phase {
	int at, pixels, first, step, taps, back;
	int stride, offset;
	__device__ __forceinline__ Phase(int at, int size, int stride, int padding, int window, int dilation) : at(at), stride(stride) {
		pixels = at < size ? (size - at + stride - 1) / stride : 0;
		step = 1;
		while (step * dilation % stride != 0)
			step++;
		first = 0;
		while (first < step && (at + padding - first * dilation) % stride != 0)
			first++;
		taps = first < step ? (window - first + step - 1) / step : 0;
		back = step * dilation / stride;
		offset = (at + padding - first * dilation) / stride;
	}
	__device__ __forceinline__ int start(int n) const { return offset + n; }
};

// place is where filter o's value of column k stands: weights, then biases.
static __device__ __forceinline__ int place(const Geometry &g, int o,
                                            int k) { return k < g.taps() ? o * g.taps() + k : g.taps() * g.out + o; }
