// The ops of front ends that make every element of a few others. Planes and stretches of all examples lie one behind the other,
// so that most need not know where an example begins.
#include "each.cuh"

// mirrored is the place in a line of n that place i, which may lie less than n beyond its ends, mirrors.
static __device__ __forceinline__ int mirrored(int i, int n) {
	i = i < 0 ? -i : i;
	return i >= n ? 2 * (n - 1) - i : i;
}

KERNEL __launch_bounds__(256) reflect(const Run *run, int first, int capacity, const float *x, float *y, int rows, int cols, int top, int left,
                                      int outRows, int outCols, int size) {
	each(run, first, capacity, size, [&](int i) {
		int line = i / outCols, row = mirrored(line % outRows - top, rows), col = mirrored(i % outCols - left, cols);
		y[i] = x[(line / outRows * rows + row) * cols + col];
	});
}

// concat copies the stretches of one of the values that are joined: n elements each, to places at in stretches of all.
KERNEL __launch_bounds__(256) concat(const Run *run, int first, int capacity, const float *x, float *y, int n, int at, int all, int size) {
	each(run, first, capacity, size, [&](int i) { y[i / n * all + at + i % n] = x[i]; });
}

KERNEL __launch_bounds__(256) pick(const Run *run, int first, int capacity, const float *x, const int *list, float *y, int from, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = x[i / size * from + list[i % size]]; });
}

// Repeated is a constant that repeats along axes of (planes, rows, cols): those have the stride 0.
struct Repeated {
	const float *data; // or none
	int planes, rows, cols;
	__device__ __forceinline__ float at(int plane, int row, int col, float none) const {
		return data ? data[plane * planes + row * rows + col * cols] : none;
	}
};

KERNEL __launch_bounds__(256) affine(const Run *run, int first, int capacity, const float *x, const float *weight, int weightPlanes,
                                     int weightRows, int weightCols, const float *bias, int biasPlanes, int biasRows, int biasCols, float *y,
                                     int rows, int cols, int size) {
	Repeated w = {weight, weightPlanes, weightRows, weightCols}, b = {bias, biasPlanes, biasRows, biasCols};
	each(run, first, capacity, size, [&](int i) {
		int line = i % size / cols, plane = line / rows, row = line % rows, col = i % cols;
		y[i] = fmaf(x[i], w.at(plane, row, col, 1), b.at(plane, row, col, 0));
	});
}

KERNEL __launch_bounds__(256) divide(const Run *run, int first, int capacity, const float *x, const float *by, float *y, int plane, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = x[i] / by[i / size * plane + i % plane]; });
}

// modulus: n elements are real parts, and as many behind them imaginary parts.
KERNEL __launch_bounds__(256) modulus(const Run *run, int first, int capacity, const float *x, float *y, int n, int size) {
	each(run, first, capacity, size, [&](int i) {
		const float *z = x + (i / n * n + i);
		y[i] = sqrtf(fmaf(z[0], z[0], z[n] * z[n]));
	});
}
