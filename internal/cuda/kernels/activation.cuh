// Activations and their derivatives, as package plan numbers and defines them.
#pragma once
#include "common.cuh"

enum Activation { Identity, ReLU = 2, Tanh, Sigmoid };

// exp errs by less than 1.5 units in the last place. x = k·ln 2 + r with |r| < 0.35; the Taylor series of exp(r) up to r⁷ leaves less than
// 5.3e-9 of it. The power of two is multiplied in two parts, so that small results round once.
static __device__ __forceinline__ float exp(float x) {
	if (!(x < 88.8f))
		return x * __builtin_inff(); // NaN stays NaN
	if (x < -104)
		return 0;
	const float shift = 0x1.8p23f; // a sum with it ends at the units
	float shifted = fmaf(x, 0x1.715476p0f, shift), k = shifted - shift;
	int n = (int)(bits(shifted) - bits(shift));
	float r = fmaf(-k, 0x1.62e4p-1f, x); // exact: the constant, ln 2 rounded to 15 bits, leaves room for k
	r = fmaf(-k, 0x1.7f7d1cp-20f, r);
	float y = 1.f / 5040;
	y = fmaf(y, r, 1.f / 720);
	y = fmaf(y, r, 1.f / 120);
	y = fmaf(y, r, 1.f / 24);
	y = fmaf(y, r, 1.f / 6);
	y = fmaf(y, r, 0.5f);
	y = fmaf(y, r, 1);
	y = fmaf(y, r, 1);
	return y * fromBits((uint32)(n / 2 + 127) << 23) * fromBits((uint32)(n - n / 2 + 127) << 23);
}

// tanh: below 0.625 x + x³·P(x²), P minimax for the relative error, of which it has less than 2⁻³²; above, 1 − 2/(exp(2x)+1).
static __device__ __forceinline__ float tanh(float x) {
	float a = fabsf(x);
	if (a < 0.625f) {
		float z = x * x, p = 0x1.18e09ap-9f;
		p = fmaf(p, z, -0x1.0bf49cp-7f);
		p = fmaf(p, z, 0x1.638b44p-6f);
		p = fmaf(p, z, -0x1.b9ee8ep-5f);
		p = fmaf(p, z, 0x1.111066p-3f);
		p = fmaf(p, z, -0x1.555554p-2f);
		return fmaf(x * z, p, x);
	}
	float t = a < 10 ? 1 - 2 / (exp(2 * a) + 1) : a >= 10 ? 1 : a;
	return __builtin_copysignf(t, x);
}

static __device__ __forceinline__ float sigmoid(float x) {
	float e = exp(-fabsf(x));
	return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// A NaN is not below zero and stays one.
static __device__ __forceinline__ float relu(float x) { return x < 0 ? 0 : x; }

static __device__ __forceinline__ float activate(int act, float x) {
	switch (act) {
	case ReLU:
		return relu(x);
	case Tanh:
		return tanh(x);
	case Sigmoid:
		return sigmoid(x);
	}
	return x;
}

// passBack is the gradient at the input of an activation that gave y, from d at its output.
static __device__ __forceinline__ float passBack(int act, float y, float d) {
	switch (act) {
	case ReLU:
		return y > 0 ? d : 0;
	case Tanh:
		return d * fmaf(-y, y, 1);
	case Sigmoid:
		return d * (y * (1 - y));
	}
	return d;
}
