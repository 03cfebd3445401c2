// What is around the products that a library multiplies.
#include "run.cuh"

static const int threads = 256;

// counts says whether an example is part of the sum. What the others hold may be no number, and that times zero is none
// either: they become zeros on both sides of the product.
static __device__ __forceinline__ bool counts(int b, int live, const float *factors) { return b < live && factors[b] > 0; }

KERNEL __launch_bounds__(threads) product_deltas(const Run *run, int first, int capacity, int rows, const float *dy, const float *factors,
                                                 int out, float *to, int line) {
	int e = index();
	if (e >= rows * line)
		return;
	int b = e / line, o = e % line;
	float scaled = 0;
	if (o < out && counts(b, liveRows(run, first, capacity), factors))
		scaled = factors[b] * dy[b * out + o];
	to[e] = fabsf(scaled) <= 3.402823466e38f ? scaled : 0; // as in dense_sum
}

KERNEL __launch_bounds__(threads) product_inputs(const Run *run, int first, int capacity, int rows, const float *x, const float *factors,
                                                 int in, int cols, float *to, int line) {
	int e = index();
	if (e >= rows * line)
		return;
	int b = e / line, i = e % line;
	float value = 0;
	if (i < cols && counts(b, liveRows(run, first, capacity), factors))
		value = i < in ? x[b * in + i] : 1;
	to[e] = value;
}

KERNEL __launch_bounds__(threads) product_sum(const float *products, int blocks, int out, int in, int cols, int line, double *sumW,
                                              double *sumB) {
	int e = index();
	if (e >= out * cols)
		return;
	int o = e / cols, i = e % cols;
	const float *block = products + (int64)o * line + i;
	double total = 0;
	for (int j = 0; j < blocks; j++)
		total += block[(int64)j * out * line];
	double *to = i < in ? sumW + (int64)o * in + i : sumB + o;
	*to += total;
}

KERNEL __launch_bounds__(threads) product_bias(const Run *run, int first, int capacity, const float *bias, float *y, int out) {
	int e = index();
	if (e < liveRows(run, first, capacity) * out)
		y[e] += bias[e % out];
}
