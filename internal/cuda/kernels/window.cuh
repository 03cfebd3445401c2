// What a pool's windows read of a plane.
#pragma once
#include "geometry.cuh"

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

// readersOf visits the positions that read a pixel, in order.
template <class F> static __device__ __forceinline__ void readersOf(const Geometry &g, int py, int px, F f) {
	Range y = readers(py, g.strideY, g.top, g.windowRows, g.outRows), x = readers(px, g.strideX, g.left, g.windowCols, g.outCols);
	for (int i = y.lo; i < y.hi; i++)
		for (int j = x.lo; j < x.hi; j++)
			f(i, j);
}
