// GELU: x·Φ(x), Φ being the normal distribution's, whose density is φ.
#pragma once
#include "activation.cuh"

// largest is where all that follows has become 0: beyond 15, exp(−a²/2) is below 2⁻¹⁶². NaN stays.
static __device__ __forceinline__ float largest(float a) { return a > 15 ? 15 : a; }

// ratio is Φ(−a)/exp(−a²/2) for 0 <= a <= 15. Times a+2 it is smooth in a/(a+2); the polynomial interpolates it at Chebyshev's nodes and errs by 2^-24.5.
static __device__ __forceinline__ float ratio(float a) {
	float d = 1 / (a + 2), u = a * d, y = -0x1.fa1596p-5f;
	y = fmaf(y, u, 0x1.54d682p-2f);
	y = fmaf(y, u, -0x1.3f567ep-1f);
	y = fmaf(y, u, 0x1.12756ap-1f);
	y = fmaf(y, u, -0x1.41fe48p-2f);
	y = fmaf(y, u, 0x1.2835d2p-3f);
	y = fmaf(y, u, 0x1.5dd56p-4f);
	y = fmaf(y, u, 0x1.65f95cp-4f);
	y = fmaf(y, u, -0x1.888e5ap-3f);
	y = fmaf(y, u, -0x1.31083ep-1f);
	y = fmaf(y, u, 1);
	return d * y;
}

// bell is factor·exp(−a²/2) for 0 <= a <= 15, as exp of activation.cuh. What the square leaves behind its first 24 digits goes into the
// exponent too, and the power of two comes last, so that small results round once.
static __device__ __forceinline__ float bell(float a, float factor) {
	float h = -0.5f * (a * a), rest = -0.5f * fmaf(a, a, 2 * h);
	const float shift = 0x1.8p23f;
	float shifted = fmaf(h, 0x1.715476p0f, shift), k = shifted - shift;
	int n = (int)(bits(shifted) - bits(shift));
	float r = fmaf(-k, 0x1.62e4p-1f, h);
	r = fmaf(-k, 0x1.7f7d1cp-20f, r) + rest;
	float y = 1.f / 5040;
	y = fmaf(y, r, 1.f / 720);
	y = fmaf(y, r, 1.f / 120);
	y = fmaf(y, r, 1.f / 24);
	y = fmaf(y, r, 1.f / 6);
	y = fmaf(y, r, 0.5f);
	y = fmaf(y, r, 1);
	return fmaf(factor * r, y, factor) * fromBits((uint32)(n / 2 + 127) << 23) * fromBits((uint32)(n - n / 2 + 127) << 23);
}

// Below zero the tail is multiplied before it is scaled, and nothing cancels.
static __device__ __forceinline__ float gelu(float x) {
	float a = largest(fabsf(x)), m = ratio(a), tail = bell(a, x < 0 ? a * m : m);
	return x < 0 ? -tail : x * (1 - tail);
}

// slope is Φ(x) + x·φ(x). That of −a is (ratio − a/√(2π))·exp(−a²/2), and that of a is the rest to 1.
static __device__ __forceinline__ float slope(float x) {
	float a = largest(fabsf(x)), below = bell(a, fmaf(-a, 0x1.988454p-2f, ratio(a)));
	return x < 0 ? below : 1 - below;
}
