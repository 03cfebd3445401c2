// Ops that work on each element by itself, of values in pixels. A thread has a unit. All but the sigmoid give zero for zero, and so leave
// channels that do not exist as they are.
#include "gelu.cuh"
#include "run.cuh"
#include "units.cuh"

// each does f(i) for the first element of every unit of the live examples, which have size elements.
template <class E, class F> static __device__ __forceinline__ void each(const Run *run, int first, int capacity, int size, F f) {
	int i = index();
	if (i < liveRows(run, first, capacity) * (size / E::UNIT))
		f(i * E::UNIT);
}

template <class E, class F>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, const typename E::Element *x, typename E::Element *y,
                                               int size, F f) {
	each<E>(run, first, capacity, size, [&](int i) INLINE {
		float v[E::UNIT];
		load<E>(x + i, v);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			v[k] = f(v[k]);
		store<E>(y + i, v);
	});
}

// sigmoids leaves out the channels that do not exist.
template <class E>
static __device__ __forceinline__ void sigmoids(const Run *run, int first, int capacity, const typename E::Element *x, typename E::Element *y,
                                                int size, int channels) {
	each<E>(run, first, capacity, size, [&](int i) INLINE {
		float v[E::UNIT];
		load<E>(x + i, v);
		int exist = channels % EIGHT ? channels - i % padded(channels) : E::UNIT;
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			v[k] = k < exist ? sigmoid(v[k]) : 0;
		store<E>(y + i, v);
	});
}

// backward makes dx of two values a and b, by f.
template <class E, class F>
static __device__ __forceinline__ void backward(const Run *run, int first, int capacity, const typename E::Element *a,
                                                const typename E::Element *b, typename E::Element *dx, int add, int size, F f) {
	each<E>(run, first, capacity, size, [&](int i) INLINE {
		float v[E::UNIT], d[E::UNIT];
		load<E>(a + i, v);
		load<E>(b + i, d);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			d[k] = f(v[k], d[k]);
		give<E>(dx + i, d, add);
	});
}

#define FORWARD(NAME, E, SUFFIX, F)                                                                                                        \
	KERNEL __launch_bounds__(256) NAME##_forward_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x, E::Element *y, int size) { \
		forward<E>(run, first, capacity, x, y, size, [](float v) INLINE { return F; });                                                    \
	}
#define BACKWARD(NAME, E, SUFFIX, F)                                                                                                       \
	KERNEL __launch_bounds__(256) NAME##_grad_##SUFFIX(const Run *run, int first, int capacity, const E::Element *y, const E::Element *dy,  \
	                                                   E::Element *dx, int add, int size) {                                                \
		backward<E>(run, first, capacity, y, dy, dx, add, size, [](float v, float d) INLINE { return F; });                                \
	}
#define ELEMENT(E, SUFFIX)                                                                                                                 \
	FORWARD(relu, E, SUFFIX, relu(v))                                                                                                      \
	FORWARD(tanh, E, SUFFIX, tanh(v))                                                                                                      \
	FORWARD(gelu, E, SUFFIX, gelu(v))                                                                                                      \
	BACKWARD(relu, E, SUFFIX, passBack(ReLU, v, d))                                                                                        \
	BACKWARD(tanh, E, SUFFIX, passBack(Tanh, v, d))                                                                                        \
	BACKWARD(sigmoid, E, SUFFIX, passBack(Sigmoid, v, d))                                                                                  \
	BACKWARD(gelu, E, SUFFIX, d *slope(v))                                                                                                 \
	KERNEL __launch_bounds__(256) sigmoid_forward_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x, E::Element *y,     \
	                                                       int size, int channels) {                                                       \
		sigmoids<E>(run, first, capacity, x, y, size, channels);                                                                           \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256) leakyrelu_forward_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x, E::Element *y,   \
	                                                         int size, float slope) {                                                      \
		forward<E>(run, first, capacity, x, y, size, [=](float v) INLINE { return v < 0 ? slope * v : v; });                               \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256) leakyrelu_grad_##SUFFIX(const Run *run, int first, int capacity, const E::Element *y,                     \
	                                                      const E::Element *dy, E::Element *dx, int add, int size, float slope) {          \
		backward<E>(run, first, capacity, y, dy, dx, add, size, [=](float v, float d) INLINE { return v > 0 ? d : slope * d; });           \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256) add_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x0, const E::Element *x1,         \
	                                           E::Element *y, int act, int size) {                                                         \
		backward<E>(run, first, capacity, x0, x1, y, 0, size, [=](float v, float d) INLINE { return act ? relu(v + d) : v + d; });         \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(256) add_grad_##SUFFIX(const Run *run, int first, int capacity, const E::Element *dy, E::Element *dx, int add, \
	                                                int size) {                                                                            \
		each<E>(run, first, capacity, size, [&](int i) INLINE {                                                                            \
			float d[E::UNIT];                                                                                                              \
			load<E>(dy + i, d);                                                                                                            \
			give<E>(dx + i, d, add);                                                                                                       \
		});                                                                                                                                \
	}
ELEMENT(TF32, tf32)
ELEMENT(BF16, bf16)
