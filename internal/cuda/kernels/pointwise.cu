#include "activation.cuh"
#include "each.cuh"

KERNEL __launch_bounds__(256) relu_forward(const Run *run, int first, int capacity, const float *x, float *y, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = relu(x[i]); });
}

KERNEL __launch_bounds__(256) tanh_forward(const Run *run, int first, int capacity, const float *x, float *y, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = tanh(x[i]); });
}

KERNEL __launch_bounds__(256) sigmoid_forward(const Run *run, int first, int capacity, const float *x, float *y, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = sigmoid(x[i]); });
}

KERNEL __launch_bounds__(256) leakyrelu_forward(const Run *run, int first, int capacity, const float *x, float *y, float slope, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = x[i] < 0 ? slope * x[i] : x[i]; });
}

KERNEL __launch_bounds__(256) leakyrelu_grad(const Run *run, int first, int capacity, const float *y, const float *dy, float *dx, int add,
                                             float slope, int size) {
	each(run, first, capacity, size, [&](int i) { put(dx + i, y[i] > 0 ? dy[i] : slope * dy[i], add); });
}

KERNEL __launch_bounds__(256) relu_grad(const Run *run, int first, int capacity, const float *y, const float *dy, float *dx, int add,
                                        int size) {
	each(run, first, capacity, size, [&](int i) { put(dx + i, passBack(ReLU, y[i], dy[i]), add); });
}

KERNEL __launch_bounds__(256) tanh_grad(const Run *run, int first, int capacity, const float *y, const float *dy, float *dx, int add,
                                        int size) {
	each(run, first, capacity, size, [&](int i) { put(dx + i, passBack(Tanh, y[i], dy[i]), add); });
}

KERNEL __launch_bounds__(256) sigmoid_grad(const Run *run, int first, int capacity, const float *y, const float *dy, float *dx, int add,
                                           int size) {
	each(run, first, capacity, size, [&](int i) { put(dx + i, passBack(Sigmoid, y[i], dy[i]), add); });
}

KERNEL __launch_bounds__(256) add(const Run *run, int first, int capacity, const float *x0, const float *x1, float *y, int size) {
	each(run, first, capacity, size, [&](int i) { y[i] = x0[i] + x1[i]; });
}

KERNEL __launch_bounds__(256) add_grad(const Run *run, int first, int capacity, const float *dy, float *dx, int add, int size) {
	each(run, first, capacity, size, [&](int i) { put(dx + i, dy[i], add); });
}
