#include "descent.cuh"

// device.Slot
using namespace slot;

KERNEL __launch_bounds__(256) sgd(const Run *run, int n, float *p, const float *g) {
	int i = (int)index();
	if (i < n)
		p[i] = descended(run->scalars, g[i], p[i]);
}

KERNEL __launch_bounds__(256) heavy_ball(const Run *run, int n, float *p, const float *g, float *m) {
	int i = (int)index();
	const float *s = run->scalars;
	if (i >= n)
		return;
	float moved = fmaf(s[Momentum], m[i], gradient(s, g[i], p[i]));
	m[i] = moved;
	p[i] = fmaf(-s[Rate], moved, p[i]);
}

// adapted is a parameter after a step of Adam by gradient d, whose moments it moves.
static __device__ __forceinline__ float adapted(const float *s, float p, float d, float &m, float &v) {
	float mean = fmaf(s[Beta1], m, (1 - s[Beta1]) * d);
	float square = fmaf(s[Beta2], v, (1 - s[Beta2]) * (d * d));
	m = mean, v = square;
	float signal = 1 / s[Bias2] * square - s[Variance];
	if (signal < s[Floor]) // a NaN stays
		signal = s[Floor];
	return p - s[Rate] / s[Bias1] * mean / (sqrtf(signal) + s[Epsilon]);
}

KERNEL __launch_bounds__(256) adam(const Run *run, int n, float *p, const float *g, float *m, float *v) {
	int i = (int)index();
	const float *s = run->scalars;
	if (i < n)
		p[i] = adapted(s, p[i], gradient(s, g[i], p[i]), m[i], v[i]);
}

KERNEL __launch_bounds__(256) adam_w(const Run *run, int n, float *p, const float *g, float *m, float *v) {
	int i = (int)index();
	const float *s = run->scalars;
	if (i < n)
		p[i] = adapted(s, fmaf(-s[Rate] * s[L2], p[i], p[i]), s[Scale] * g[i], m[i], v[i]);
}

KERNEL __launch_bounds__(256) average(const Run *run, int n, float *p, const float *g) {
	int i = (int)index();
	float blend = run->scalars[Blend];
	if (i < n)
		p[i] = blend == 1 ? g[i] : fmaf(blend, g[i] - p[i], p[i]);
}
