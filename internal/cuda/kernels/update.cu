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

KERNEL __launch_bounds__(256) adam(const Run *run, int n, float *p, const float *g, float *m, float *v) {
	int i = (int)index();
	const float *s = run->scalars;
	if (i >= n)
		return;
	float d = gradient(s, g[i], p[i]);
	float mean = fmaf(s[Beta1], m[i], (1 - s[Beta1]) * d);
	float square = fmaf(s[Beta2], v[i], (1 - s[Beta2]) * (d * d));
	m[i] = mean;
	v[i] = square;
	float signal = 1 / s[Bias2] * square - s[Variance];
	if (signal < s[Floor]) // a NaN stays
		signal = s[Floor];
	p[i] -= s[Rate] / s[Bias1] * mean / (sqrtf(signal) + s[Epsilon]);
}

KERNEL __launch_bounds__(256) average(const Run *run, int n, float *p, const float *g) {
	int i = (int)index();
	float blend = run->scalars[Blend];
	if (i < n)
		p[i] = blend == 1 ? g[i] : fmaf(blend, g[i] - p[i], p[i]);
}
