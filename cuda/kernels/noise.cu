#include "grid.cuh"
#include "many.cuh"
#include "real.cuh"
#include "run.cuh"

// Normals rounded to integers, bit for bit those of package exact, whose documentation (docs/proofs/exact-noise.md) has the proofs that docs/internals/gpu.md
// goes on with.

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

static __device__ __forceinline__ double fromBits(uint64 x) { return __builtin_bit_cast(double, x); }
static __device__ __forceinline__ uint64 bits(double x) { return __builtin_bit_cast(uint64, x); }

// Row is exact.Row: c0 to c3, whose lower half is the upper one of c4.
struct __attribute__((aligned(16))) Row {
	uint64 c[4];
};

// size is |Z| for a V that begins with a word's digits, as its row gives it; infinite where V < 2^-20.
static __device__ __forceinline__ double size(uint64 word, const Row *table) {
	const int cells = 7;
	uint64 x = bits((double)(int64)((word & ~0ull >> 1) | 1));
	Row row = table[(x >> (52 - cells)) - (1023 << cells)];
	double t = fromBits((x & ((1ull << (52 - cells)) - 1)) | 1023ull << 52) - (1 + 0x1p-8);
	double z = fromBits(row.c[3] << 32);
#pragma unroll
	for (int i = 3; i >= 0; i--)
		z = fma(z, t, fromBits(row.c[i]));
	return z;
}

// Fixed is exact.Fixed, the arithmetic that decides most draws. It is right for every deviation; the larger it is, the more draws it leaves open.
struct Fixed {
	double std, magic;
	uint64 open;
	int64 whole;
	int places;
};

// exponent of x, a normal number above 0: x < 2^exponent <= 2x.
static __device__ __forceinline__ int exponent(double x) { return (int)(bits(x) >> 52) - 1022; }

static __device__ __forceinline__ Fixed fixedOf(double std) {
	const double bound = 0x1.cap-46, most = 4.95; // of the table
	int places = 51 - exponent(std * most + 1);
	int beta = exponent((std * bound + power2(-places - 1)) * (1 + 0x1p-40));
	double base = 1.5 * power2(52 - places);
	return {std, base + 0.5 + power2(beta), (1ull << places) - (1ull << (places + beta + 1)), (int64)(bits(base) >> places), places};
}

// decide sets k to a word's draw; false if its digits leave it open.
static __device__ __forceinline__ bool decide(const Fixed &f, uint64 word, const Row *table, int64 *k) {
	uint64 w = bits(fma(size(word, table), fromBits(bits(f.std) ^ (word & 1ull << 63)), f.magic));
	*k = (int64)(w >> f.places) - f.whole;
	return (w & f.open) != 0;
}

// far is |Z| for a V in [2^-128, 2^-20]: with f = z + 1/(z + 2/(z + ...)) the tail of z is 2·phi(z)/f, and -f the slope of its logarithm. Newton's method comes from
// above; the fraction's 24 levels leave less than a rounding where z > 4.8.
static __device__ __forceinline__ double far(double v) {
	double target = log(v) + 0.22579135264472744; // less log(sqrt(2/pi))
	double z = sqrt(-2 * log(v));
#pragma unroll 1
	for (int i = 0; i < 6; i++) {
		double f = z;
#pragma unroll 1
		for (int n = 24; n > 0; n--)
			f = z + n / f;
		z -= (target + z * z / 2 + log(f)) / f;
	}
	return z;
}

// above says whether std·|Z| > k + 1/2, which is whether v is less than the tail of (k+1/2)/std. std has at most 24 digits, v is at
// least 2^-128.
static __device__ __forceinline__ bool above(int64 k, double std, uint32 v) {
	if (((double)k + 0.5) / std > 13.25) // whose tail is below 2^-128
		return false;
	// Numbers with a point before their highest digit, but for x and its square, which have it behind.
	const int lane = threadX(), top = digits - 1;
	uint32 m = 1 << 23 | (uint32)(bits(std) >> 29 & 0x7fffff);
	uint64 n = (uint64)(2 * k + 1) << (31 - (exponent(std) - 24)); // m·x·2^32
	uint32 x = quotient(0, lane == top ? (uint32)(n >> 32) : lane == top - 1 ? (uint32)n : 0, m);
	uint32 square = part(product(x, x), top);

	// exp(-x^2/2) is exp(-y) squared 31 times. As a number with its point before the highest digit, square is y, below 2^-24.
	uint32 e = complement(0);
#pragma unroll 1
	for (int i = 15; i > 0; i--)
		e = complement(quotient(0, part(product(square, e), digits), i));
#pragma unroll 1
	for (int i = 0; i < 31; i++)
		e = part(product(e, e), digits);

	// P(|Z| < x) is the sum of 2·phi(x)·x^(2i+1)/(1·3·...·(2i+1)), whose terms are all less than 1.
	uint32 term = part(product(part(product(lane < digits ? rootTwoOverPi[lane] : 0, e), digits), x), top), sum = term;
#pragma unroll 1
	for (uint32 i = 3; any(term); i += 2) {
		uint32 p = product(term, square);
		term = quotient(at(p, 2 * digits - 1), part(p, top), i);
		sum = plus(sum, term);
	}
	return less(v, complement(sum));
}

