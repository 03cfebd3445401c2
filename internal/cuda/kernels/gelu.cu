#include "each.cuh"
#include "gelu.cuh"

KERNEL __launch_bounds__(256) gelu_forward(const Run *run, int first, int capacity, const float *x, float *y, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = gelu(x[i]); });
}

KERNEL __launch_bounds__(256) gelu_grad(const Run *run, int first, int capacity, const float *x, const float *dy, float *dx, int add, int size) {
	each(run, first, capacity, size, [&](int i) { put(dx + i, dy[i] * slope(x[i]), add); });
}
