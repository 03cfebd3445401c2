#include "run.cuh"

// ChaCha20, RFC 8439 section 2.3, with the block counter, the tensor and the draw in words 12 to 15.

static __device__ __forceinline__ void quarter(uint32 &a, uint32 &b, uint32 &c, uint32 &d) {
	a += b, d = __builtin_rotateleft32(d ^ a, 16);
	c += d, b = __builtin_rotateleft32(b ^ c, 12);
	a += b, d = __builtin_rotateleft32(d ^ a, 8);
	c += d, b = __builtin_rotateleft32(b ^ c, 7);
}

static __device__ __forceinline__ void block(uint32 *x, const uint32 *key, uint32 counter, uint32 tensor, uint64 draw) {
	uint32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
#pragma unroll
	for (int i = 0; i < 8; i++)
		start[4 + i] = key[i];
	start[12] = counter, start[13] = tensor, start[14] = (uint32)draw, start[15] = (uint32)(draw >> 32);
#pragma unroll
	for (int i = 0; i < 16; i++)
		x[i] = start[i];
#pragma unroll 1
	for (int round = 0; round < 20; round += 2) {
		quarter(x[0], x[4], x[8], x[12]);
		quarter(x[1], x[5], x[9], x[13]);
		quarter(x[2], x[6], x[10], x[14]);
		quarter(x[3], x[7], x[11], x[15]);
		quarter(x[0], x[5], x[10], x[15]);
		quarter(x[1], x[6], x[11], x[12]);
		quarter(x[2], x[7], x[8], x[13]);
		quarter(x[3], x[4], x[9], x[14]);
	}
#pragma unroll
	for (int i = 0; i < 16; i++)
		x[i] += start[i];
}

// The normals of package stream in float32. With u = 2^-24, a radius is right to 1.7u, a sine or cosine to 2.5u, and their
// product to 5.2u = 3.1e-7, relatively; what is left out below that of the integers' last digits is far below 1e-14.

// radius is sqrt(-2 ln u), u = (x+1/2)/2^64. With w = min(u, 1-u), as high + low, -ln u is
//
//	2 artanh(w/(2-w)) for u > 1/2,   E ln 2 + 2 artanh((1-m)/(1+m)) for w = m/2^E, sqrt(1/2) <= m < sqrt(2);
//
// nothing cancels in either. The quotient is q with a correction, so that -ln u has one full rounding, its last: the rest of the
// series, at most 0.04 of the whole, brings 0.2u, and the correction's own slope, at most 1.13 and taken as 1, another 0.2u.
static __device__ float radius(uint64 x) {
	bool above = x >> 63;
	uint64 n = above ? ~x : x; // w = (n+1/2)/2^64
	float high = (float)(int64)n, low = (float)(int64)(n - (uint64)high), whole = high + 0.5f;
	low += 0.5f - (whole - high);
	high = whole;

	float numerator, more, denominator, rest, e; // numerator + more, denominator + rest
	if (above) {
		numerator = high * 0x1p-64f, more = low * 0x1p-64f;
		denominator = 2 - numerator;
		rest = (2 - denominator) - numerator - more;
		e = 0;
	} else {
		int shift = (int)(bits(high) - 0x3f3504f3) >> 23; // sqrt(1/2)
		float m = fromBits(bits(high) - ((uint32)shift << 23));
		more = low * fromBits((uint32)(127 - shift) << 23);
		numerator = 1 - m;
		denominator = 1 + m;
		rest = m - (denominator - 1) + more;
		more = -more;
		e = (float)(64 - shift);
	}
	float inverse = 1 / denominator, q = numerator * inverse;
	float correction = (fmaf(-q, denominator, numerator) + fmaf(-q, rest, more)) * inverse;
	float z = q * q, series = 1.f / 15;
	series = fmaf(series, z, 1.f / 13);
	series = fmaf(series, z, 1.f / 11);
	series = fmaf(series, z, 1.f / 9);
	series = fmaf(series, z, 1.f / 7);
	series = fmaf(series, z, 1.f / 5);
	series = fmaf(series, z, 1.f / 3);
	float tail = fmaf(q * z, series, correction);
	float most = e * 0x1.62e4p-1f; // ln 2 in 17 digits: exact
	float sum = most + 2 * q, lost = 2 * q - (sum - most);
	return sqrtf(2 * (sum + (lost + fmaf(e, 0x1.7f7d1cp-20f, 2 * tail))));
}

// turn sets the sine and cosine of the angle y: two bits choose the quadrant, the other 62 an offset t within pi/4.
static __device__ void turn(uint64 y, float *sine, float *cosine) {
	int64 n = (int64)(y << 2) >> 2; // t = (n+1/8)·2^-62·pi/2
	float high = (float)n, low = (float)(n - (int64)high) + 0.125f;
	const float unit = 0x1.921fb6p-62f, less = -0x1.777a5cp-87f; // unit + less = 2^-62·pi/2
	float t = fmaf(high, unit, fmaf(low, unit, high * less)), z = t * t;
	float s = fmaf(z, 1.f / 362880, -1.f / 5040);
	s = fmaf(s, z, 1.f / 120);
	s = fmaf(s, z, -1.f / 6);
	s = fmaf(t * z, s, t);
	float c = fmaf(z, -1.f / 3628800, 1.f / 40320);
	c = fmaf(c, z, -1.f / 720);
	c = fmaf(c, z, 1.f / 24);
	c = fmaf(c, z, -0.5f);
	c = fmaf(c, z, 1);
	uint32 k = (uint32)(y >> 62);
	float odd = k & 1 ? c : s, even = k & 1 ? s : c;
	*sine = fromBits(bits(odd) ^ k >> 1 << 31);
	*cosine = fromBits(bits(even) ^ (k ^ k >> 1) << 31);
}

// pair makes two normals of two words.
static __device__ void pair(uint64 x, uint64 y, float *z) {
	float r = radius(x), sine, cosine;
	turn(y, &sine, &cosine);
	z[0] = r * cosine;
	z[1] = r * sine;
}

KERNEL __launch_bounds__(64) release(const Run *run, float *dst, double *sum, int n, const uint32 *key, uint32 tensor, int std) {
	int64 g = index(), from = 8 * g;
	if (from >= n)
		return;
	double s = run->scalars[std];
	float z[8] = {};
	if (s != 0) {
		uint32 x[16];
		block(x, key, (uint32)g, tensor, run->draw);
#pragma unroll
		for (int p = 0; p < 4; p++)
			pair((uint64)x[4 * p + 1] << 32 | x[4 * p], (uint64)x[4 * p + 3] << 32 | x[4 * p + 2], z + 2 * p);
	}
#pragma unroll
	for (int j = 0; j < 8; j++)
		if (from + j < n) {
			dst[from + j] = (float)fma(s, (double)z[j], sum[from + j]);
			sum[from + j] = 0;
		}
}

KERNEL __launch_bounds__(64) keystream(uint32 *dst, int n, const uint32 *key, uint64 draw, uint32 tensor, uint32 first) {
	int64 g = index();
	if (g >= n)
		return;
	uint32 x[16];
	block(x, key, first + (uint32)g, tensor, draw);
#pragma unroll
	for (int i = 0; i < 16; i++)
		dst[16 * g + i] = x[i];
}

KERNEL __launch_bounds__(64) normals(float *dst, const uint64 *words, int pairs) {
	int64 p = index();
	if (p >= pairs)
		return;
	float z[2];
	pair(words[2 * p], words[2 * p + 1], z);
	dst[2 * p] = z[0];
	dst[2 * p + 1] = z[1];
}