// rounded is |round(std·Z)| for a V of 384 digits that begins with a word's.
static __device__ __forceinline__ int64 rounded(uint64 word, uint32 v, double std, const Row *table) {
	if (any(v) >> (digits - 4) == 0)
		return (int64)(13.2 * std); // V < 2^-128
	double z = size(word, table);
	if (!(z < 16)) {
		double x = 0;
#pragma unroll 1
		for (int i = 0; i < digits; i++)
			x = (x + at(v, i)) * 0x1p-32;
		z = far(x);
	}
	// The least k that is not below std·|Z| - 1/2.
	int64 k = (int64)(std * z);
	for (bool up = false, down = false;;) {
		if (above(k, std, v)) {
			k++;
			up = true;
			if (down)
				return k;
		} else {
			if (up || k == 0)
				return k;
			k--;
			down = true;
		}
	}
}

// units is round(x/step), of what is within 2^49 steps.
static __device__ __forceinline__ int64 units(double x, double step) {
	double most = 0x1p49 * step;
	x = x > -most ? x : -most; // for NaN too
	x = x < most ? x : most;
	return (int64)__builtin_rint(x * (1 / step));
}
static __device__ __forceinline__ int64 units(int64 x, double) { return x; }

static __device__ __forceinline__ float unnoised(double x, double) { return (float)x; }
static __device__ __forceinline__ float unnoised(int64 x, double step) { return (float)((double)x * step); }

// releaseDecided releases what the first digits decide. Of what they leave open it notes the places, a bit each, and leaves the rounded sum.
template <typename T>
static __device__ __forceinline__ void releaseDecided(const Run *run, float *dst, T *sum, int n, const uint32 *key, uint32 tensor, float std, double step,
                                                      const Row *table, uint8 *open) {
	int64 g = index(), from = 8 * g;
	if (from >= n)
		return;
	uint32 left = 0;
	if (std == 0) {
#pragma unroll
		for (int j = 0; j < 8; j++)
			if (from + j < n) {
				dst[from + j] = unnoised(sum[from + j], step);
				sum[from + j] = 0;
			}
	} else {
		uint32 x[16];
		block(x, key, (uint32)g, tensor, run->draw);
		Fixed f = fixedOf((double)std / step);
		int64 k[8];
#pragma unroll
		for (int j = 0; j < 8; j++) // no draw waits for another
			if (!decide(f, (uint64)x[2 * j + 1] << 32 | x[2 * j], table, k + j) && from + j < n)
				left |= 1u << j;
#pragma unroll
		for (int j = 0; j < 8; j++)
			if (from + j < n) {
				int64 whole = units(sum[from + j], step);
				if (left >> j & 1) {
					((int64 *)sum)[from + j] = whole;
				} else {
					dst[from + j] = (float)((double)(whole + k[j]) * step);
					sum[from + j] = 0;
				}
			}
	}
	open[g] = (uint8)left;
}

KERNEL __launch_bounds__(64) release(const Run *run, float *dst, double *sum, int n, const uint32 *key, uint32 tensor, int std, int step,
                                     const Row *table, uint8 *open) {
	releaseDecided(run, dst, sum, n, key, tensor, run->scalars[std], run->scalars[step], table, open);
}

KERNEL __launch_bounds__(64) grid_release(const Run *run, float *dst, int64 *sum, int n, const uint32 *key, uint32 tensor, int std,
                                          const Row *table, uint8 *open) {
	releaseDecided(run, dst, sum, n, key, tensor, run->scalars[std], gridOf(run->scalars[slot::Clip]).step, table, open);
}

// A warp decides one draw after the other.
KERNEL __launch_bounds__(32) release_open(const Run *run, float *dst, int64 *units, int n, const uint32 *key, uint32 tensor, int std, int step,
                                          const Row *table, const uint8 *open) {
	int lane = threadX(), first = 32 * blockX();
	uint32 mine = first + lane < (n + 7) / 8 ? open[first + lane] : 0;
	for (uint32 lanes = any(mine); lanes != 0; lanes &= lanes - 1) {
		int from = __builtin_ctz(lanes);
		for (uint32 left = at(mine, from); left != 0; left &= left - 1) {
			int place = __builtin_ctz(left), i = 8 * (first + from) + place;
			uint32 x[16], low = 0, high = 0;
			block(x, key, (uint32)(first + from), tensor, run->draw);
#pragma unroll
			for (int j = 0; j < 8; j++)
				if (place == j)
					low = x[2 * j], high = x[2 * j + 1];
			block(x, key, (uint32)i, tensor | 1u << 31, run->draw);
			uint64 word = (uint64)high << 32 | low;
			double grid = run->scalars[step];
			int64 k = rounded(word, uniform(word, [&](int j) INLINE { return x[j]; }), (double)run->scalars[std] / grid, table);
			if (lane == 0) {
				dst[i] = (float)((double)(units[i] + (high >> 31 ? -k : k)) * grid);
				units[i] = 0;
			}
		}
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

KERNEL __launch_bounds__(32) draws(int64 *dst, const uint64 *words, const uint32 *more, double std, const Row *table) {
	int i = blockX();
	int64 k = rounded(words[i], uniform(words[i], [&](int j) INLINE { return more[16 * i + j]; }), std, table), quick;
	if (!decide(fixedOf(std), words[i], table, &quick))
		quick = (int64)(1ull << 63);
	if (threadX() == 0) {
		dst[2 * i] = quick;
		dst[2 * i + 1] = words[i] >> 63 ? -k : k;
	}
}
