// exp and log in float64, for the few numbers of a loss.
#pragma once
#include "common.cuh"

static __device__ __forceinline__ double power2(int k) { return __builtin_bit_cast(double, (uint64)(k + 1023) << 52); }

// exp errs by less than 2 units in the last place. x = k·ln 2 + r with |r| < 0.35; the Taylor series of exp(r) up to r^13
// leaves less than 5e-18. The power is multiplied in two parts, so that small results round once.
[[maybe_unused]] static __device__ double exp(double x) {
	if (!(x < 709.8))
		return x * __builtin_inf(); // NaN stays NaN
	if (x < -745.2)
		return 0;
	const double shift = 0x1.8p52; // a sum with it ends at the units
	double shifted = fma(x, 0x1.71547652b82fep0, shift), k = shifted - shift;
	int n = (int)__builtin_bit_cast(uint64, shifted);
	double r = fma(-k, 0x1.62e42fefa39efp-1, x);
	r = fma(-k, 0x1.abc9e3b39803fp-56, r);
	double y = 1. / 6227020800;
	y = fma(y, r, 1. / 479001600);
	y = fma(y, r, 1. / 39916800);
	y = fma(y, r, 1. / 3628800);
	y = fma(y, r, 1. / 362880);
	y = fma(y, r, 1. / 40320);
	y = fma(y, r, 1. / 5040);
	y = fma(y, r, 1. / 720);
	y = fma(y, r, 1. / 120);
	y = fma(y, r, 1. / 24);
	y = fma(y, r, 1. / 6);
	y = fma(y, r, 0.5);
	y = fma(y, r, 1);
	y = fma(y, r, 1);
	return y * power2(n / 2) * power2(n - n / 2);
}

// twiceArtanh is 2·artanh(s) for 0 <= |s| <= 1/3, by its series up to s^33, which leaves less than 4e-19 of it.
static __device__ double twiceArtanh(double s) {
	double z = s * s, y = 1. / 33;
#pragma unroll
	for (int n = 31; n > 1; n -= 2)
		y = fma(y, z, 1. / n);
	return 2 * fma(s * z, y, s);
}

// log1p is log(1+x) for 0 <= x <= 1, which is 2·artanh(x/(2+x)).
[[maybe_unused]] static __device__ double log1p(double x) { return twiceArtanh(x / (2 + x)); }

// log of a normal number above 0. NaN and infinity stay as they are.
[[maybe_unused]] static __device__ double log(double x) {
	if (!(x < __builtin_inf()))
		return x;
	uint64 b = __builtin_bit_cast(uint64, x);
	const uint64 root = 0x3fe6a09e667f3bcd; // of 1/2
	int e = (int)((int64)(b - root) >> 52);
	double m = __builtin_bit_cast(double, b - ((uint64)(int64)e << 52)); // in [0.7, 1.42)
	return fma(e, 0x1.62e42fefa39efp-1, twiceArtanh((m - 1) / (m + 1)) + e * 0x1.abc9e3b39803fp-56);
}
